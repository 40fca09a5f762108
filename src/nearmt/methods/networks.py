"""What a network that weighs neighbours sees and says; the kinds that there are."""

from __future__ import annotations

import importlib
from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

from torch import Tensor, nn

#: Module and class of each kind. Those of other papers are research.
_KINDS = {
    "adaptive": ("nearmt.methods.adaptive", "Head"),
    "kernel-smoothed": ("nearmt.research.methods.kernel_smoothed", "KernelHead"),
    "robust": ("nearmt.research.methods.robust", "RobustHead"),
}
NETWORKS = tuple(_KINDS)


class Seen(NamedTuple):
    """The neighbours of a step, as networks see them."""

    distance_BK: Tensor
    token_BK: Tensor
    #: The model's log-probability of each neighbour's token, and of its own likeliest tokens, best first.
    spoken_BK: Tensor
    likeliest_BR: Tensor
    #: What multiplies exp(-d / T) of each; None where all count alike.
    count_BK: Tensor | None
    #: The queries and the neighbours' keys, for networks that see them.
    query_BD: Tensor | None = None
    key_BKD: Tensor | None = None


class Network(nn.Module):
    """Weighs the neighbours of one kind of step."""

    #: The model's likeliest tokens whose log-probabilities it sees.
    likeliest: ClassVar[int] = 1
    sees_keys: ClassVar[bool] = False
    shape: Any

    @abstractmethod
    def weigh(self, seen: Seen) -> tuple[Tensor, Tensor]:
        """The weight of the model [B] and what each neighbour weighs [B, K]; together they sum to 1."""

    @abstractmethod
    def quick(self) -> list[nn.Parameter]:
        """Parameters that begin as a rough guess, and learn faster than the others."""

    @abstractmethod
    def temperature(self) -> float:
        """The temperature, or a typical one."""


def new_network(shape: Any, temperature: float) -> Network:
    """A fresh network of the kind that its shape names."""
    module, name = _KINDS[shape.network]
    network: Network = getattr(importlib.import_module(module), name)(shape, temperature)
    return network
