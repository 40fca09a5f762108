"""The best so far, while blocks go by."""

from __future__ import annotations

import torch
from torch import Tensor

# Places of a row that are looked at as one: the k smallest lie in the k groups with the smallest minima.
_GROUP = 64
# Groups for each of the k below which that is no gain.
_MANY = 4


class RunningTop:
    """The `count` smallest distances of each row over all blocks seen, with their entries (-1: none)."""

    def __init__(self, rows: int, count: int, device: torch.device) -> None:
        self._count = count
        self.entry_BK = torch.full((rows, count), -1, device=device)
        self._distance_BK = torch.full((rows, count), torch.inf, device=device)

    def add(self, distance_BN: Tensor, start: int) -> None:
        """Take in a block whose first column is entry `start`; infinite distances are not candidates."""
        values_BX, place_BX = _smallest(distance_BN, min(self._count, distance_BN.shape[1]))
        entry = torch.where(torch.isinf(values_BX), -1, place_BX + start)
        distance = torch.cat([self._distance_BK, values_BX], dim=1)
        entry = torch.cat([self.entry_BK, entry], dim=1)
        self._distance_BK, place = distance.topk(self._count, dim=1, largest=False)
        self.entry_BK = entry.gather(1, place)


def _smallest(distance_BN: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The smallest of each row and their places. Minima are faster to find than an order."""
    groups = distance_BN.shape[1] // _GROUP
    if groups < _MANY * count or distance_BN.is_cuda:
        values_BX, place_BX = distance_BN.topk(count, dim=1, largest=False)
        return values_BX, place_BX
    minimum_BG = distance_BN[:, : groups * _GROUP].unflatten(1, (groups, _GROUP)).amin(dim=2)
    near_BX = minimum_BG.topk(count, dim=1, largest=False, sorted=False).indices
    place_BX = (near_BX[:, :, None] * _GROUP + torch.arange(_GROUP)).flatten(1)
    rest_X = torch.arange(groups * _GROUP, distance_BN.shape[1])
    place_BX = torch.cat([place_BX, rest_X.expand(len(place_BX), -1)], dim=1)
    values_BX, order_BX = distance_BN.gather(1, place_BX).topk(count, dim=1, largest=False)
    return values_BX, place_BX.gather(1, order_BX)
