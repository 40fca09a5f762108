"""Chunk-based retrieval on a GPU: what `Chunked` does for the usual plan, in few launches and without waiting.

At every step all rows recall from their caches, and those that are due are given what a search finds instead.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nearmt.config.schedule import search_steps
from nearmt.engines.cuda.graphs import Pool, recorded_size
from nearmt.retrieval.chunked import ChunkPlan
from nearmt.retrieval.entry_cache import Desk, EntryCache
from nearmt.retrieval.retriever import Retrieved
from nearmt.retrieval.rows import on_device
from nearmt.retrieval.source import EntrySource
from nearmt.timing import timed


class KernelChunked:
    """One request. Rows of a sentence stand side by side, equally many of each."""

    def __init__(
        self,
        store: EntrySource,
        plan: ChunkPlan,
        source_lengths: Sequence[int],
        max_steps: int,
        sources: Sequence[Sequence[int]],
        caches: Pool[EntryCache],
    ) -> None:
        gathered = store.gathered
        assert gathered is not None
        self._store, self._plan, self._sources = store, plan, sources
        self._due = [search_steps(plan.schedule, length, max_steps) for length in source_lengths]
        self._cache = caches.take(self, gathered, lambda: EntryCache(gathered))
        self._cache.reset()
        self._seeded = set[int]()
        self.searches = [0] * len(source_lengths)

    @classmethod
    def serves(cls, store: EntrySource, plan: ChunkPlan) -> bool:
        """Whether a request with this plan can be done so."""
        cache = plan.cache
        usual = (cache.scope, cache.retention, cache.duplicates) == ("source", "all", "remove")
        special = plan.in_order or plan.varying_chunk
        return store.gathered is not None and store.gathered.steady and usual and not special

    def retrieve(self, query_BD: Tensor, times: list[int], sources: list[int]) -> Retrieved:
        plan, cache, count, rows = self._plan, self._cache, len(sources), sources.count(sources[0])
        sentences = sources[::rows]
        due = [place for place, sentence in enumerate(sentences) if times[place * rows] in self._due[sentence]]
        each = min(rows, plan.search_beams)
        due_rows = [place * rows + row for place in due for row in range(each)]
        searching = [sentences[place] for place in due]
        desk = cache.desk(recorded_size(len(sentences)) * rows, max(plan.k, plan.cache_k), searched=plan.k)
        cache.beside.join()
        desk.query_PD[:count].copy_(query_BD)
        self._seed(searching)
        if due:
            self._search(desk, searching, due_rows)
        if len(due) < len(sentences) or each < rows:
            self._recall(desk, sentences, rows)
        if due:
            self._take(desk, searching, each)
        return desk.found.first(count).to(query_BD.device)

    def reorder(self, row_B: Tensor) -> None:
        """Caches belong to sentences."""

    def leave(self, sources: list[int]) -> None:
        self._cache.leave(sources)

    def _seed(self, sentences: list[int]) -> None:
        """Those that search for the first time hold the translations of similar sources from now on."""
        first = [sentence for sentence in sentences if sentence not in self._seeded]
        if first and self._plan.seeds and self._sources:
            entry_SX = self._store.similar_each([self._sources[sentence] for sentence in first], self._plan.seeds)
            holders = self._cache.holders(first)
            self._cache.make_room(holders, entry_SX.shape[1])
            self._cache.add(on_device(holders, self._cache.device), entry_SX)
            self._seeded.update(first)

    def _recall(self, desk: Desk, sentences: list[int], rows: int) -> None:
        """The neighbours of all rows among what earlier searches brought."""
        k, columns, cache = self._plan.cache_k, self._plan.cache.columns, self._cache
        with timed("cache/search"):
            holders = cache.holders(sentences)
            width = cache.width(holders)

            def recall(holder_S: Tensor) -> tuple[Tensor, ...]:
                cache.recall(desk.found, desk.query_PD[: len(holder_S) * rows, :columns], holder_S, width, k)
                return ()

            name = "recall", k, columns, width, *desk.shape
            cache.record(name, recall, on_device(holders, torch.device("cpu")), sentences=len(sentences))

    def _search(self, desk: Desk, sentences: list[int], rows: list[int]) -> None:
        """Begin to search for the nearest entries of some rows, beside what follows."""
        store, cache, each = self._store, self._cache, len(rows) // len(sentences)
        for sentence in sentences:
            self.searches[sentence] += 1
        # Some more, which are nobody's, make few shapes of many.
        size = recorded_size(len(sentences))
        spare = size - len(sentences)
        numbers = [*cache.holders(sentences), *[0] * spare, *rows, *[desk.nobody] * (spare * each)]

        def search() -> tuple[Tensor, ...]:
            entry_PW, distance_PW = desk.searched.entry_BK, desk.searched.distance_BK
            row_R = desk.number_X[size : size + size * each]
            wide = store.search(desk.query_PD.index_select(0, row_R), entry_PW.shape[1])
            entry_PW[: len(row_R)], distance_PW[: len(row_R)] = wide.entry_BK, wide.distance_BK
            return ()

        with cache.beside.working():
            desk.number_X[: len(numbers)].copy_(on_device(numbers, torch.device("cpu")), non_blocking=True)
            cache.beside.record(("search", size, each, *desk.shape), search)
            cache.beside.mark()

    def _take(self, desk: Desk, sentences: list[int], each: int) -> None:
        """The k nearest that a search brought are what is found, and the chunks that begin with them are kept."""
        plan, store, cache, size = self._plan, self._store, self._cache, recorded_size(len(sentences))

        def put() -> tuple[Tensor, ...]:
            desk.put(desk.number_X[size : size + size * each])
            return ()

        def keep() -> tuple[Tensor, ...]:
            entry_RK = desk.searched.entry_BK[: size * each]
            cache.add(desk.number_X[:size], store.chunks(entry_RK, plan.chunk).view(size, -1))
            return ()

        cache.beside.wait()
        cache.record(("put", size, each, *desk.shape), put)
        cache.make_room(cache.holders(sentences), each * plan.k * plan.chunk)
        with cache.beside.working():
            cache.beside.record(("keep", plan.chunk, size, each, *desk.shape), keep)
            cache.count()
