"""Reductions that ship with embedded models."""

from __future__ import annotations

from nearmt.models import EMBEDDED, TranslationModel
from nearmt.models.embedded import REDUCTION
from nearmt.reduction import Reduction


def pretrained_reduction(model: TranslationModel) -> Reduction | None:
    """The reduction fitted for exactly this model and key, if one ships with nearmt."""
    folder = EMBEDDED.get(model.name)
    if folder is None or model.key_layer != "output" or not (folder / REDUCTION).exists():
        return None
    # Part of the package, whose files may be links.
    return Reduction.load((folder / REDUCTION).resolve())
