"""Cells by k-means: neighbours are then looked for in one cell instead of everywhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from nearmt.engines.cpu import kernels
from nearmt.engines.cpu.cells import Centres
from nearmt.threads import side_by_side

#: Distances that are held at a time: on a CPU they should stay in its cache.
_NEAR = {"cpu": 1 << 20, "cuda": 1 << 28}
_ROUNDS = 8
# Keys that a kernel compares at a time.
_TOGETHER = 8192


def find_centres(
    key_SD: Tensor, cells: int, seed: int = 0, nearest: Callable[[Tensor, Tensor], Tensor] | None = None
) -> Tensor:
    """Centres of so many cells, by some rounds of k-means over a sample of keys (at least one a cell)."""
    nearest = nearest or nearest_centre
    generator = torch.Generator().manual_seed(seed)
    first_C = torch.randperm(len(key_SD), generator=generator)[:cells]
    centre_CD = key_SD[first_C.to(key_SD.device)].clone()
    for _ in range(_ROUNDS):
        cell_S = nearest(key_SD, centre_CD)
        count_C = torch.bincount(cell_S, minlength=cells)
        # Sums over sorted keys: adding in whatever order threads come would differ from run to run.
        sorted_SD = key_SD[cell_S.argsort(stable=True)]
        total_CD = torch.segment_reduce(sorted_SD, "sum", lengths=count_C, axis=0)
        # A cell that lost all its keys keeps its centre.
        centre_CD = torch.where(count_C[:, None] > 0, total_CD / count_C.clamp(min=1)[:, None], centre_CD)
    return centre_CD


def nearest_centre(key_XD: Tensor, centre_CD: Tensor) -> Tensor:
    """The cell of each key, [X]."""
    return _nearest(key_XD, centre_CD, centre_CD.square().sum(dim=1) / 2)


def nearest_as_codes(key_XD: Tensor, centre_CD: Tensor) -> Tensor:
    """The same for keys and centres as 8-bit numbers, as searches compare them: with a kernel that is much faster."""
    number_CD = centre_CD.round().clamp(-128, 127)
    if kernels() is None or key_XD.shape[1] % 4:
        # Floats hold all numbers that come up here exactly; halves are rounded down, as kernels have them.
        return _nearest(key_XD.round().clamp(-128, 127), number_CD, (number_CD.square().sum(dim=1) / 2).floor())
    centres = Centres(number_CD)
    found = dict(side_by_side([partial(centres.nearest, part, 1) for part in key_XD.split(_TOGETHER)]))
    return torch.cat([found[number][1][:, 0] for number in range(len(found))])


def _nearest(key_XD: Tensor, centre_CD: Tensor, half_C: Tensor) -> Tensor:
    """By |c|^2 / 2 - k c, which is least where |k - c|^2 is."""
    block = max(1, _NEAR.get(key_XD.device.type, _NEAR["cpu"]) // len(centre_CD))
    parts = (torch.addmm(half_C, part, centre_CD.T, alpha=-1.0) for part in key_XD.split(block))
    return torch.cat([_place_of_least(distance_XC) for distance_XC in parts])


def _place_of_least(distance_XC: Tensor) -> Tensor:
    # On a CPU numpy looks for it six times as fast.
    if distance_XC.is_cuda:
        return distance_XC.argmin(dim=1)
    return torch.from_numpy(distance_XC.numpy().argmin(axis=1))
