"""Reductions that ship with embedded models."""

from __future__ import annotations

from nearmt.models import EMBEDDED, TranslationModel
from nearmt.models.embedded import REDUCTION
from nearmt.reduction import Reduction


def pretrained_reduction(model: TranslationModel) -> Reduction | None:
    """The reduction that ships with nearmt for this model and key layer, if there is one."""
    folder = EMBEDDED.get(model.name)
    if folder is None or model.key_layer != "output" or not (folder / REDUCTION).exists():
        return None
    # `resolve`, because files of an installed package may be symbolic links.
    return Reduction.load((folder / REDUCTION).resolve())
