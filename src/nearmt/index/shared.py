"""Indexes that share one trained template: a query is assigned to its cells once for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nearmt.contracts import Neighbours
from nearmt.engines.cpu import PackedLinear, kernels
from nearmt.engines.cpu.cells import CellCodes, Centres
from nearmt.engines.cpu.nearest import KeyRows, RowSearch
from nearmt.index.faiss import (
    FaissIndex,
    check_use,
    coded,
    flat_centres,
    import_faiss,
    make_index,
    read,
    selector_of,
    train,
    write,
)
from nearmt.index.faiss_files import check_index, unreadable
from nearmt.threads import scripted

#: With n probes, cells are left out whose centres are more than 1 + n / 64 times as far (squared) as the nearest:
#: a query in the middle of a cell needs few of them, one between cells many.
_REACH = 64
#: Cells that are looked into however far they are, since the nearest may have few entries. As in cells.c.
_LEAST_CELLS = 4


@dataclass(frozen=True)
class Assignment:
    """Queries, the cells in which their neighbours are looked for (-1: none), and how far their centres are."""

    query_BD: np.ndarray
    cell_BP: np.ndarray
    distance_BP: np.ndarray


class Quantiser:
    """A trained index without entries: centres of cells, and codes for what lies in them."""

    def __init__(self, template: Any, factory: str, unit: float | None = None) -> None:
        self._template, self.factory, self.unit = template, factory, unit
        #: Finds cells; it belongs to the template, which must live as long.
        self.coarse = template.quantizer

    @classmethod
    def train(cls, key_SD: np.ndarray, factory: str) -> Quantiser:
        """Of a sample of keys. Only an index that has cells can be shared."""
        template, unit = train(key_SD, factory)
        return cls(template, factory, unit)

    @classmethod
    def load(cls, path: Path, factory: str, columns: int, unit: float | None = None) -> Quantiser:
        if not check_index(path, columns, 0).lists:
            raise unreadable(path, "it has no cells")
        return cls(read(path), factory, unit)

    def save(self, path: Path) -> None:
        write(self._template, path)

    def index(self, key_ND: np.ndarray) -> SharedIndex:
        """An index of these keys."""
        with _without_centres(self._template):
            copy = import_faiss().clone_index(self._template)
        index = SharedIndex(_with_quantiser(copy, self), self)
        index.effort = index.efforts[0]
        index.fill(key_ND)
        return index

    def assign(self, query_BD: np.ndarray, probes: int) -> Assignment:
        """The cells with the nearest centres, at most so many."""
        probes, reach = self.probing(probes)
        code_BD = coded(query_BD, self.unit)
        distance_BP, cell_BP = self._nearest_cells(code_BD, probes)
        if reach:
            enough_B1 = distance_BP[:, min(_LEAST_CELLS, distance_BP.shape[1]) - 1, None]
            cell_BP[distance_BP > np.maximum(distance_BP[:, :1] * reach, enough_B1)] = -1
        return Assignment(code_BD, cell_BP, distance_BP)

    def probing(self, probes: int) -> tuple[int, float]:
        """How many cells are looked into, and how many times as far as the nearest (squared); 0: however far."""
        probes = min(probes, self.coarse.ntotal)
        # Indexes from before there were units found their effort without a reach.
        return probes, 0.0 if self.unit is None or probes == self.coarse.ntotal else 1 + probes / _REACH

    def _nearest_cells(self, code_BD: np.ndarray, probes: int) -> tuple[np.ndarray, np.ndarray]:
        """Squared distances and numbers, the nearest first."""
        if self.rounded_centres is not None:
            distance, cell = self.rounded_centres.nearest(torch.from_numpy(code_BD), probes)
            return distance.numpy(), cell.numpy()
        if self._centres is None:
            distance_BP, cell_BP = self.coarse.search(code_BD, probes)
            return distance_BP, cell_BP
        # What FAISS does, in a third of the time; whole numbers, where queries are such, are less to read.
        query_BD = torch.from_numpy(code_BD)
        if self._packed_centres is not None:
            distance, cell = _best_cells(query_BD, self._packed_centres(query_BD), probes)
        else:
            distance, cell = _nearest(query_BD, *self._centres, probes)
        return distance.numpy(), cell.numpy()

    @cached_property
    def rounded_centres(self) -> Centres | None:
        """The centres as kernels compare them; None where there are no kernels, or queries are no whole numbers."""
        if kernels() is None or self.unit is None or self._centres is None or self.coarse.d % 4:
            return None
        return Centres(self._centres[0])

    @cached_property
    def _packed_centres(self) -> PackedLinear | None:
        """q . c - |c|^2 / 2 of centres that are floats by a kernel, which rounds alike for any number of queries."""
        if kernels() is None or self.unit is not None or self._centres is None:
            return None
        centre_CD, half_C = self._centres
        return PackedLinear(centre_CD, None, -half_C)

    @cached_property
    def _centres(self) -> tuple[Tensor, Tensor] | None:
        """The centres and half their squared lengths, rounded as queries are; None where they are not a plain list."""
        centre_CD = flat_centres(self._template)
        if centre_CD is None:
            return None
        if self.unit is None:
            return centre_CD, centre_CD.square().sum(dim=1) / 2
        number_CD = torch.from_numpy(coded(centre_CD.numpy(), 1.0))
        return number_CD.to(torch.int8), (number_CD.square().sum(dim=1) / 2).int()


@scripted
def _best_cells(query_BD: Tensor, near_BC: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Squared distances and numbers of the nearest centres from q . c - |c|^2 / 2."""
    near_BK, cell_BK = near_BC.topk(count, dim=1)
    return (query_BD.square().sum(dim=1, keepdim=True) - 2 * near_BK).clamp_(min=0.0), cell_BK


