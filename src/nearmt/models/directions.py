"""The direction of a model from its files, without loading it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from nearmt.models.embedded import EMBEDDED
from nearmt.models.languages import check_direction

if TYPE_CHECKING:
    from nearmt.models import ModelConfig

#: How the vocabulary of a Marian model with several target languages names a language.
_TAG = b'">>'


def known_direction(config: ModelConfig) -> tuple[str | None, str | None]:
    """Source and target language as far as the settings and the model's files tell.

    A direction that the model does not have is refused, as it would be after loading.
    """
    asked = config.source_lang, config.target_lang
    folder = EMBEDDED.get(config.model, Path(config.model))
    try:
        kind = json.loads((folder / "config.json").read_bytes())["model_type"]
        stated = json.loads((folder / "tokenizer_config.json").read_bytes())
        several = _TAG in (folder / "vocab.json").read_bytes()
        known = stated.get("source_lang"), stated.get("target_lang")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return asked  # loading reports the error
    if kind != "marian" or several:
        return asked
    check_direction(config.model, asked, known)
    return asked[0] or known[0], asked[1] or known[1]
