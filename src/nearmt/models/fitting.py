"""Sources that are longer than a model's positions: split where it hurts least."""

from __future__ import annotations

import re
from collections.abc import Callable

# From the best place to cut to the worst: sentence ends, clause ends, between words.
_CUTS = [re.compile(r"(?<=[.!?…。！？])\s+"), re.compile(r"(?<=[,;:،、，；：])\s+"), re.compile(r"\s+")]


def split_to_fit(text: str, count: Callable[[str], int], limit: int) -> list[str]:
    """Pieces of the text, in order, each of at most `limit` tokens; as few as a greedy walk gives."""
    if count(text) <= limit:
        return [text]
    parts = next((found for cut in _CUTS if len(found := cut.split(text)) > 1), None)
    if parts is None:
        middle = len(text) // 2
        parts = [text[:middle], text[middle:]]
    pieces = [piece for part in parts for piece in split_to_fit(part, count, limit)]
    return _merge(pieces, count, limit)


def _merge(pieces: list[str], count: Callable[[str], int], limit: int) -> list[str]:
    """Join neighbours as long as the sum of their tokens fits."""
    merged: list[str] = []
    used = 0
    for piece in pieces:
        size = count(piece)
        if merged and used + size <= limit:
            merged[-1] += " " + piece
            used += size
        else:
            merged.append(piece)
            used = size
    return merged
