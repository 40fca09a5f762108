"""A dev set out of the memory itself, for those who have no other."""

from __future__ import annotations

import torch

from nearmt.contracts import Pair
from nearmt.datastore import LiveStore, MaskedStore
from nearmt.datastore.masked import comparable
from nearmt.errors import InputError

#: A smaller memory cannot spare a part of itself.
FEWEST_PAIRS = 40
#: Of this many pairs at most one is held out.
_EVERY = 5
#: The shortest and the longest sentences of a memory say little about the others.
_EXTREMES = 0.05


def hold_out(memory: LiveStore, most: int, seed: int = 0) -> tuple[MaskedStore, list[Pair]]:
    """The memory without some of its pairs, and those pairs: the same ones every time, from all over it."""
    whole = memory.snapshot()
    if whole.pair_count < FEWEST_PAIRS:
        raise InputError(
            f"{whole.pair_count} pairs are too few to hold out a part of the memory; give a dev set with --dev"
        )
    length_P = whole.pair_lengths()
    if whole.seen_P is not None:
        length_P = length_P * torch.from_numpy(whole.seen_P)
    chosen: dict[int, Pair] = {}
    seen: set[tuple[str, str]] = set()
    for number in _spread(_ordinary(length_P), min(most, whole.pair_count // _EVERY), seed):
        pair = whole.pair(number)
        # A sentence that is there many times counts once.
        marks = {("source", comparable(pair.source)), ("target", comparable(pair.target))}
        if not marks & seen:
            chosen[number] = pair
            seen |= marks
    return MaskedStore(memory, chosen), list(chosen.values())


def _ordinary(length_P: torch.Tensor) -> list[int]:
    """Pairs that have entries and are neither very short nor very long, as the store goes."""
    known = length_P[length_P > 0].sort().values
    if not len(known):
        return []
    cut = int(_EXTREMES * len(known))
    low, high = int(known[cut]), int(known[len(known) - 1 - cut])
    return [int(n) for n in ((length_P >= low) & (length_P <= high)).nonzero()[:, 0]]


def _spread(numbers: list[int], count: int, seed: int) -> list[int]:
    """One at random out of each of `count` equal stretches."""
    generator = torch.Generator().manual_seed(seed)
    count = min(count, len(numbers))
    share_X = torch.rand(count, generator=generator, dtype=torch.float64).tolist()
    return [numbers[int((place + share) * len(numbers) / count)] for place, share in enumerate(share_X)]
