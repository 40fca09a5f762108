"""Pairs of a memory held out as a test set, and what remains to build from.

A pair that shares its source or its target with a held-out one would give the answer away, so it is left out of the
rest. Texts are compared without letter case and white space.

The held-out pairs are those with the smallest hashes of seed and texts. So they do not depend on the order of the
memory, and most of them stay the same when it grows.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence

from nearmt.contracts import Pair
from nearmt.corpus.cleaning import comparable, digest
from nearmt.errors import InputError

#: Candidates kept for each pair to hold out: some share a source or a target. If they do not suffice, more are kept.
_CANDIDATES = 4
#: A pair with its hash and its position in the memory.
_Candidate = tuple[int, int, Pair]


class HeldOut:
    """Sets of pairs of which no two share a source or a target."""

    def __init__(self, read: Callable[[], Iterable[Pair]], sizes: Sequence[int], seed: int = 0) -> None:
        """Choose the sets, in the order of the memory; a smaller one is the same without the ones behind it.

        `read` reads the memory from its beginning, usually once.
        """
        chosen = _chosen(read, sum(sizes), seed)
        ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
        parts = [chosen[end - size : end] for size, end in zip(sizes, ends, strict=True)]
        self.sets = [[pair for _, _, pair in sorted(part, key=_position)] for part in parts]
        self._positions = {position for _, position, _ in chosen}
        self._marks = {mark for _, _, pair in chosen for mark in _marks(pair)}
        #: Pairs of the rest, and those left out of it because they share a source or a target with a held-out one.
        self.kept = self.removed = 0

    def rest(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """The pairs of the memory, read once more, that share neither source nor target with a held-out one."""
        for position, pair in enumerate(pairs):
            if self._marks.isdisjoint(_marks(pair)):
                self.kept += 1
                yield pair
            elif position not in self._positions:
                self.removed += 1


def _chosen(read: Callable[[], Iterable[Pair]], count: int, seed: int) -> list[_Candidate]:
    most = _CANDIDATES * count
    while True:
        candidates, is_all = _smallest(read(), seed, most)
        chosen = _apart(candidates, count)
        if len(chosen) == count:
            return chosen
        if is_all:
            raise InputError(
                f"{count:,} pairs cannot be held out: the memory has {len(chosen):,} that share no source and no target"
            )
        most *= 4


def _smallest(pairs: Iterable[Pair], seed: int, most: int) -> tuple[list[_Candidate], bool]:
    """The different pairs with the smallest hashes, in their order, and whether these are all there are."""
    heap: list[tuple[int, int, Pair]] = []  # the largest hash first
    hashes: set[int] = set()
    is_all = True
    for position, pair in enumerate(pairs):
        value = int.from_bytes(digest(str(seed), comparable(pair.source), comparable(pair.target)))
        if value in hashes:
            continue
        if len(heap) < most:
            heapq.heappush(heap, (-value, position, pair))
            hashes.add(value)
            continue
        is_all = False
        if value < -heap[0][0]:
            hashes.remove(-heapq.heapreplace(heap, (-value, position, pair))[0])
            hashes.add(value)
    return sorted(((-value, position, pair) for value, position, pair in heap), key=_hash), is_all


def _apart(candidates: Iterable[_Candidate], count: int) -> list[_Candidate]:
    """The first candidates of which no two share a source or a target."""
    chosen: list[_Candidate] = []
    seen: set[bytes] = set()
    for candidate in candidates:
        if len(chosen) == count:
            break
        marks = _marks(candidate[2])
        if seen.isdisjoint(marks):
            chosen.append(candidate)
            seen |= marks
    return chosen


def _marks(pair: Pair) -> set[bytes]:
    """What a pair may not share with a held-out one."""
    return {digest("source", comparable(pair.source)), digest("target", comparable(pair.target))}


def _hash(candidate: _Candidate) -> int:
    return candidate[0]


def _position(candidate: _Candidate) -> int:
    return candidate[1]
