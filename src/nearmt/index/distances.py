"""Distances between queries and stored keys."""

from __future__ import annotations

from torch import Tensor


def squared_l2(query_BD: Tensor, key_BKD: Tensor) -> Tensor:
    """Squared L2 distance of each query to its own K keys, by differences: exact also when it is small."""
    return (key_BKD - query_BD[:, None, :]).square_().sum(dim=-1)
