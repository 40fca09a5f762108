"""Finding pairs by any text in them, as a person types it: without regard to letter case, in either side."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from nearmt.contracts import Pair
from nearmt.corpus import clean
from nearmt.datastore.disk import AnySegment, Segment

#: Bytes of stored pairs that are searched at a time, so that other threads run in between.
_WINDOW = 1 << 22
#: Pairs that are read to see whether they have the text. Almost every pair has a letter such as `e`.
MOST_READ = 20_000
#: How the source and the target of a stored pair begin, and what follows the target. Quotes inside are escaped.
_SOURCE, _TARGET, _REST = b'", "source": "', b'", "target": "', b'", "origin": "'
#: What is the same in JSON, and has one spelling in lower case.
_ASCII = re.compile(r"[!#-\[\]-~](?:[ !#-\[\]-~]*[!#-\[\]-~])?")
#: Shorter runs are in almost every pair.
_LONG_ENOUGH = 3


@dataclass(frozen=True)
class FoundPairs:
    """Some of the pairs with a text, in corpus order."""

    pairs: tuple[Pair, ...]
    #: How many pairs have it, as far as the search came.
    total: int
    #: Whether all pairs were searched.
    complete: bool


def pairs_containing(
    segments: Sequence[AnySegment], seen_P: np.ndarray | None, text: str, offset: int, limit: int
) -> FoundPairs:
    """Pairs whose source or target has a text; `seen_P` says which pairs are visible, None stands for all."""
    wanted = clean(text).lower()
    if not wanted:
        return _all_pairs(segments, seen_P, offset, limit)
    found: list[Pair] = []
    total = read = 0
    start = 0
    for segment in segments:
        for number in _candidates(segment, wanted):
            if seen_P is not None and not seen_P[start + number]:
                continue
            read += 1
            if read > MOST_READ:
                return FoundPairs(tuple(found), total, complete=False)
            pair = segment.pair(number)
            if wanted in clean(pair.source).lower() or wanted in clean(pair.target).lower():
                total += 1
                if offset < total <= offset + limit:
                    found.append(pair)
        start += segment.record.pairs
    return FoundPairs(tuple(found), total, complete=True)


def _all_pairs(segments: Sequence[AnySegment], seen_P: np.ndarray | None, offset: int, limit: int) -> FoundPairs:
    """Some of all visible pairs."""
    counts = [segment.record.pairs for segment in segments]
    seen_P = np.ones(sum(counts), dtype=bool) if seen_P is None else seen_P
    starts, found = np.cumsum([0, *counts]), list[Pair]()
    for number in np.flatnonzero(seen_P)[offset : offset + limit].tolist():
        place = int(np.searchsorted(starts, number, "right")) - 1
        found.append(segments[place].pair(number - int(starts[place])))
    return FoundPairs(tuple(found), int(seen_P.sum()), complete=True)


def _candidates(segment: AnySegment, wanted: str) -> Iterator[int]:
    """The numbers of pairs that may have a text, ascending."""
    if not isinstance(segment, Segment):
        yield from range(segment.record.pairs)
        return
    needles = _needles(wanted)
    for first, last in _windows(segment):
        lines = segment.lines(first, last)
        text = lines.tobytes().lower()
        starts = (segment.line_starts(first, last) - int(segment.line_starts(first, last)[0])).tolist()
        places = sorted({number for needle in needles for number in _lines_with(text, starts, needle)})
        yield from (first + number for number in places)


def _needles(wanted: str) -> list[bytes]:
    """Byte strings of which a stored pair has one, in lower case, if it has the text.

    Only ASCII letters can be compared without regard to case as bytes: of a text that has some, its longest run of
    them is looked for; of another one, its usual spellings.
    """
    longest = max(_ASCII.findall(wanted), key=len, default="")
    if len(longest) >= _LONG_ENOUGH or longest == wanted:
        return [longest.encode()]
    spellings = (wanted, wanted.upper(), wanted.title(), wanted.capitalize())
    as_stored = (json.dumps(spelling, ensure_ascii=False)[1:-1] for spelling in spellings)
    return list({text.encode(errors="replace").lower() for text in as_stored})


def _windows(segment: Segment) -> Iterator[tuple[int, int]]:
    """Spans of pairs that are about as long as a window."""
    pairs = segment.record.pairs
    starts = segment.line_starts(0, pairs)
    cuts = np.searchsorted(starts, np.arange(0, int(starts[-1]), _WINDOW))
    yield from ((first, last) for first, last in pairwise([*dict.fromkeys(cuts.tolist()), pairs]) if first < last)


def _lines_with(text: bytes, starts: list[int], needle: bytes) -> Iterator[int]:
    """The numbers of lines with a byte string in their source or target."""
    at = text.find(needle)
    while at >= 0:
        number = bisect_right(starts, at) - 1
        start, end = starts[number], starts[number + 1]
        source = text.find(_SOURCE, start, end)
        target, rest = text.find(_TARGET, source, end), text.find(_REST, source, end)
        if min(source, target, rest) < 0 or (
            text.find(needle, source + len(_SOURCE), target) >= 0 or text.find(needle, target + len(_TARGET), rest) >= 0
        ):  # written by another version
            yield number
        at = text.find(needle, end)
