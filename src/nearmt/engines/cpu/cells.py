"""Neighbours in the cells of an index by kernels, on a CPU."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Array, byref, c_void_p

import numpy as np
import torch
from torch import Tensor

from nearmt.engines.cpu.library import Cells, address, loaded
from nearmt.engines.cpu.nearest import KeyRows, hold, nominate

# As in nearest.c.
_PLACES, _QUAD = 16, 4


class Centres:
    """The centres of cells, as whole numbers."""

    def __init__(self, number_CD: Tensor) -> None:
        count, columns = number_CD.shape
        assert columns % _QUAD == 0
        self._count = count
        room = count + -count % _PLACES
        self.key_1CD = torch.zeros(1, room, columns, dtype=torch.uint8)
        self.half_1C = torch.zeros(1, room, dtype=torch.int32)
        self._number_1C = torch.arange(room)[None]
        hold(self.key_1CD[0], self.half_1C[0], 0, number_CD.float(), 1.0)

    def nearest(self, number_BD: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Squared distances of queries to their nearest centres, and whose these are, the nearest first; [B, count]."""
        cell_1BK, score_1BK = nominate(
            self.key_1CD, self.half_1C, self._number_1C, [0], [1.0], [self._count], number_BD[None],
            min(count, self._count),
        )  # fmt: skip
        shift_B1 = (128 * number_BD.sum(dim=1, keepdim=True)).int()
        length_B1 = number_BD.square().sum(dim=1, keepdim=True)
        nearest = (length_B1 - 2 * (score_1BK[0] - shift_B1)).clamp_(min=0.0).sort(dim=1)
        return nearest.values, cell_1BK[0].gather(1, nearest.indices)


class CellCodes:
    """The codes of all entries by cell, where they are."""

    def __init__(self, codes: Sequence[np.ndarray], entries: Sequence[np.ndarray], columns: int) -> None:
        """Of each cell: codes as bytes in a row, and entries."""
        library = loaded()
        half = [np.empty(len(entry), dtype=np.int32) for entry in entries]
        size_C = np.array([len(entry) for entry in entries], dtype=np.int64)
        self._kept = codes, entries, half, size_C  # they have to live as long
        self._layout = Cells(
            cells=len(entries), columns=columns, size=size_C.ctypes.data,
            code=_table(codes), entry=_table(entries), half=_table(half),
        )  # fmt: skip
        library.measure_cells(byref(self._layout))

    def nearest(self, number_BD: Tensor, cell_BP: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The nearest entries in some cells (-1: none) of each query, and their squared distances, [B, count]."""
        library = loaded()
        (rows, probes), layout = cell_BP.shape, byref(self._layout)
        number_BD, cell_BP = number_BD.to(torch.int8).contiguous(), cell_BP.contiguous()
        entry_BK, distance_BK = torch.empty(rows, count, dtype=torch.long), torch.empty(rows, count)
        room = torch.empty(library.scan_room(layout, rows, probes, count), dtype=torch.uint8)
        library.scan_cells(
            layout, address(number_BD), rows, address(cell_BP), probes, count, address(entry_BK),
            address(distance_BK), address(room),
        )  # fmt: skip
        return entry_BK, distance_BK

    def search(
        self, centres: Centres, keys: KeyRows, unit: float, probes: int, reach: float, wanted: int, k: int,
        query_BD: Tensor, row_R: np.ndarray | None, entry_BX: Tensor, distance_BX: Tensor,
    ) -> int:  # fmt: skip
        """Of some rows (None: all) the k nearest by their keys of those that are `wanted`, and their squared distances.

        They are looked for in at most so many cells, whose centres are no farther (squared) than `reach` times the
        nearest (0: however far) or are among the nearest four. Codes are in multiples of `unit`. What is found is
        written to where the rows stand; -1 and infinity fill up. Returns how many have fewer than k.
        """
        library, layout = loaded(), byref(self._layout)
        rows = len(query_BD) if row_R is None else len(row_R)
        room = torch.empty(library.search_room(layout, rows, probes, wanted), dtype=torch.uint8)
        fewer: int = library.search_cells(
            layout, byref(keys.layout), address(centres.key_1CD), address(centres.half_1C), unit, probes, reach, wanted,
            address(query_BD), query_BD.stride(0), None if row_R is None else row_R.ctypes.data, rows, k,
            entry_BX.shape[1], address(entry_BX), address(distance_BX), address(room),
        )  # fmt: skip
        return fewer


def _table(arrays: Sequence[np.ndarray]) -> Array[c_void_p]:
    """Where each array begins."""
    return (c_void_p * len(arrays))(*(each.ctypes.data for each in arrays))
