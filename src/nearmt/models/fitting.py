"""Sources that are longer than a model's positions: split where it hurts least."""

from __future__ import annotations

import re
from collections.abc import Callable

# From the best place to cut to the worst: sentence ends, clause ends, between words. Scripts that
# write no blanks are cut right behind their marks.
_CUTS = [
    re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])\s*"),
    re.compile(r"(?<=[,;:،])\s+|(?<=[、，；：])\s*"),
    re.compile(r"\s+"),
]


def split_to_fit(text: str, count: Callable[[str], int], limit: int) -> list[str]:
    """Pieces of the text, in order, each of at most `limit` tokens; as few as a greedy walk gives."""
    if count(text) <= limit:
        return [text]
    # Every piece pays for its end of sentence and its tags once.
    overhead = count("")

    def size(part: str) -> int:
        return count(part.strip()) - overhead

    pieces: list[str] = []
    used = 0
    for part in _parts(text, size, limit - overhead):
        if pieces and used + size(part) <= limit - overhead and _adds_up(pieces[-1], part, count, limit):
            pieces[-1] += part
            used += size(part)
        else:
            pieces.append(part)
            used = size(part)
    return [piece.strip() for piece in pieces]


def _adds_up(piece: str, part: str, count: Callable[[str], int], limit: int) -> bool:
    """Whole words keep their tokens when they are joined; halves of a word may get others, and more."""
    return piece[-1:].isspace() or count(piece + part) <= limit


def _parts(text: str, size: Callable[[str], int], room: int) -> list[str]:
    """Parts that fit and that, put together, are the text: each with the blanks behind it."""
    if size(text) <= room or len(text) <= 1:
        return [text]
    parts = next((found for cut in _CUTS if len(found := _cut(text, cut)) > 1), None)
    if parts is None:
        middle = len(text) // 2
        parts = [text[:middle], text[middle:]]
    return [smaller for part in parts for smaller in _parts(part, size, room)]


def _cut(text: str, pattern: re.Pattern[str]) -> list[str]:
    ends = [match.end() for match in pattern.finditer(text) if 0 < match.end() < len(text)]
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
