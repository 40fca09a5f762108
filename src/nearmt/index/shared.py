"""Indexes that share one trained template: a query is assigned to its clusters once for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nearmt.engines.base import CentreSearch, KernelLists
from nearmt.engines.choose import centre_search, inverted_lists, join_lists
from nearmt.engines.cpu.lists import InvertedLists
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

#: With n probes, clusters are skipped whose centres are more than 1 + n / 64 times as far (squared) as the nearest:
#: a query in the middle of a cluster needs few of them, one between clusters many.
_REACH = 64
#: Clusters that are probed however far they are, since the nearest may have few entries. As in cells.c.
_LEAST_CLUSTERS = 4


@dataclass(frozen=True)
class Assignment:
    """Queries, the clusters in which their neighbours are looked for (-1: none), and how far their centres are."""

    query_BD: np.ndarray
    cluster_BP: np.ndarray
    distance_BP: np.ndarray


class Quantiser:
    """A trained index without entries: centres of clusters, and codes for what lies in them."""

    def __init__(self, template: Any, factory: str, unit: float | None = None) -> None:
        self._template, self.factory, self.unit = template, factory, unit
        self._joined: tuple[list[tuple[int, int]], InvertedLists] | None = None
        #: Finds clusters; it belongs to the template, which must live as long.
        self.coarse = template.quantizer

    @classmethod
    def train(cls, key_SD: np.ndarray, factory: str) -> Quantiser:
        """Of a sample of keys. Only an index that has clusters can be shared."""
        template, unit = train(key_SD, factory)
        return cls(template, factory, unit)

    @classmethod
    def load(cls, path: Path, factory: str, columns: int, unit: float | None = None) -> Quantiser:
        if not check_index(path, columns, 0).lists:
            raise unreadable(path, "it has no clusters")
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
        """The clusters with the nearest centres, at most `probes`."""
        probes, reach = self.probing(probes)
        code_BD = coded(query_BD, self.unit)
        distance_BP, cluster_BP = self._nearest_clusters(code_BD, probes)
        if reach:
            enough_B1 = distance_BP[:, min(_LEAST_CLUSTERS, distance_BP.shape[1]) - 1, None]
            cluster_BP[distance_BP > np.maximum(distance_BP[:, :1] * reach, enough_B1)] = -1
        return Assignment(code_BD, cluster_BP, distance_BP)

    def probing(self, probes: int) -> tuple[int, float]:
        """How many clusters are looked into, and how many times as far as the nearest (squared); 0: however far."""
        probes = min(probes, self.coarse.ntotal)
        # Indexes from before there were units found their effort without a reach.
        return probes, 0.0 if self.unit is None or probes == self.coarse.ntotal else 1 + probes / _REACH

    def _nearest_clusters(self, code_BD: np.ndarray, probes: int) -> tuple[np.ndarray, np.ndarray]:
        """Squared distances and numbers, nearest first."""
        if self.centres is None:
            distance_BP, cluster_BP = self.coarse.search(code_BD, probes)
            return distance_BP, cluster_BP
        distance, cluster = self.centres.nearest(torch.from_numpy(code_BD), probes)
        return distance.numpy(), cluster.numpy()

    def joined(self, indexes: Sequence[SharedIndex], starts: Sequence[int]) -> InvertedLists | None:
        """The lists of several indexes in these clusters as one, where kernels scan them; the latest are kept."""
        lists = [index.inverted_lists for index in indexes]
        known = [each for each in lists if each is not None]
        if len(known) < len(lists):
            return None
        key = [(id(each), start) for each, start in zip(known, starts, strict=True)]
        latest = self._joined
        if latest is None or latest[0] != key:
            latest = self._joined = key, join_lists(known, starts)
        return latest[1]

    @cached_property
    def centres(self) -> CentreSearch | None:
        """Finds the nearest centres as FAISS does, in a third of the time; None where they are not a plain list."""
        centre_CD = flat_centres(self._template)
        return None if centre_CD is None else centre_search(centre_CD, whole_numbers=self.unit is not None)


class SharedIndex(FaissIndex):
    """The entries of one segment, in the clusters of a quantiser that other segments use too."""

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

    @property
    def lists(self) -> KernelLists | None:
        centres, unit = self.quantiser.centres, self.quantiser.unit
        if self.inverted_lists is None or centres is None or unit is None:
            return None
        return self.inverted_lists.searched_by(centres, unit, *self.quantiser.probing(self.effort), self.width)

    def nominate_in(self, assigned: Assignment, wanted: int, allowed_N: Tensor | None) -> tuple[Tensor, Tensor]:
        """Up to `wanted` entries in the assigned clusters and their distances as the codes tell them, [B, wanted]."""
        if allowed_N is None and self.inverted_lists is not None:
            code_BD, cluster_BP = torch.from_numpy(assigned.query_BD), torch.from_numpy(assigned.cluster_BP)
            return self.inverted_lists.nearest(code_BD, cluster_BP, wanted)
        faiss = import_faiss()
        rows, probes = assigned.cluster_BP.shape
        entry_BX = np.empty((rows, wanted), dtype=np.int64)
        distance_BX = np.empty((rows, wanted), dtype=np.float32)
        # The parameters only point at the selector: it has to outlive the search.
        selector = None if allowed_N is None else selector_of(allowed_N)
        parameters = faiss.SearchParametersIVF(nprobe=probes)
        if selector is not None:
            parameters.sel = selector
        arrays = (assigned.cluster_BP, assigned.distance_BP, distance_BX, entry_BX)
        # The Python form of this call takes no parameters, so no mask.
        self._index.search_preassigned_c(
            rows, faiss.swig_ptr(assigned.query_BD), wanted, *map(faiss.swig_ptr, arrays), False, parameters
        )
        return torch.from_numpy(entry_BX), torch.from_numpy(distance_BX)

    @cached_property
    def inverted_lists(self) -> InvertedLists | None:
        """The lists as a kernel scans them; None where there is none, or codes are not 8-bit numbers."""
        columns, faiss, lists = self._index.d, import_faiss(), self._index.invlists
        if self._unit is None or self._index.code_size != columns or columns % 4:
            return None
        sizes = [lists.list_size(cluster) for cluster in range(self._index.nlist)]

        def view(pointer: Any, count: int) -> np.ndarray:
            return faiss.rev_swig_ptr(pointer, count) if count else np.empty(0, dtype=np.int64)

        return inverted_lists(
            codes=lambda: [view(lists.get_codes(number), size * columns) for number, size in enumerate(sizes)],
            entries=lambda: [view(lists.get_ids(number), size) for number, size in enumerate(sizes)],
            columns=columns,
        )


def has_clusters(factory: str, columns: int) -> bool:
    """Whether indexes of this kind can share a quantiser."""
    return isinstance(make_index(factory, columns), import_faiss().IndexIVF)


def _with_quantiser(index: Any, quantiser: Quantiser) -> Any:
    """Let an index use the shared centres. Its own quantiser, which is empty, is not freed; that costs some bytes."""
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
