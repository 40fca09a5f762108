"""Translating documents: their units are filled in, everything else stays as it is."""

from nearmt.config.filling import FillConfig
from nearmt.documents.filling import FilledUnit, Filler
from nearmt.documents.walking import FillSummary, fill_document, filled_parts, is_to_fill

__all__ = ["FillConfig", "FillSummary", "FilledUnit", "Filler", "fill_document", "filled_parts", "is_to_fill"]
