"""Protected spans of a text: what a translation repeats unchanged, such as placeholders, tags and URLs."""

from nearmt.corpus.spans.finding import find_spans
from nearmt.corpus.spans.span import MARKED, Span, SpanKind

__all__ = ["MARKED", "Span", "SpanKind", "find_spans"]
