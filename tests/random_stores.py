"""Toy stores of random sentences."""

from __future__ import annotations

import torch

from tests.toy_store import ToyStore


def random_store(
    seed: int, sentences: int, columns: int, vocabulary: int, states: int | None = None, longest: int = 9
) -> ToyStore:
    """Sentences of 1 to `longest` tokens; states of another size than keys are projected at random."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (sentences,), generator=generator)
    ends = torch.cumsum(lengths, 0).tolist()
    entries = ends[-1] if ends else 0
    projection_HD = None
    if states is not None:
        projection_HD = torch.randn(states, columns, generator=generator) / states**0.5
    return ToyStore(
        torch.randn(entries, columns, generator=generator),
        torch.randint(0, vocabulary, (entries,), generator=generator),
        ends,
        projection_HD,
    )
