"""Cells by k-means: neighbours are then looked for in one cell instead of everywhere."""

from __future__ import annotations

import torch
from torch import Tensor

#: Distances that are held at a time: on a CPU they should stay in its cache.
_NEAR = {"cpu": 1 << 20, "cuda": 1 << 28}
_ROUNDS = 8


def find_centres(key_SD: Tensor, cells: int, seed: int = 0) -> Tensor:
    """Centres of so many cells, by some rounds of k-means over a sample of keys (at least one a cell)."""
    generator = torch.Generator().manual_seed(seed)
    first_C = torch.randperm(len(key_SD), generator=generator)[:cells]
    centre_CD = key_SD[first_C.to(key_SD.device)].clone()
    for _ in range(_ROUNDS):
        cell_S = nearest_centre(key_SD, centre_CD)
        count_C = torch.bincount(cell_S, minlength=cells)
        # Sums over sorted keys: adding in whatever order threads come would differ from run to run.
        sorted_SD = key_SD[cell_S.argsort(stable=True)]
        total_CD = torch.segment_reduce(sorted_SD, "sum", lengths=count_C, axis=0)
        # A cell that lost all its keys keeps its centre.
        centre_CD = torch.where(count_C[:, None] > 0, total_CD / count_C.clamp(min=1)[:, None], centre_CD)
    return centre_CD


def nearest_centre(key_XD: Tensor, centre_CD: Tensor) -> Tensor:
    """The cell of each key, [X]."""
    squared_C = centre_CD.square().sum(dim=1)
    block = max(1, _NEAR.get(key_XD.device.type, _NEAR["cpu"]) // len(centre_CD))
    parts = (torch.addmm(squared_C, part, centre_CD.T, alpha=-2.0) for part in key_XD.split(block))
    return torch.cat([_place_of_least(distance_XC) for distance_XC in parts])


def _place_of_least(distance_XC: Tensor) -> Tensor:
    # On a CPU numpy looks for it six times as fast.
    if distance_XC.is_cuda:
        return distance_XC.argmin(dim=1)
    return torch.from_numpy(distance_XC.numpy().argmin(axis=1))
