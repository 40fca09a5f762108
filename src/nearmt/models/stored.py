"""The embedded model's file: every large matrix as int8 with one fp16 scale per row, vectors as fp16.

weight = int8 * scale[:, None] (tensors `X` and `X.scale`). Tied tensors are stored once, and what can be computed is
not stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from nearmt.engines.precision import StoredLinear
from nearmt.models.positions import sinusoids

_SHARED = "model.shared.weight"
_TIED = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
_POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of floats or, with scales [O], a matrix [O, I] of int8."""

    tensor: Tensor
    scale_O: Tensor | None = None

    @property
    def shape(self) -> torch.Size:
        return self.tensor.shape

    def stored(self) -> list[Tensor]:
        return [self.tensor] if self.scale_O is None else [self.tensor, self.scale_O]

    def expanded(self) -> Tensor:
        """In fp32."""
        return self.tensor.float() if self.scale_O is None else self.tensor.float() * self.scale_O.float()[:, None]

    def sampled(self, stride: int) -> Tensor:
        """Every `stride`-th number, in fp32."""
        number_X = self.tensor.flatten()[::stride].float()
        if self.scale_O is None:
            return number_X
        row_X = torch.arange(0, self.tensor.numel(), stride) // self.tensor.shape[1]
        return number_X * self.scale_O[row_X].float()


class StoredEmbedding(nn.Module):
    """Rows of a stored matrix, expanded when they are looked up."""

    def __init__(self, stored: StoredTensor) -> None:
        super().__init__()
        assert stored.scale_O is not None
        self.weight, self.scale_O = nn.Buffer(stored.tensor), nn.Buffer(stored.scale_O)

    def forward(self, token_X: Tensor) -> Tensor:
        """Tokens of any shape to [..., H] in fp32."""
        return self.weight[token_X].float() * self.scale_O[token_X].float()[..., None]


def read_stored(path: Path) -> dict[str, StoredTensor]:
    """The tensors of the file by their names in transformers' model; memory-mapped."""
    from safetensors.torch import load_file

    stored = load_file(path)
    return {
        name: StoredTensor(tensor, stored.get(f"{name}.scale"))
        for name, tensor in stored.items()
        if not name.endswith(".scale")
    }


def with_derived(stored: dict[str, StoredTensor], positions: int, width: int) -> dict[str, StoredTensor]:
    """All tensors of transformers' model: tied and computed ones, too."""
    tied = dict.fromkeys(_TIED, stored[_SHARED])
    return {**stored, **tied, **dict.fromkeys(_POSITIONS, StoredTensor(sinusoids(positions, width)))}


def stored_linear(stored: dict[str, StoredTensor], name: str) -> StoredLinear:
    weight, bias = stored[f"{name}.weight"], stored.get(f"{name}.bias")
    assert weight.scale_O is not None
    return StoredLinear(weight.tensor, weight.scale_O, None if bias is None else bias.tensor)


def stored_norm(stored: dict[str, StoredTensor], name: str) -> nn.LayerNorm:
    weight = stored[f"{name}.weight"].expanded()
    norm = nn.LayerNorm(len(weight), device="meta")
    norm.weight, norm.bias = nn.Parameter(weight), nn.Parameter(stored[f"{name}.bias"].expanded())
    return norm
