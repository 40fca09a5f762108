"""A dev set in slices, so that bad settings can be dropped after the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Least number of sentences of a slice.
SMALLEST = 50


@dataclass(frozen=True)
class Slices:
    """The sentences of each slice, in dev order."""

    parts: tuple[tuple[int, ...], ...]

    @property
    def shares(self) -> list[float]:
        """Share of the dev set up to and including each slice."""
        return [count / self.counts[-1] for count in self.counts]

    @property
    def counts(self) -> list[int]:
        """Number of sentences up to and including each slice."""
        sizes = [len(part) for part in self.parts]
        return [sum(sizes[: n + 1]) for n in range(len(sizes))]


def make_slices(sentences: int, together: int = 1, smallest: int = SMALLEST) -> Slices:
    """Cut a dev set into a quarter, another quarter and the rest, evenly spread; a small one into fewer slices.

    Blocks of `together` consecutive sentences are kept together, for methods whose batches share a cache.
    """
    blocks = [range(start, min(start + together, sentences)) for start in range(0, sentences, together)]
    # Of four consecutive blocks, the first is in slice 0, the third in slice 1, the others in slice 2.
    for quarters in (((0,), (2,), (1, 3)), ((0, 2), (1, 3))):
        parts = [_sentences(blocks, quarter) for quarter in quarters]
        if all(len(part) >= smallest for part in parts):
            return Slices(tuple(parts))
    return Slices((tuple(range(sentences)),))


def _sentences(blocks: Sequence[range], quarter: Sequence[int]) -> tuple[int, ...]:
    return tuple(sentence for number, block in enumerate(blocks) if number % 4 in quarter for sentence in block)
