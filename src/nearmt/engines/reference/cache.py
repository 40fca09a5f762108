"""The neighbours' cache in torch: all tokens of the retrieved chunks, at hand between searches (section 3.2.2).

M = {(f(x, y_<t+i), y_t+i) for 0 <= i < c, for every retrieved chunk y_t:(t+c-1)}

Every sentence has a cache of its own, shared by its hypotheses, that keeps the chunks of all its searches and no entry
twice. Shapes: U caches, M capacity of a cache, E columns; otherwise as in `engines.base`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from nearmt.contracts import Neighbours, Origin
from nearmt.engines.base import CachePlan, Retrieved
from nearmt.engines.reference.distances import first_of, squared_l2
from nearmt.engines.reference.rows import on_device, rows_of
from nearmt.timing import timed

# Capacity grows by multiples of this, and by a quarter more than needed: growing copies everything.
_CAPACITY, _SPARE = 256, 4


class CacheStore(Protocol):
    """What a cache needs of a store. Tensors come and go on the query's device."""

    def search(self, query_BD: Tensor, k: int) -> Neighbours: ...

    def keys(self, entry_M: Tensor, columns: int) -> Tensor: ...

    def chunks(self, entry_BK: Tensor, size: int) -> Tensor: ...


def nominees(k: int) -> int:
    """Candidates that are nominated by a rounded comparison before the k nearest are measured exactly."""
    return 2 * k + 8


class CacheSlots:
    """Which cache each sentence has."""

    def __init__(self) -> None:
        self._cache_of: dict[int, int] = {}
        self._free: list[int] = []
        self.count = 0

    def of(self, sentences: Sequence[int]) -> list[int]:
        """The caches of sentences that have one."""
        return [self._cache_of[sentence] for sentence in sentences]

    def counts(self, sentences: Sequence[int], count_U: Sequence[int]) -> list[int]:
        """A number of the cache of each sentence; 0 for those that have none."""
        return [count_U[self._cache_of[each]] if each in self._cache_of else 0 for each in sentences]

    def assign(self, sentences: Sequence[int]) -> list[int]:
        """The caches of sentences; those that have none get one."""
        for sentence in sentences:
            if sentence not in self._cache_of:
                if not self._free:
                    self._free.append(self.count)
                    self.count += 1
                self._cache_of[sentence] = self._free.pop(0)
        return self.of(sentences)

    def release(self, sentences: Sequence[int]) -> list[int]:
        """Free the caches of sentences and return them."""
        freed = [self._cache_of.pop(sentence) for sentence in sentences if sentence in self._cache_of]
        self._free += freed
        return freed

    @property
    def sentences(self) -> set[int]:
        """Sentences that have a cache."""
        return set(self._cache_of)


