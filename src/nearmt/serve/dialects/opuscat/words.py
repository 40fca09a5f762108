"""Words of a translation and those of its source, by which plug-ins put tags of a segment into its translation.

OPUS-CAT sends subwords of SentencePiece, with a mark in place of a blank. Words do as well: all that plug-ins need is
that the texts can be put together from them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from nearmt.models.alignment import Link

_BLANK = "▁"
_WORD = re.compile(r"\s*(?:\w+|[^\w\s])")


def aligned_words(source: str, target: str, links: Sequence[Link]) -> dict[str, Any]:
    """The fields of an answer that have words and their alignment; none if nothing is aligned."""
    sources, targets = (list(_WORD.finditer(text)) for text in (source, target))
    places = [(_place(sources, link.source[0]), _place(targets, link.target[0])) for link in links]
    pairs = sorted({(one, other) for one, other in places if one is not None and other is not None})
    if not pairs:
        return {"alignmentString": None}
    return {
        "segmentedSourceSentence": [_marked(found) for found in sources],
        "segmentedTranslation": [_marked(found) for found in targets],
        "alignmentString": " ".join(f"{one}-{other}" for one, other in pairs),
        "segmentedAlignmentSourceToTarget": _grouped(pairs),
        "segmentedAlignmentTargetToSource": _grouped(sorted((other, one) for one, other in pairs)),
    }


def _marked(found: re.Match[str]) -> str:
    """A word with the mark of a blank before it; the first word has one, too."""
    word = found[0].lstrip()
    return f"{_BLANK}{word}" if len(word) < len(found[0]) or not found.start() else word


def _place(words: Sequence[re.Match[str]], offset: int) -> int | None:
    """The number of the word at an offset."""
    return next((number for number, found in enumerate(words) if found.start() <= offset < found.end()), None)


def _grouped(pairs: Sequence[tuple[int, int]]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for one, other in pairs:
        grouped.setdefault(str(one), []).append(other)
    return grouped
