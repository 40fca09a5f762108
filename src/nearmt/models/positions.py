"""Position embeddings that are computed, not stored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor


def sinusoids(positions: int, width: int) -> Tensor:
    """Marian's position embeddings [P, H] to the last bit: sines of all frequencies, then cosines."""
    # Powers one by one: arrays may be computed by other instructions, which round differently.
    period_H = np.array([np.power(10000, 2 * (column // 2) / width) for column in range(width)])
    angle_PH = np.arange(positions)[:, None] / period_H
    table_PH = np.concatenate([np.sin(angle_PH[:, 0::2]), np.cos(angle_PH[:, 1::2])], axis=1)
    return torch.from_numpy(table_PH.astype(np.float32))


@contextmanager
def quick_positions() -> Iterator[None]:
    """While the block runs, transformers computes Marian's positions as `sinusoids` does.

    Its own loops, one for the encoder and one for the decoder, take half of the time of loading a model.
    """
    from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding as Positions

    def create(module: Any) -> Tensor:
        return sinusoids(*module.weight.shape).to(module.weight.dtype)

    own = Positions.create_weight
    Positions.create_weight = create
    try:
        yield
    finally:
        Positions.create_weight = own
