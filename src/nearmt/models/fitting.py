"""Split sources that are longer than a model's positions."""

from __future__ import annotations

import re
from collections.abc import Callable

# From the best boundary to the worst: sentence ends, clause ends, between words. Scripts without blanks are cut right
# after punctuation.
_CUTS = [
    re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])\s*"),
    re.compile(r"(?<=[,;:،])\s+|(?<=[、，；：])\s*"),
    re.compile(r"\s+"),
]


def split_to_fit(text: str, count: Callable[[str], int], limit: int) -> list[str]:
    """Segments of the text, in order, each of at most `limit` tokens; found greedily."""
    if count(text) <= limit:
        return [text]
    # Every segment has an end of sentence and tags of its own.
    overhead = count("")

    def size(part: str) -> int:
        return count(part.strip()) - overhead

    segments: list[str] = []
    used = 0
    for part in _parts(text, size, limit - overhead):
        if segments and used + size(part) <= limit - overhead and _adds_up(segments[-1], part, count, limit):
            segments[-1] += part
            used += size(part)
        else:
            segments.append(part)
            used = size(part)
    return [segment.strip() for segment in segments]


def _adds_up(segment: str, part: str, count: Callable[[str], int], limit: int) -> bool:
    """Whether joining keeps within the limit: whole words keep their tokens, parts of a word may get more."""
    return segment[-1:].isspace() or count(segment + part) <= limit


def _parts(text: str, size: Callable[[str], int], budget: int) -> list[str]:
    """Parts that fit and that concatenate to the text: each with the blanks that follow it."""
    if size(text) <= budget or len(text) <= 1:
        return [text]
    parts = next((found for cut in _CUTS if len(found := _cut(text, cut)) > 1), None)
    if parts is None:
        middle = len(text) // 2
        parts = [text[:middle], text[middle:]]
    return [smaller for part in parts for smaller in _parts(part, size, budget)]


def _cut(text: str, pattern: re.Pattern[str]) -> list[str]:
    ends = [match.end() for match in pattern.finditer(text) if 0 < match.end() < len(text)]
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
