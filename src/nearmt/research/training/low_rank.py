"""Low-rank changes of linear layers while they are trained (LoRA, Hu et al. 2022)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from nearmt.models import Adapter, TrainableModel
from nearmt.models.adapters import LowRank, adaptable, set_layer


class LowRankLinear(nn.Module):
    """x W^T + b + scale * (x down^T) up^T: a frozen layer and a change of it that is trained.

    `up` begins with zeros, so training begins with the model as it was.
    """

    def __init__(self, frozen: nn.Linear, rank: int, scale: float, generator: torch.Generator) -> None:
        super().__init__()
        self.frozen, self.scale = frozen, scale
        bound = 1 / math.sqrt(frozen.in_features)
        down_RI = torch.empty(rank, frozen.in_features).uniform_(-bound, bound, generator=generator)
        self.down = nn.Parameter(down_RI.to(frozen.weight.device))
        self.up = nn.Parameter(torch.zeros(frozen.out_features, rank, device=frozen.weight.device))

    @property
    def weight(self) -> Tensor:
        """Of the frozen layer: transformers asks layers for its type."""
        return self.frozen.weight

    def forward(self, input: Tensor) -> Tensor:
        change: Tensor = nn.functional.linear(nn.functional.linear(input, self.down), self.up)
        output: Tensor = self.frozen(input)
        return output + self.scale * change

    def change(self) -> LowRank:
        return LowRank(self.down.detach().half().cpu(), self.up.detach().half().cpu())


def add_low_rank(model: TrainableModel, rank: int, scale: float, seed: int) -> dict[str, LowRankLinear]:
    """Freeze a model and give each of its adaptable layers a change; only these are trained. Returns them by name."""
    model.weights.requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    layers: dict[str, LowRankLinear] = {}
    for name, linear in adaptable(model.weights).items():
        assert isinstance(linear, nn.Linear)  # trainable weights are not stored ones
        layers[name] = LowRankLinear(linear, min(rank, *linear.weight.shape), scale, generator)
        set_layer(model.weights, name, layers[name])
    return layers


def adapter_of(
    model: TrainableModel,
    layers: Mapping[str, LowRankLinear],
    scale: float,
    notes: Mapping[str, Any],
    held_out: frozenset[int],
    pairs: int,
) -> Adapter:
    """What was trained, in the precision in which it is stored."""
    changes = {name: layer.change() for name, layer in layers.items()}
    return Adapter(model.translation.fingerprint, scale, changes, notes, held_out, pairs)
