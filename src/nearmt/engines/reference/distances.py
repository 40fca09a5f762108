"""Distances between queries and stored keys."""

from __future__ import annotations

import torch
from torch import Tensor

from nearmt.contracts import Neighbours
from nearmt.engines.base import padded


def squared_l2(query_BD: Tensor, key_BKD: Tensor) -> Tensor:
    """Squared L2 distance of each query to its own K keys, by differences: exact also when it is small."""
    return (key_BKD - query_BD[:, None, :]).square_().sum(dim=-1)


def first_of(entry_BX: Tensor, distance_BX: Tensor, k: int) -> Neighbours:
    """The k nearest of entries in ascending order (-1: none), so that equal distances are always ordered alike."""
    distance_BX = distance_BX.masked_fill(entry_BX < 0, torch.inf)
    order_BK = distance_BX.argsort(dim=1, stable=True)[:, :k]
    return padded(Neighbours(entry_BX.gather(1, order_BK), distance_BX.gather(1, order_BK)), k)
