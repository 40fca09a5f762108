"""Readers and writers: translation memories as streams of pairs, documents as streams of parts."""

from nearmt.corpus.cleaning import CleaningConfig, clean
from nearmt.corpus.document import (
    Document,
    Filling,
    FillingOrigin,
    Match,
    Part,
    Segment,
    Tag,
    TagKind,
    Unit,
    plain_text,
)
from nearmt.corpus.formats import BINARY, DOCUMENTS, ONE_LANGUAGE, WITH_NOTES, check_document, format_of, open_document
from nearmt.corpus.labels import LabelsConfig
from nearmt.corpus.limits import LimitsConfig
from nearmt.corpus.lines import numbered_lines
from nearmt.corpus.reading import PairStream, read_pairs
from nearmt.corpus.report import Report, Request

__all__ = [
    "BINARY",
    "DOCUMENTS",
    "ONE_LANGUAGE",
    "WITH_NOTES",
    "CleaningConfig",
    "Document",
    "Filling",
    "FillingOrigin",
    "LabelsConfig",
    "LimitsConfig",
    "Match",
    "PairStream",
    "Part",
    "Report",
    "Request",
    "Segment",
    "Tag",
    "TagKind",
    "Unit",
    "check_document",
    "clean",
    "format_of",
    "numbered_lines",
    "open_document",
    "plain_text",
    "read_pairs",
]
