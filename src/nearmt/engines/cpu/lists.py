"""Inverted lists of an index by kernels: centres and codes are 8-bit numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import Array, byref, c_void_p
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np
import torch
from torch import Tensor

from nearmt.engines.base import CentreSearch, RowSearch
from nearmt.engines.cpu.library import Cells, address, loaded
from nearmt.engines.cpu.linear import PackedLinear
from nearmt.engines.cpu.nearest import KeyRows, nominate, write_keys
from nearmt.engines.reference.clusters import best_clusters

# As in nearest.c.
_POSITIONS, _QUAD = 16, 4


class RoundedCentres:
    """The centres of clusters as whole numbers."""

    def __init__(self, number_CD: Tensor) -> None:
        count, columns = number_CD.shape
        assert columns % _QUAD == 0
        self._count = count
        capacity = count + -count % _POSITIONS
        self.key_1CD = torch.zeros(1, capacity, columns, dtype=torch.uint8)
        self.half_1C = torch.zeros(1, capacity, dtype=torch.int32)
        self._number_1C = torch.arange(capacity)[None]
        write_keys(self.key_1CD[0], self.half_1C[0], 0, number_CD.float(), 1.0)

    def nearest(self, code_BD: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Squared distances of queries to their nearest centres, and the clusters, nearest first; [B, count]."""
        cluster_1BK, score_1BK = nominate(
            self.key_1CD, self.half_1C, self._number_1C, [0], [1.0], [self._count], code_BD[None],
            min(count, self._count),
        )  # fmt: skip
        shift_B1 = (128 * code_BD.sum(dim=1, keepdim=True)).int()
        length_B1 = code_BD.square().sum(dim=1, keepdim=True)
        nearest = (length_B1 - 2 * (score_1BK[0] - shift_B1)).clamp_(min=0.0).sort(dim=1)
        return nearest.values, cluster_1BK[0].gather(1, nearest.indices)


class FloatCentres:
    """Centres that are floats; the kernel rounds alike for any number of queries."""

    def __init__(self, centre_CD: Tensor) -> None:
        self._packed = PackedLinear(centre_CD, None, -centre_CD.square().sum(dim=1) / 2)

    def nearest(self, code_BD: Tensor, count: int) -> tuple[Tensor, Tensor]:
        return best_clusters(code_BD, self._packed(code_BD), count)


