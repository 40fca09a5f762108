"""Top-k over blocks of distances."""

from __future__ import annotations

import torch
from torch import Tensor

# Columns in a group of the two-stage top-k: the k smallest are in the k groups with the smallest minima. On a GPU small
# groups are better: sorting two short rows takes as long as sorting one long row.
_GROUP, _GROUP_ON_GPU = 64, 8
# Groups per k, and on a GPU numbers in all, below which one stage is as fast.
_MANY, _MANY_ON_GPU = 4, 1 << 20


class RunningTop:
    """The `count` smallest distances of each row over all blocks seen, with their entries (-1: none).

    On a CPU the first of equal distances are kept, so that the division into blocks does not matter.
    """

    def __init__(self, rows: int, count: int, device: torch.device) -> None:
        self._count = count
        self.entry_BK = torch.full((rows, count), -1, device=device)
        self._distance_BK = torch.full((rows, count), torch.inf, device=device)

    def add(self, distance_BN: Tensor, start: int) -> None:
        """Add a block whose first column is entry `start`; infinite distances are not candidates."""
        find = smallest if distance_BN.is_cuda else first_smallest
        values_BX, column_BX = find(distance_BN, min(self._count, distance_BN.shape[1]))
        entry = torch.where(torch.isinf(values_BX), -1, column_BX + start)
        distance = torch.cat([self._distance_BK, values_BX], dim=1)
        entry = torch.cat([self.entry_BK, entry], dim=1)
        order_BK = distance.argsort(dim=1, stable=True)[:, : self._count]
        self._distance_BK, self.entry_BK = distance.gather(1, order_BK), entry.gather(1, order_BK)


def first_smallest(distance_BN: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` smallest of each row, sorted, the first of equal ones, and their columns."""
    values_BX, column_BX = smallest(distance_BN, count)
    bar_B1 = values_BX[:, -1:]
    tied_B = ((distance_BN <= bar_B1).sum(dim=1) > count) & ~torch.isinf(bar_B1[:, 0])
    for row in tied_B.nonzero().flatten().tolist():
        near_X = (distance_BN[row] <= bar_B1[row]).nonzero().flatten()
        column_BX[row] = near_X[distance_BN[row, near_X].argsort(stable=True)[:count]]
    column_BX = column_BX.sort(dim=1).values
    values_BX = distance_BN.gather(1, column_BX)
    order_BX = values_BX.argsort(dim=1, stable=True)
    return values_BX.gather(1, order_BX), column_BX.gather(1, order_BX)


def smallest(distance_BN: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` smallest of each row, sorted, and their columns. Minima of groups are faster to find than a top-k."""
    on_gpu, device = distance_BN.is_cuda, distance_BN.device
    size = _GROUP_ON_GPU if on_gpu else _GROUP
    groups = distance_BN.shape[1] // size
    if groups < _MANY * count or (on_gpu and distance_BN.numel() < _MANY_ON_GPU):
        values_BX, column_BX = distance_BN.topk(count, dim=1, largest=False)
        return values_BX, column_BX
    minimum_BG = distance_BN[:, : groups * size].unflatten(1, (groups, size)).amin(dim=2)
    near_BX = minimum_BG.topk(count, dim=1, largest=False, sorted=False).indices
    column_BX = (near_BX[:, :, None] * size + torch.arange(size, device=device)).flatten(1)
    rest_X = torch.arange(groups * size, distance_BN.shape[1], device=device)
    column_BX = torch.cat([column_BX, rest_X.expand(len(column_BX), -1)], dim=1)
    values_BX, order_BX = distance_BN.gather(1, column_BX).topk(count, dim=1, largest=False)
    return values_BX, column_BX.gather(1, order_BX)