class ReferenceCache:
    """States what a sentence cache does."""

    def __init__(self, store: CacheStore, plan: CachePlan, device: torch.device) -> None:
        self._store, self._plan, self._device = store, plan, device
        self._slots = CacheSlots()
        self._entry_UM = torch.full((0, 0), -1, device=device)
        self._key_UME = torch.zeros((0, 0, plan.columns), device=device)
        #: Squared lengths of the keys, infinite where there is no entry.
        self._norm_UM = torch.zeros((0, 0), device=device)
        self._count: list[int] = []

    def seed(self, sentences: Sequence[int], entry_SX: Tensor) -> None:
        self._append(self._caches(sentences), entry_SX.to(self._device))

    def step(self, query_BD: Tensor, sentences: Sequence[int], due: Sequence[int], rows: int) -> Retrieved:
        each = len(query_BD) // len(sentences)
        found = Retrieved.nothing(len(query_BD), self._plan.width, query_BD.device)
        # All hypotheses of a sentence recall together, including those that search.
        recalling = [slot for slot in range(len(sentences)) if rows < each or slot not in due]
        if recalling:
            row_R = rows_of(recalling, each, each, len(sentences), query_BD.device)
            found.put(row_R, Origin.CACHE, self.recall([sentences[slot] for slot in recalling], query_BD[row_R]))
        if due:
            row_R = rows_of(due, each, min(rows, each), len(sentences), query_BD.device)
            nearest = self._store.search(query_BD[row_R], self._plan.k)
            found.put(row_R, Origin.SEARCH, nearest)
            self.remember([sentences[slot] for slot in due], nearest.entry_BK)
        return found

    def recall(self, sentences: Sequence[int], query_RD: Tensor) -> Neighbours:
        """The k nearest cached entries of each row with their L2 distances, not squared.

        Rows of a sentence are adjacent, equally many of each sentence.
        """
        with timed("cache/search"):
            k, caches = self._plan.cache_k, self._caches(sentences)
            width = max(self._count[cache] for cache in caches)
            cache_G = on_device(caches, self._device)
            query_GRE = query_RD[:, : self._plan.columns].unflatten(0, (len(caches), -1))
            # Nominate by |k|^2 - 2 q k, then measure by differences, which is exact also where a distance is small.
            norm_G1M, key_GEM = self._norm_UM[cache_G, None, :width], self._key_UME[cache_G, :width].transpose(1, 2)
            squared_GRM = torch.baddbmm(norm_G1M, query_GRE, key_GEM, alpha=-2.0)
            position_GRX = squared_GRM.topk(min(nominees(k), width), dim=-1, largest=False, sorted=False).indices
            entry_GRX, order_GRX = self._entry_UM[cache_G[:, None, None], position_GRX].sort(dim=2)
            position_GRX = position_GRX.gather(2, order_GRX)
            key_RXE = self._key_UME[cache_G[:, None, None], position_GRX].flatten(0, 1)
            found = first_of(entry_GRX.flatten(0, 1), squared_l2(query_GRE.flatten(0, 1), key_RXE), k)
            return Neighbours(found.entry_BK, found.distance_BK.sqrt_())

    def remember(self, sentences: Sequence[int], entry_RK: Tensor) -> None:
        """Put the chunks that begin with these entries (-1: none) into the caches of their sentences."""
        if self._plan.chunk:
            with timed("cache/fill"):
                entry_RKC = self._store.chunks(entry_RK, self._plan.chunk)
                self._append(self._caches(sentences), entry_RKC.reshape(len(sentences), -1))

    def held(self, sentences: Sequence[int]) -> list[int]:
        return self._slots.counts(sentences, self._count)

    def release(self, sentences: Sequence[int]) -> None:
        for cache in self._slots.release(sentences):
            self._count[cache] = 0
            self._entry_UM[cache], self._norm_UM[cache] = -1, torch.inf

    def reorder(self, row_B: Tensor) -> None:
        """Caches belong to sentences."""

    def _caches(self, sentences: Sequence[int]) -> list[int]:
        caches = self._slots.assign(sentences)
        more = self._slots.count - len(self._count)
        if more:
            self._count += [0] * more
            self._entry_UM = pad(self._entry_UM, (0, 0, 0, more), value=-1)
            self._key_UME = pad(self._key_UME, (0, 0, 0, 0, 0, more))
            self._norm_UM = pad(self._norm_UM, (0, 0, 0, more), value=torch.inf)
        return caches

    def _append(self, caches: Sequence[int], entry_GX: Tensor) -> None:
        """Append the entries that caches do not have yet."""
        width = max(self._count[cache] for cache in caches)
        known_GX = torch.cat([self._entry_UM[list(caches), :width], entry_GX], dim=1)
        fresh_GX = (entry_GX >= 0) & ~repeats(known_GX)[:, width:]
        # The number of new entries decides on the capacity: this synchronises with a GPU, at steps that search.
        fresh = entry_GX[fresh_GX].split(fresh_GX.sum(dim=1).tolist())
        self._grow(max(self._count[cache] + len(entry_X) for cache, entry_X in zip(caches, fresh, strict=True)))
        keys = self._store.keys(torch.cat(list(fresh)), self._plan.columns).split([len(entry_X) for entry_X in fresh])
        for cache, entry_X, key_XE in zip(caches, fresh, keys, strict=True):
            first, last = self._count[cache], self._count[cache] + len(entry_X)
            self._entry_UM[cache, first:last], self._key_UME[cache, first:last] = entry_X, key_XE
            self._norm_UM[cache, first:last] = key_XE.square().sum(dim=1)
            self._count[cache] = last

    def _grow(self, width: int) -> None:
        capacity = self._entry_UM.shape[1]
        if width > capacity:
            more = -(-(width + width // _SPARE) // _CAPACITY) * _CAPACITY - capacity
            self._entry_UM = pad(self._entry_UM, (0, more), value=-1)
            self._key_UME = pad(self._key_UME, (0, 0, 0, more))
            self._norm_UM = pad(self._norm_UM, (0, more), value=torch.inf)


def repeats(entry_GX: Tensor) -> Tensor:
    """Mark entries that occur earlier in their row, [G, X]."""
    ordered = entry_GX.sort(dim=1, stable=True)
    again_GX = pad(ordered.values[:, 1:] == ordered.values[:, :-1], (1, 0), value=False)
    return torch.empty_like(again_GX).scatter_(1, ordered.indices, again_GX)
