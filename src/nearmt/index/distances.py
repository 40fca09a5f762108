"""Distances between queries and stored keys."""

from __future__ import annotations

import torch
from torch import Tensor


def squared_l2(query_BD: Tensor, key_BKD: Tensor) -> Tensor:
    """Squared L2 distance of each query to its own K keys, by differences: exact also when it is small."""
    return (key_BKD - query_BD[:, None, :]).square_().sum(dim=-1)


def nearest(query_RE: Tensor, key_ME: Tensor, count: int) -> Tensor:
    """Places of the `count` nearest keys of each query, [R, count], by the expanded square (one matrix product)."""
    squared_RM = torch.addmm(key_ME.square().sum(dim=1)[None, :], query_RE, key_ME.T, alpha=-2.0)
    return squared_RM.topk(min(count, key_ME.shape[0]), dim=1, largest=False).indices
