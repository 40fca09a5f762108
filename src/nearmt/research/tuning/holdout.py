"""A dev set held out of the datastore, for users without one."""

from __future__ import annotations

import torch

from nearmt.contracts import Pair
from nearmt.corpus.cleaning import comparable
from nearmt.datastore import LiveStore, MaskedStore
from nearmt.errors import InputError

#: Smaller datastores have nothing to spare.
FEWEST_PAIRS = 40
#: At most one in this many pairs is held out.
_EVERY = 5
#: Share of the shortest and of the longest sentences that are never held out.
_EXTREMES = 0.05


def hold_out(store: LiveStore, most: int, seed: int = 0) -> tuple[MaskedStore, list[Pair]]:
    """Mask some pairs of a datastore and return the masked store and the pairs: reproducible and evenly spread."""
    whole = store.snapshot()
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
        # Duplicates are held out once; the mask hides all copies.
        marks = {("source", comparable(pair.source)), ("target", comparable(pair.target))}
        if not marks & seen:
            chosen[number] = pair
            seen |= marks
    return MaskedStore(store, chosen), list(chosen.values())


def _ordinary(length_P: torch.Tensor) -> list[int]:
    """Return the numbers of pairs that have entries and are neither among the shortest nor the longest."""
    known = length_P[length_P > 0].sort().values
    if not len(known):
        return []
    cut = int(_EXTREMES * len(known))
    low, high = int(known[cut]), int(known[len(known) - 1 - cut])
    return [int(n) for n in ((length_P >= low) & (length_P <= high)).nonzero()[:, 0]]


def _spread(numbers: list[int], count: int, seed: int) -> list[int]:
    """Draw one number from each of `count` equal ranges."""
    generator = torch.Generator().manual_seed(seed)
    count = min(count, len(numbers))
    share_X = torch.rand(count, generator=generator, dtype=torch.float64).tolist()
    return [numbers[int((part + share) * len(numbers) / count)] for part, share in enumerate(share_X)]
