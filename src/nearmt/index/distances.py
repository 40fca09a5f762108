"""Distances between queries and stored keys."""

from __future__ import annotations

import torch
from torch import Tensor

from nearmt.compiling import has_compiler
from nearmt.contracts import Neighbours


def squared_l2(query_BD: Tensor, key_BKD: Tensor) -> Tensor:
    """Squared L2 distance of each query to its own K keys, by differences: exact also when it is small."""
    return (key_BKD - query_BD[:, None, :]).square_().sum(dim=-1)


def first_of(entry_BX: Tensor, distance_BX: Tensor, k: int) -> Neighbours:
    """The k nearest of entries in ascending order (-1: none), so that equal distances are always ordered alike."""
    distance_BX = distance_BX.masked_fill(entry_BX < 0, torch.inf)
    order_BK = distance_BX.argsort(dim=1, stable=True)[:, :k]
    missing, pad = k - order_BK.shape[1], torch.nn.functional.pad
    return Neighbours(
        pad(entry_BX.gather(1, order_BK), (0, missing), value=-1),
        pad(distance_BX.gather(1, order_BK), (0, missing), value=torch.inf),
    )


def can_measure(keys: list[Tensor]) -> bool:
    """Whether `nearest_by_compiler` can: halves on a CPU, and a compiler."""
    return all(key_ND.dtype == torch.half and key_ND.device.type == "cpu" for key_ND in keys) and has_compiler()


def nearest_by_compiler(
    query_BE: Tensor, keys: list[Tensor], offsets: list[int], candidate_BX: Tensor, k: int
) -> Neighbours:
    """The k nearest of each row's candidates (-1: none) by squared distance, measured on the query's columns.

    `keys` are those of the entries from each of the `offsets` on.
    """
    from nearmt.index.compiled import nearest

    query, candidate = query_BE.contiguous().numpy(), candidate_BX.contiguous().numpy()
    found = Neighbours(torch.full((len(query), k), -1), torch.full((len(query), k), torch.inf))
    for key_ND, start in zip(keys, offsets, strict=False):
        bits_ND = key_ND.view(torch.int16).numpy()
        nearest(query, bits_ND, start, candidate, found.entry_BK.numpy(), found.distance_BK.numpy())
    return found
