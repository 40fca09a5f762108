"""A dev set in slices: bad settings are known after the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Fewer sentences than this tell little about settings.
SMALLEST = 50


@dataclass(frozen=True)
class Slices:
    """Which sentences each slice adds to those before it, in dev order."""

    parts: tuple[tuple[int, ...], ...]

    @property
    def shares(self) -> list[float]:
        """The share of the dev set up to each slice."""
        return [count / self.counts[-1] for count in self.counts]

    @property
    def counts(self) -> list[int]:
        """Sentences up to each slice."""
        sizes = [len(part) for part in self.parts]
        return [sum(sizes[: n + 1]) for n in range(len(sizes))]


def make_slices(sentences: int, together: int = 1, smallest: int = SMALLEST) -> Slices:
    """A quarter, another quarter, and the rest, each from all over the dev set; fewer slices of a small one.

    `together` sentences in a row stay together: those whose translations depend on one another.
    """
    blocks = [range(start, min(start + together, sentences)) for start in range(0, sentences, together)]
    # Of four blocks in a row the first is in the first slice, the third in the second.
    for quarters in (((0,), (2,), (1, 3)), ((0, 2), (1, 3))):
        parts = [_sentences(blocks, quarter) for quarter in quarters]
        if all(len(part) >= smallest for part in parts):
            return Slices(tuple(parts))
    return Slices((tuple(range(sentences)),))


def _sentences(blocks: Sequence[range], quarter: Sequence[int]) -> tuple[int, ...]:
    return tuple(number for place, block in enumerate(blocks) if place % 4 in quarter for number in block)
