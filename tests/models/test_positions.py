"""Position embeddings that are computed are those of transformers."""

from __future__ import annotations

import pytest
import torch
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

from nearmt.models.positions import quick_positions, sinusoids


@pytest.mark.parametrize(("positions", "width"), [(1, 2), (64, 16), (400, 48), (30, 7)])
def test_positions_are_those_of_transformers(positions: int, width: int) -> None:
    module = MarianSinusoidalPositionalEmbedding(positions, width)
    expected = module.create_weight()
    assert torch.equal(sinusoids(positions, width), expected)
    with quick_positions():
        assert torch.equal(module.create_weight(), expected)


def test_transformers_is_as_it_was_afterwards() -> None:
    own = MarianSinusoidalPositionalEmbedding.create_weight

    def fail() -> None:
        with quick_positions():
            assert MarianSinusoidalPositionalEmbedding.create_weight is not own
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert MarianSinusoidalPositionalEmbedding.create_weight is own
