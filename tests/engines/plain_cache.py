"""A sentence cache of lists and loops in float64: what all engines' caches are compared with."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from nearmt.contracts import Origin
from nearmt.engines.base import CachePlan, Retrieved, SentenceCache
from tests.toy_store import ToyStore

Found = list[tuple[float, int]]


class PlainCache:
    """One list of entries per sentence."""

    def __init__(self, store: ToyStore, plan: CachePlan) -> None:
        self._store, self._plan = store, plan
        self._key_ND = store.key_ND.double()
        self.entries_of: dict[int, list[int]] = {}

    def seed(self, sentences: Sequence[int], entry_SX: Tensor) -> None:
        for sentence, entries in zip(sentences, entry_SX.tolist(), strict=True):
            self._append(sentence, entries)

    def step(self, query_BD: Tensor, sentences: Sequence[int], due: Sequence[int], rows: int) -> Retrieved:
        each = len(query_BD) // len(sentences)
        found = Retrieved.nothing(len(query_BD), self._plan.width, torch.device("cpu"))
        chunks: list[tuple[int, list[int]]] = []
        for slot, sentence in enumerate(sentences):
            for number in range(each):
                row = slot * each + number
                if slot in due and number < rows:
                    nearest = self._search(query_BD[row])
                    self._put(found, row, Origin.SEARCH, nearest)
                    chunks += [(sentence, self._chunk(entry)) for _, entry in nearest]
                else:
                    self._put(found, row, Origin.CACHE, self._recall(sentence, query_BD[row]))
        for sentence, chunk in chunks:
            self._append(sentence, chunk)
        return found

    def held(self, sentences: Sequence[int]) -> list[int]:
        return [len(self.entries_of.get(sentence, [])) for sentence in sentences]

    def release(self, sentences: Sequence[int]) -> None:
        for sentence in sentences:
            self.entries_of.pop(sentence, None)

    def reorder(self, row_B: Tensor) -> None:
        """Caches belong to sentences."""

    def _search(self, query_D: Tensor) -> Found:
        distances = (self._key_ND - query_D.double()).square().sum(dim=1).tolist()
        return sorted((distance, entry) for entry, distance in enumerate(distances))[: self._plan.k]

    def _recall(self, sentence: int, query_D: Tensor) -> Found:
        columns, near = self._plan.columns, []
        for entry in self.entries_of.get(sentence, []):
            squared = float((self._key_ND[entry, :columns] - query_D[:columns].double()).square().sum())
            near.append((math.sqrt(squared), entry))
        return sorted(near)[: self._plan.cache_k]

    def _chunk(self, entry: int) -> list[int]:
        if not self._plan.chunk:
            return []
        end = min(end for end in self._store.ends if end > entry)
        return list(range(entry, min(end, entry + self._plan.chunk)))

    def _append(self, sentence: int, entries: Sequence[int]) -> None:
        own = self.entries_of.setdefault(sentence, [])
        own += [entry for entry in dict.fromkeys(entries) if entry >= 0 and entry not in own]

    @staticmethod
    def _put(found: Retrieved, row: int, origin: Origin, near: Found) -> None:
        found.asked_B[row] = int(origin)
        for number, (distance, entry) in enumerate(near):
            found.entry_BK[row, number], found.distance_BK[row, number] = entry, distance


class PlainStore(ToyStore):
    """The entries of another store, with plain caches."""

    def __init__(self, store: ToyStore) -> None:
        super().__init__(store.key_ND, store.token_N, store.ends)
        self.caches: list[PlainCache] = []

    def new_cache(self, plan: CachePlan, device: torch.device) -> SentenceCache:
        self.caches.append(PlainCache(self, plan))
        return self.caches[-1]
