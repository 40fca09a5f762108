"""Translation of documents: units are filled in, everything else is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nearmt.config.filling import FillConfig
    from nearmt.documents.document import FillSummary, fill_document, filled_parts, is_to_fill
    from nearmt.documents.filled import FilledUnit
    from nearmt.documents.filling import Filler

# Imported when first used: the checks of translations need neither torch nor a model.
_HOME_OF = {
    "FillConfig": "nearmt.config.filling",
    "FillSummary": "nearmt.documents.document",
    "FilledUnit": "nearmt.documents.filled",
    "Filler": "nearmt.documents.filling",
    "fill_document": "nearmt.documents.document",
    "filled_parts": "nearmt.documents.document",
    "is_to_fill": "nearmt.documents.document",
}

__all__ = ["FillConfig", "FillSummary", "FilledUnit", "Filler", "fill_document", "filled_parts", "is_to_fill"]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'nearmt.documents' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(_HOME_OF[name]), name)
