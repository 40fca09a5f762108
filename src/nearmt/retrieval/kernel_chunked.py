"""Chunk-based retrieval on a GPU: what `Chunked` does for the usual plan, in few launches and without waiting.

At every step all rows recall from their caches, and those that are due are given what a search finds instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from nearmt.contracts import Neighbours, Origin
from nearmt.recording import Pool, recorded_size
from nearmt.retrieval.chunked import ChunkPlan
from nearmt.retrieval.entry_cache import EntryCache
from nearmt.retrieval.retriever import Retrieved, filled_up
from nearmt.retrieval.rows import on_device
from nearmt.retrieval.schedule import search_steps
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
        self._device = gathered.token_N.device
        self._due = [search_steps(plan.schedule, length, max_steps) for length in source_lengths]
        self._cache = caches.take(self, gathered, lambda: EntryCache(gathered))
        self._cache.reset()
        self._seeded = set[int]()
        self._latest: tuple[list[int], Tensor] | None = None
        self.searches = [0] * len(source_lengths)

    @classmethod
    def serves(cls, store: EntrySource, plan: ChunkPlan) -> bool:
        """Whether a request with this plan can be done so."""
        cache = plan.cache
        usual = (cache.scope, cache.retention, cache.duplicates) == ("source", "all", "remove")
        special = plan.in_order or plan.varying_chunk or plan.search_beyond is not None
        return store.gathered is not None and store.gathered.steady and usual and not special

    def retrieve(self, query_BD: Tensor, times: list[int], sources: list[int]) -> Retrieved:
        rows = sources.count(sources[0])
        sentences, most = sources[::rows], max(self._plan.k, self._plan.cache_k)
        due = [place for place, sentence in enumerate(sentences) if times[place * rows] in self._due[sentence]]
        asking, query_BD = query_BD.device, query_BD.to(self._device)
        self._seed([sentences[place] for place in due])
        if len(due) < len(sentences):
            found = Retrieved.all_of(Origin.CACHE, self._recall(query_BD, sentences), most)
        else:
            found = Retrieved.nothing(len(sources), most, self._device)
        if due:
            due_rows = [place * rows + row for place in due for row in range(rows)]
            self._search(found, query_BD, due_rows, [sentences[place] for place in due])
        return found.to(asking)

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
            self._cache.add(on_device(holders, self._device), entry_SX)
            self._seeded.update(first)

    def _recall(self, query_BD: Tensor, sentences: list[int]) -> Neighbours:
        """The neighbours of all rows among what earlier searches brought."""
        k, columns, cache = self._plan.cache_k, self._plan.cache.columns, self._cache
        with timed("cache/search"):
            holders = cache.holders(sentences)
            if self._latest is None or self._latest[0] != holders:
                self._latest = holders, on_device(holders, self._device)
            width = cache.width(holders)

            def recall(query_BD: Tensor, holder_S: Tensor) -> tuple[Tensor, ...]:
                return cache.nearest(query_BD[:, :columns], holder_S, width, k)

            return Neighbours(*cache.record(("recall", k, columns, width), recall, query_BD, self._latest[1]))

    def _search(self, found: Retrieved, query_BD: Tensor, rows: list[int], sentences: list[int]) -> None:
        """The k nearest entries of some rows are found. The chunks that begin with them are kept for later steps."""
        plan, store, cache, count = self._plan, self._store, self._cache, len(rows)
        for sentence in sentences:
            self.searches[sentence] += 1
        most, width = max(plan.k, plan.gather), found.entry_BK.shape[1]

        def search(query_BD: Tensor, row_R: Tensor, holder_S: Tensor) -> tuple[Tensor, ...]:
            wide = store.search(query_BD.index_select(0, row_R), most)
            chunk_RGC = store.chunks(wide.entry_BK[:, : plan.gather], plan.chunk)
            cache.add(holder_S, chunk_RGC.view(len(holder_S), -1))
            return filled_up(Neighbours(wide.entry_BK[:, : plan.k], wide.distance_BK[:, : plan.k]), width)

        holders = cache.holders(sentences)
        cache.make_room(holders, count // len(sentences) * plan.gather * plan.chunk)
        # Some more, which are nobody's and search for the first row, make few shapes of many.
        spare = recorded_size(len(sentences)) - len(sentences)
        holders += [0] * spare
        rows = rows + [0] * (spare * count // len(sentences))
        holder_S, row_R = on_device([*holders, *rows], self._device).split([len(holders), len(rows)])
        name = "search", plan.k, plan.gather, plan.chunk, width
        entry_RK, distance_RK = cache.record(name, search, query_BD, row_R, holder_S)
        cache.count()
        found.put(row_R[:count], Origin.SEARCH, Neighbours(entry_RK[:count], distance_RK[:count]))
