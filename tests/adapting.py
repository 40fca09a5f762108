"""Adapters for tests: of random numbers, or of zeros."""

from __future__ import annotations

import torch

from nearmt.contracts import Pair
from nearmt.datastore.disk.ids import digest_of, with_ids
from nearmt.models import Adapter, TranslationModel
from nearmt.models.adapters import LowRank, adaptable


def random_layers(model: object, seed: int = 0, rank: int = 2, size: float = 0.1) -> dict[str, LowRank]:
    """A change of every adaptable layer."""
    generator = torch.Generator().manual_seed(seed)

    def numbers(*shape: int) -> torch.Tensor:
        return (torch.randn(*shape, generator=generator) * size).half()

    return {
        name: LowRank(numbers(rank, linear.in_features), numbers(linear.out_features, rank))
        for name, linear in adaptable(model).items()  # type: ignore[arg-type]
    }


def random_adapter(
    model: TranslationModel, seed: int = 0, size: float = 0.1, pairs: list[Pair] | None = None
) -> Adapter:
    """An adapter of a loaded model, made for a memory of these pairs of which every third was held out."""
    pairs = list(with_ids(pairs or []))
    notes = {
        "pairs": len(pairs) - len(pairs[::3]),
        "base_loss": 3.0,
        "loss": 2.0,
        "created": "2026-01-01T00:00:00+00:00",
    }
    held_out = frozenset(digest_of(pair.id) for pair in pairs[::3])
    layers = random_layers(model.seq2seq._modules.model, seed, size=size)
    return Adapter(model.fingerprint, 2.0, layers, notes, held_out, len(pairs))
