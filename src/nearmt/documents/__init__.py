"""Translation of documents: units are filled in, everything else is kept."""

from nearmt.config.filling import FillConfig
from nearmt.documents.document import FillSummary, fill_document, filled_parts, is_to_fill
from nearmt.documents.filled import FilledUnit
from nearmt.documents.filling import Filler

__all__ = ["FillConfig", "FillSummary", "FilledUnit", "Filler", "fill_document", "filled_parts", "is_to_fill"]
