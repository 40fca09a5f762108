"""The best so far, while blocks go by."""

from __future__ import annotations

import torch
from torch import Tensor


class RunningTop:
    """The `count` smallest distances of each row over all blocks seen, with their entries (-1: none)."""

    def __init__(self, rows: int, count: int, device: torch.device) -> None:
        self._count = count
        self.entry_BK = torch.full((rows, count), -1, device=device)
        self._distance_BK = torch.full((rows, count), torch.inf, device=device)

    def add(self, distance_BN: Tensor, start: int) -> None:
        """Take in a block whose first column is entry `start`; infinite distances are not candidates."""
        block = distance_BN.topk(min(self._count, distance_BN.shape[1]), dim=1, largest=False)
        entry = torch.where(torch.isinf(block.values), -1, block.indices + start)
        distance = torch.cat([self._distance_BK, block.values], dim=1)
        entry = torch.cat([self.entry_BK, entry], dim=1)
        self._distance_BK, place = distance.topk(self._count, dim=1, largest=False)
        self.entry_BK = entry.gather(1, place)