@scripted
def _nearest(query_BD: Tensor, centre_CD: Tensor, half_C: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Squared distances and numbers of the nearest centres; `half_C` are halves of their squared lengths."""
    if centre_CD.dtype == torch.int8:
        near_BC = torch._int_mm(query_BD.to(torch.int8), centre_CD.t())
    else:
        near_BC = torch.mm(query_BD, centre_CD.t())
    nearest: tuple[Tensor, Tensor] = _best_cells(query_BD, near_BC.sub_(half_C), count)
    return nearest


class SharedIndex(FaissIndex):
    """The entries of one segment, in the cells of a quantiser that other segments use too."""

    def __init__(self, index: Any, quantiser: Quantiser, effort: int = 0) -> None:
        super().__init__(index, quantiser.factory, effort, quantiser.unit)
        self.quantiser = quantiser

    def save(self, path: Path) -> None:
        """Without the centres, which lie in the file of the quantiser."""
        with _without_centres(self._index):
            super().save(path)

    @classmethod
    def load_with(cls, path: Path, quantiser: Quantiser, effort: int, columns: int, entries: int) -> SharedIndex:
        if columns != quantiser.coarse.d:
            raise unreadable(path, "it does not fit the quantiser of the store")
        layout = check_index(path, columns, entries, quantiser.coarse.ntotal)
        check_use(path, layout, quantiser.factory, effort)
        return cls(_with_quantiser(read(path), quantiser), quantiser, effort)

    def _search(self, query_BD: np.ndarray, wanted: int, allowed_N: Tensor | None) -> Tensor:
        return self.nominate_in(self.quantiser.assign(query_BD, self.effort), wanted, allowed_N)[0]

    def nearest(self, query_BD: Tensor, k: int, keys: KeyRows) -> Neighbours | None:
        """The k nearest entries and their squared distances by these keys, at once; None where no kernel can do it."""
        search = self.row_search(k, keys)
        if search is None or query_BD.dtype != torch.float32:
            return None
        entry_BK, distance_BK = torch.empty(len(query_BD), k, dtype=torch.long), torch.empty(len(query_BD), k)
        search(query_BD.contiguous(), None, entry_BK, distance_BK)
        return Neighbours(entry_BK, distance_BK)

    def row_search(self, k: int, keys: KeyRows) -> RowSearch | None:
        """What finds them for some rows of a batch."""
        centres, unit = self.quantiser.rounded_centres, self.quantiser.unit
        if self._codes is None or centres is None or unit is None:
            return None
        probes, reach = self.quantiser.probing(self.effort)
        return partial(self._codes.search, centres, keys, unit, probes, reach, self.width(k), k)

    def nominate_in(self, assigned: Assignment, wanted: int, allowed_N: Tensor | None) -> tuple[Tensor, Tensor]:
        """Up to `wanted` entries in the assigned cells and their distances as the codes tell them, [B, wanted]."""
        if allowed_N is None and self._codes is not None:
            number_BD, cell_BP = torch.from_numpy(assigned.query_BD), torch.from_numpy(assigned.cell_BP)
            return self._codes.nearest(number_BD, cell_BP, wanted)
        faiss = import_faiss()
        rows, probes = assigned.cell_BP.shape
        entry_BX = np.empty((rows, wanted), dtype=np.int64)
        distance_BX = np.empty((rows, wanted), dtype=np.float32)
        # The parameters only point at the selector: it has to outlive the search.
        selector = None if allowed_N is None else selector_of(allowed_N)
        parameters = faiss.SearchParametersIVF(nprobe=probes)
        if selector is not None:
            parameters.sel = selector
        arrays = (assigned.cell_BP, assigned.distance_BP, distance_BX, entry_BX)
        # The Python form of this call takes no parameters, so no mask.
        self._index.search_preassigned_c(
            rows, faiss.swig_ptr(assigned.query_BD), wanted, *map(faiss.swig_ptr, arrays), False, parameters
        )
        return torch.from_numpy(entry_BX), torch.from_numpy(distance_BX)

    @cached_property
    def _codes(self) -> CellCodes | None:
        """The codes as kernels compare them; None where there are no kernels, or codes are no whole numbers."""
        columns = self._index.d
        if kernels() is None or self._unit is None or self._index.code_size != columns:
            return None
        faiss, lists = import_faiss(), self._index.invlists
        sizes = [lists.list_size(cell) for cell in range(self._index.nlist)]

        def view(pointer: Any, count: int) -> np.ndarray:
            return faiss.rev_swig_ptr(pointer, count) if count else np.empty(0, dtype=np.int64)

        codes = [view(lists.get_codes(cell), size * columns) for cell, size in enumerate(sizes)]
        return CellCodes(codes, [view(lists.get_ids(cell), size) for cell, size in enumerate(sizes)], columns)


def has_cells(factory: str, columns: int) -> bool:
    """Whether indexes of this kind can share a quantiser."""
    return isinstance(make_index(factory, columns), import_faiss().IndexIVF)


def _with_quantiser(index: Any, quantiser: Quantiser) -> Any:
    """Let an index use the shared centres. Its own were none: leaving them behind costs some bytes."""
    index.own_fields = False
    index.quantizer = quantiser.coarse
    return index


@contextmanager
def _without_centres(index: Any) -> Iterator[None]:
    """For a moment an index has no centres, so that they are neither copied nor written with it."""
    centres, nothing = index.quantizer, import_faiss().IndexFlatL2(index.d)
    index.quantizer = nothing
    try:
        yield
    finally:
        index.quantizer = centres
