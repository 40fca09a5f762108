"""Clusters by k-means, and the nearest centres of queries."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from nearmt.threads import scripted

#: Distances held at a time: on a CPU they should stay in its cache.
_HELD, _HELD_ON_GPU = 1 << 20, 1 << 28
_ROUNDS = 8


def find_centres(
    key_SD: Tensor, clusters: int, seed: int = 0, nearest: Callable[[Tensor, Tensor], Tensor] | None = None
) -> Tensor:
    """Centres of `clusters` clusters, by some rounds of k-means over a sample of keys (at least one a cluster)."""
    nearest = nearest or nearest_centre
    generator = torch.Generator().manual_seed(seed)
    first_C = torch.randperm(len(key_SD), generator=generator)[:clusters]
    centre_CD = key_SD[first_C.to(key_SD.device)].clone()
    for _ in range(_ROUNDS):
        cluster_S = nearest(key_SD, centre_CD)
        count_C = torch.bincount(cluster_S, minlength=clusters)
        # Sums in the order of the keys: adding in the order of threads would differ from run to run.
        order_S = cluster_S.argsort(stable=True)
        total_CD = torch.nn.functional.embedding_bag(order_S, key_SD, count_C.cumsum(0) - count_C, mode="sum")
        # A cluster that lost all its keys keeps its centre.
        centre_CD = torch.where(count_C[:, None] > 0, total_CD / count_C.clamp(min=1)[:, None], centre_CD)
    return centre_CD


def nearest_centre(key_XD: Tensor, centre_CD: Tensor) -> Tensor:
    """The cluster of each key, [X]."""
    return _nearest(key_XD, centre_CD, centre_CD.square().sum(dim=1) / 2)


def nearest_rounded_centre(key_XD: Tensor, centre_CD: Tensor) -> Tensor:
    """The same with keys and centres rounded to 8-bit numbers, as searches compare them."""
    number_CD = rounded(centre_CD)
    # Floats hold all numbers that come up here exactly; half lengths are rounded down, as kernels have them.
    return _nearest(rounded(key_XD), number_CD, (number_CD.square().sum(dim=1) / 2).floor())


def rounded(key_XD: Tensor) -> Tensor:
    """Whole numbers of 8 bits, as floats."""
    return key_XD.round().clamp(-128, 127)


def _nearest(key_XD: Tensor, centre_CD: Tensor, half_C: Tensor) -> Tensor:
    """By |c|^2 / 2 - k c, which is least where |k - c|^2 is."""
    on_gpu = key_XD.is_cuda
    block = max(1, (_HELD_ON_GPU if on_gpu else _HELD) // len(centre_CD))
    parts = (torch.addmm(half_C, part, centre_CD.T, alpha=-1.0) for part in key_XD.split(block))
    # On a CPU numpy finds the minimum six times as fast.
    least = torch.Tensor.argmin if on_gpu else _argmin_by_numpy
    return torch.cat([least(distance_XC, 1) for distance_XC in parts])


def _argmin_by_numpy(distance_XC: Tensor, dim: int) -> Tensor:
    return torch.from_numpy(distance_XC.numpy().argmin(axis=dim))


class TorchCentres:
    """Nearest centres by one product; 8-bit centres are compared as whole numbers."""

    def __init__(self, centre_CD: Tensor, whole_numbers: bool) -> None:
        if whole_numbers:
            number_CD = rounded(centre_CD)
            self._centre_CD, self._half_C = number_CD.to(torch.int8), (number_CD.square().sum(dim=1) / 2).int()
        else:
            self._centre_CD, self._half_C = centre_CD, centre_CD.square().sum(dim=1) / 2

    def nearest(self, code_BD: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Squared distances and numbers of the nearest centres, nearest first, [B, count]."""
        return _nearest_centres(code_BD, self._centre_CD, self._half_C, count)


@scripted
def best_clusters(query_BD: Tensor, near_BC: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Squared distances and numbers of the nearest centres from q . c - |c|^2 / 2."""
    near_BK, cluster_BK = near_BC.topk(count, dim=1)
    return (query_BD.square().sum(dim=1, keepdim=True) - 2 * near_BK).clamp_(min=0.0), cluster_BK


@scripted
def _nearest_centres(query_BD: Tensor, centre_CD: Tensor, half_C: Tensor, count: int) -> tuple[Tensor, Tensor]:
    if centre_CD.dtype == torch.int8:
        near_BC = torch._int_mm(query_BD.to(torch.int8), centre_CD.t())
    else:
        near_BC = torch.mm(query_BD, centre_CD.t())
    nearest: tuple[Tensor, Tensor] = best_clusters(query_BD, near_BC.sub_(half_C), count)
    return nearest