class InvertedLists:
    """The codes of all entries by cluster, where FAISS has them; of several segments, one behind the other."""

    def __init__(
        self, codes: Sequence[np.ndarray], entries: Sequence[np.ndarray], columns: int,
        half: Sequence[np.ndarray] | None = None, segments: int = 1,
    ) -> None:  # fmt: skip
        """Of each cluster, and in it of each segment: codes as bytes in a row, entries, and (None: not computed yet)
        half squared lengths."""
        library, measured = loaded(), half is not None
        half = half if half is not None else [np.empty(len(entry), dtype=np.int32) for entry in entries]
        size_C = np.array([len(entry) for entry in entries], dtype=np.int64)
        self._kept = codes, entries, half, size_C  # the struct refers to them
        self._columns, self._segments = columns, segments
        self._layout = Cells(
            cells=len(entries), columns=columns, size=size_C.ctypes.data,
            code=_table(codes), entry=_table(entries), half=_table(half),
        )  # fmt: skip
        if not measured:
            library.measure_cells(byref(self._layout))

    @classmethod
    def joined(cls, lists: Sequence[InvertedLists], starts: Sequence[int]) -> InvertedLists:
        """The lists of several segments in the same clusters; `starts` are the numbers of their first entries."""
        renumbered = [
            part._kept[1] if not start else [entry + start for entry in part._kept[1]]
            for part, start in zip(lists, starts, strict=True)
        ]
        codes, half = [part._kept[0] for part in lists], [part._kept[2] for part in lists]
        by_cluster = [
            [each for cluster in zip(*parts, strict=True) for each in cluster] for parts in (codes, renumbered, half)
        ]
        return cls(by_cluster[0], by_cluster[1], lists[0]._columns, by_cluster[2], len(lists))

    def nearest(self, code_BD: Tensor, cluster_BP: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The nearest entries in some clusters (-1: none) of each query, and their squared distances, [B, count]."""
        library, cluster_BP = loaded(), self._in_segments(cluster_BP)
        (rows, probes), layout = cluster_BP.shape, byref(self._layout)
        code_BD, cluster_BP = code_BD.to(torch.int8).contiguous(), cluster_BP.contiguous()
        entry_BK, distance_BK = torch.empty(rows, count, dtype=torch.long), torch.empty(rows, count)
        scratch = torch.empty(library.scan_scratch(layout, rows, probes, count), dtype=torch.uint8)
        library.scan_cells(
            layout, address(code_BD), rows, address(cluster_BP), probes, count, address(entry_BK),
            address(distance_BK), address(scratch),
        )  # fmt: skip
        return entry_BK, distance_BK

    def _in_segments(self, cluster_BP: Tensor) -> Tensor:
        """The lists of some clusters (-1: none) in all segments."""
        if self._segments == 1:
            return cluster_BP
        list_BPS = cluster_BP[:, :, None] * self._segments + torch.arange(self._segments)
        return torch.where(cluster_BP[:, :, None] < 0, -1, list_BPS).flatten(1)

    def search(
        self, centres: RoundedCentres, keys: KeyRows, unit: float, probes: int, reach: float, wanted: int, k: int,
        query_BD: Tensor, row_R: np.ndarray | None, entry_BX: Tensor, distance_BX: Tensor,
    ) -> int:  # fmt: skip
        """Of some rows (None: all) the k nearest by their keys among `wanted` nominated entries.

        At most `probes` clusters are scanned: those whose centres are no farther (squared) than `reach` times the
        nearest (0: however far), and the nearest four. Codes are in multiples of `unit`. Entries and squared distances
        are written to the rows; -1 and inf are padding. Returns how many rows have fewer than k.
        """
        library, layout = loaded(), byref(self._layout)
        rows = len(query_BD) if row_R is None else len(row_R)
        scratch = torch.empty(library.search_scratch(layout, rows, probes, wanted), dtype=torch.uint8)
        fewer: int = library.search_cells(
            layout, byref(keys.layout), address(centres.key_1CD), address(centres.half_1C), unit, probes, reach, wanted,
            address(query_BD), query_BD.stride(0), None if row_R is None else row_R.ctypes.data, rows, k,
            entry_BX.shape[1], address(entry_BX), address(distance_BX), address(scratch),
        )  # fmt: skip
        return fewer

    def searched_by(
        self, centres: CentreSearch, unit: float, probes: int, reach: float, width: Callable[[int], int]
    ) -> ListSearch:
        """These lists with the centres of their clusters, as `choose` made them for the same kernels."""
        return ListSearch(self, cast(RoundedCentres, centres), unit, probes, reach, width)


@dataclass(frozen=True, eq=False)
class ListSearch:
    """Inverted lists with their centres, and how they are probed."""

    lists: InvertedLists
    centres: RoundedCentres
    unit: float
    probes: int
    reach: float
    #: Candidates nominated for k neighbours.
    width: Callable[[int], int]

    def row_search(self, keys: KeyRows, k: int) -> RowSearch:
        return partial(self.lists.search, self.centres, keys, self.unit, self.probes, self.reach, self.width(k), k)


def _by_cluster(segments: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
    """Of each cluster the lists of all segments, given those of each segment."""
    return [each for cluster in zip(*segments, strict=True) for each in cluster]


def _table(arrays: Sequence[np.ndarray]) -> Array[c_void_p]:
    """Where each array begins."""
    return (c_void_p * len(arrays))(*(each.ctypes.data for each in arrays))
