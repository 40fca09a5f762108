"""Sentence caches by kernels: keys as 8-bit numbers nominate, the stored keys measure.

Shapes: U caches, M capacity of a cache, N columns that nominate, T hash table, S sentences, X entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from nearmt.contracts import Neighbours, Origin
from nearmt.engines.base import CachePlan, Retrieved, RowSearch
from nearmt.engines.cpu.nearest import CachedRows, CacheTables, KeyRows, add_chunks, mark
from nearmt.engines.reference.cache import CacheSlots, nominees
from nearmt.engines.reference.entries import SearchedStore
from nearmt.timing import timed

# The leading columns nominate, as 8-bit numbers: reading keys is what takes the time.
_COLUMNS, _LEVELS = 128, 127.0
# Kernels read positions in blocks of 16 and columns in blocks of 4.
_POSITIONS, _QUAD = 16, 4
# With fewer columns, unrounded keys take no more memory.
_FEW = _COLUMNS // 4
# Units are this much larger than the present keys need, so that larger keys can follow without rescaling.
_HEADROOM = 1.1
# Capacity grows by multiples of this, and by a quarter more than needed: growing copies everything.
_CAPACITY, _SPARE = 256, 4
# Entries of a hash table at first. At least half of its positions stay free.
_HASHED = 1024
# Half the squared length of a position without an entry: more than any product can make up for.
_UNUSED = 1 << 29


class RoundedKeys:
    """Leading key columns of all caches as multiples of one unit per cache, in the kernels' layout.

    16 positions together: first 4 columns of each, then the next 4; each number plus 128.
    """

    def __init__(self, columns: int) -> None:
        self.columns = min(_COLUMNS, columns)
        width = self.columns + -self.columns % _QUAD
        self.key_UMN = torch.zeros((0, 0, width), dtype=torch.uint8)
        #: Half the squared lengths.
        self.half_UM = torch.zeros((0, 0), dtype=torch.int32)
        self.units: list[float] = []

    def add(self, caches: int) -> None:
        """Some more caches."""
        self.key_UMN = pad(self.key_UMN, (0, 0, 0, 0, 0, caches))
        self.half_UM = pad(self.half_UM, (0, 0, 0, caches), value=_UNUSED)
        self.units += [0.0] * caches

    def grow(self, more: int) -> None:
        """More capacity for every cache."""
        self.key_UMN = pad(self.key_UMN, (0, 0, 0, more))
        self.half_UM = pad(self.half_UM, (0, more), value=_UNUSED)

    def put(self, cache: int, start: int, keys: KeyRows, entry_X: Tensor, largest: float) -> None:
        """Keys of entries from position `start` on; `largest` is their largest absolute number."""
        largest = max(1e-30, largest)
        if largest > _LEVELS * self.units[cache]:
            self._rescale(cache, start, _HEADROOM * largest / _LEVELS)
        keys.write_keys(self.key_UMN[cache], self.half_UM[cache], start, entry_X, self.units[cache], self.columns)

    def _rescale(self, cache: int, end: int, unit: float) -> None:
        """Express the keys before position `end` in a larger unit."""
        factor, self.units[cache] = self.units[cache] / unit, unit
        blocks = slice(0, end + -end % _POSITIONS)
        number_MN = (self.key_UMN[cache, blocks].short() - 128) * factor
        self.key_UMN[cache, blocks] = number_MN.round_().add_(128).to(torch.uint8)
        self.half_UM[cache, :end] = (self.half_UM[cache, :end] * factor**2).int()

    def clear(self, cache: int) -> None:
        self.half_UM[cache] = _UNUSED
        self.units[cache] = 0.0


class CpuCache:
    """A recall, a search and the filling of the caches are one kernel call each for all sentences of a step."""

    def __init__(self, keys: KeyRows, end_P: Tensor, store: SearchedStore, plan: CachePlan) -> None:
        self._keys, self._end_P, self._store, self._plan = keys, end_P, store, plan
        self._row_search: RowSearch | None = store.row_search(plan.k)
        self._slots = CacheSlots()
        self._rounded = RoundedKeys(plan.columns)
        self._entry_UM = torch.full((0, 0), -1)
        #: Hash tables of the entries that each cache has.
        self._hash_UT = torch.zeros(0, _HASHED, dtype=torch.int32)
        self._count: list[int] = []

    @staticmethod
    def fits(plan: CachePlan) -> bool:
        """Whether the kernels can do what is planned."""
        wide = plan.columns > _FEW and plan.columns % _QUAD == 0
        return not plan.chunk or (wide and plan.cache_k >= plan.k)

    def seed(self, sentences: Sequence[int], entry_SX: Tensor) -> None:
        caches = self._caches(sentences)
        self._reserve(max(self._count[cache] for cache in caches) + entry_SX.shape[1])
        for cache, entry_X in zip(caches, entry_SX.contiguous(), strict=True):
            fresh_X, start = mark(self._hash_UT[cache], entry_X), self._count[cache]
            if len(fresh_X):
                largest = self._keys.largest(fresh_X, self._rounded.columns)
                self._rounded.put(cache, start, self._keys, fresh_X, largest)
                self._count[cache] = start + len(fresh_X)
                self._entry_UM[cache, start : self._count[cache]] = fresh_X

    def step(self, query_BD: Tensor, sentences: Sequence[int], due: Sequence[int], rows: int) -> Retrieved:
        count, each = len(query_BD), len(query_BD) // len(sentences)
        query_BD = query_BD.contiguous()
        found = Retrieved(  # numpy is faster for few numbers
            asked_B=torch.from_numpy(np.full(count, int(Origin.CACHE))),
            entry_BK=torch.empty(count, self._plan.width, dtype=torch.long),
            distance_BK=torch.empty(count, self._plan.width),
        )
        row_R = np.array([slot * each + row for slot in due for row in range(min(rows, each))])
        # What a server searches it can search while caches are read here.
        started = self._start_search(query_BD, row_R) if due and self._row_search is None else None
        # Rows that search need no recall, unless other rows of their sentence do.
        recalling = [slot for slot in range(len(sentences)) if rows < each or slot not in due]
        if recalling:
            self._recall(found, query_BD, [sentences[slot] for slot in recalling], recalling, each)
        if due:
            entry_RK = self._search(found, query_BD, row_R, started)
            self._remember([sentences[slot] for slot in due], entry_RK)
        return found

    def held(self, sentences: Sequence[int]) -> list[int]:
        return self._slots.counts(sentences, self._count)

    def release(self, sentences: Sequence[int]) -> None:
        for cache in self._slots.release(sentences):
            self._count[cache] = 0
            self._rounded.clear(cache)
            self._hash_UT[cache].zero_()

    def reorder(self, row_B: Tensor) -> None:
        """Caches belong to sentences."""

    def _recall(
        self, found: Retrieved, query_BD: Tensor, sentences: Sequence[int], slots: Sequence[int], each: int
    ) -> None:
        """Put the nearest cached entries of all rows of some slots into their rows."""
        with timed("cache/search"):
            caches = self._caches(sentences)
            units = [max(self._rounded.units[cache], 1e-30) for cache in caches]
            ends = [self._count[cache] for cache in caches]
            rounded = self._rounded.key_UMN, self._rounded.half_UM, self._entry_UM
            cached = CachedRows(*rounded, caches, units, ends, slots)
            count = nominees(self._plan.cache_k)
            self._keys.recall(cached, query_BD, each, self._plan.columns, count, found.entry_BK, found.distance_BK)

    def _start_search(self, query_BD: Tensor, row_R: np.ndarray) -> Callable[[], Neighbours]:
        return self._store.start_search(torch.from_numpy(query_BD.numpy()[row_R]), self._plan.k)

    def _search(
        self, found: Retrieved, query_BD: Tensor, row_R: np.ndarray, started: Callable[[], Neighbours] | None
    ) -> np.ndarray:
        """Put the k nearest of some rows into their rows; returned are the entries, [R, K]."""
        k = self._plan.k
        found.asked_B.numpy()[row_R] = int(Origin.SEARCH)
        if self._row_search is not None:
            with timed("index/search"):
                fewer = self._row_search(query_BD, row_R, found.entry_BK, found.distance_BK)
            if not fewer:
                entry_RK: np.ndarray = found.entry_BK.numpy()[row_R, :k]
                return entry_RK
        nearest = (started or self._start_search(query_BD, row_R))()
        found.missed = nearest.missed
        _put(found, row_R, nearest, k)
        return np.ascontiguousarray(nearest.entry_BK.numpy())

    def _remember(self, sentences: Sequence[int], entry_RK: np.ndarray) -> None:
        """Put the chunks that begin with these entries (-1: none) into the caches of their sentences."""
        if not self._plan.chunk:
            return
        with timed("cache/fill"):
            caches = self._caches(sentences)
            entry_SX = torch.from_numpy(entry_RK.reshape(len(sentences), -1))
            starts = [self._count[cache] for cache in caches]
            self._reserve(max(starts) + self._plan.chunk * entry_SX.shape[1])
            units = [self._rounded.units[cache] for cache in caches]
            tables = CacheTables(self._hash_UT, self._entry_UM, self._rounded.key_UMN, self._rounded.half_UM)
            new, largest = add_chunks(
                self._keys,
                tables,
                caches,
                starts,
                units,
                entry_SX,
                self._plan.chunk,
                self._end_P,
                self._rounded.columns,
            )
            for cache, start, count, too_large in zip(caches, starts, new, largest, strict=True):
                self._count[cache] = start + count
                if too_large >= 0 and count:
                    entry_X = self._entry_UM[cache, start : start + count]
                    self._rounded.put(cache, start, self._keys, entry_X, too_large)

    def _caches(self, sentences: Sequence[int]) -> list[int]:
        caches = self._slots.assign(sentences)
        more = self._slots.count - len(self._count)
        if more:
            self._count += [0] * more
            self._rounded.add(more)
            self._entry_UM = pad(self._entry_UM, (0, 0, 0, more), value=-1)
            self._hash_UT = pad(self._hash_UT, (0, 0, 0, more))
        return caches

    def _reserve(self, width: int) -> None:
        """Make capacity for `width` entries of a cache."""
        capacity = self._entry_UM.shape[1]
        if width > capacity:
            more = -(-(width + width // _SPARE) // _CAPACITY) * _CAPACITY - capacity
            self._rounded.grow(more)
            self._entry_UM = pad(self._entry_UM, (0, more), value=-1)
        if 2 * width > self._hash_UT.shape[1]:
            self._hash_UT = torch.zeros(len(self._count), 1 << (2 * width - 1).bit_length(), dtype=torch.int32)
            for hash_T, entry_M, count in zip(self._hash_UT, self._entry_UM, self._count, strict=True):
                mark(hash_T, entry_M[:count])


def _put(found: Retrieved, row_R: np.ndarray, nearest: Neighbours, k: int) -> None:
    """What `Retrieved.put` does with the k nearest of a search, by numpy, which is faster for few numbers."""
    entries, distances = (found.entry_BK, nearest.entry_BK, -1), (found.distance_BK, nearest.distance_BK, torch.inf)
    for to, new, nothing in (entries, distances):
        to.numpy()[row_R, :k] = new.numpy()
        to.numpy()[row_R, k:] = nothing
