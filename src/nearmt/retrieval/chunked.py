"""Chunk-based retrieval (section 3 of the paper): search seldom, recall in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nearmt.contracts import Neighbours, Origin
from nearmt.retrieval.chunk_order import ChunkReader
from nearmt.retrieval.neighbour_cache import CacheConfig, NeighbourCache
from nearmt.retrieval.retriever import Retrieved
from nearmt.retrieval.rows import chosen, on_device
from nearmt.retrieval.schedule import Schedule, search_steps
from nearmt.retrieval.source import EntrySource
from nearmt.timing import timed


@dataclass(frozen=True)
class ChunkPlan:
    """When chunks are retrieved, how many, how long, and how they are recalled."""

    k: int
    #: Neighbours recalled from the cache.
    cache_k: int
    schedule: Schedule
    chunk: int
    varying_chunk: bool
    #: Chunks that a search brings into the cache; the k nearest make the distribution of its own step.
    gather: int
    #: Pairs with similar sources whose tokens are in the cache from the start.
    seeds: int
    #: A row also searches where its nearest cache entry is farther than this.
    search_beyond: float | None
    in_order: bool
    cache: CacheConfig


class Chunked:
    """One request: the schedule of each sentence, and the cache or the chunks of each row."""

    def __init__(
        self,
        store: EntrySource,
        plan: ChunkPlan,
        source_lengths: Sequence[int],
        max_steps: int,
        sources: Sequence[Sequence[int]] = (),
    ) -> None:
        self._store, self._plan, self._sentences = store, plan, len(source_lengths)
        self._sources = sources
        #: Of each sentence: the steps at which it searches, and the interval after each.
        self._due = [search_steps(plan.schedule, length, max_steps) for length in source_lengths]
        longest = max((interval for steps in self._due for interval in steps.values()), default=1)
        self._chunk = longest if plan.varying_chunk else plan.chunk
        self._cache: NeighbourCache | None = None
        self._reader: ChunkReader | None = None
        self.searches = [0] * len(source_lengths)

    def retrieve(self, query_BD: Tensor, time: int, sources: list[int]) -> Retrieved:
        """Sentences that are due search and fill their caches; then the others recall from theirs."""
        found = Retrieved.nothing(len(sources), max(self._plan.k, self._plan.cache_k), query_BD.device)
        due = [row for row, source in enumerate(sources) if time in self._due[source]]
        rest = [row for row, source in enumerate(sources) if time not in self._due[source]]
        if due:
            self._search(found, query_BD, due, time, sources)
        if rest:
            recalled = self._recall(query_BD, rest, sources)
            found.put(chosen(rest, len(sources), query_BD.device), Origin.CACHE, recalled)
            far = self._far(recalled, rest)
            if far:
                self._search(found, query_BD, far, time, sources)
        return found

    def reorder(self, row_B: Tensor) -> None:
        for part in (self._cache, self._reader):
            if part is not None:
                part.reorder(row_B)

    def _search(self, found: Retrieved, query_BD: Tensor, rows: list[int], time: int, sources: list[int]) -> None:
        """Search for some rows: the k nearest are found, the chunks are kept for later steps."""
        plan, device = self._plan, query_BD.device
        own = [sources[row] for row in rows]
        for source in set(own):
            self.searches[source] += 1
        row_R = chosen(rows, len(sources), device)
        wide = self._store.search(query_BD[row_R], max(plan.k, plan.gather))
        nearest = Neighbours(wide.entry_BK[:, : plan.k], wide.distance_BK[:, : plan.k])
        found.put(row_R, Origin.SEARCH, nearest)
        if plan.in_order:
            if self._reader is None:
                self._reader = ChunkReader.blank(len(sources), plan.k, self._chunk, device)
            self._reader.replace(row_R, self._chunks(nearest.entry_BK, time, own), nearest.distance_BK)
        else:
            if self._cache is None:
                self._cache = self._seeded_cache(device)
            entry_RGC = self._chunks(wide.entry_BK[:, : plan.gather], time, own)
            with timed("cache/fill"):
                self._cache.remember(rows, own, entry_RGC.flatten(1))

    def _seeded_cache(self, device: torch.device) -> NeighbourCache:
        """A cache that holds, from the start, the translations of similar sources."""
        cache = NeighbourCache(self._store, self._plan.cache, self._sentences, device)
        if self._plan.seeds and self._sources:
            found = [self._store.similar(source, self._plan.seeds) for source in self._sources]
            entry_RX = torch.nn.utils.rnn.pad_sequence(found, batch_first=True, padding_value=-1).to(device)
            cache.seed(entry_RX)
        return cache

    def _chunks(self, entry_RG: Tensor, time: int, own: list[int]) -> Tensor:
        """The entries of the retrieved chunks [R, G, C]; where sizes vary, each as long as its interval."""
        entry_RGC = self._store.chunks(entry_RG, self._chunk)
        if not self._plan.varying_chunk:
            return entry_RGC
        place_C = torch.arange(self._chunk, device=entry_RGC.device)
        size_R = on_device([self._due[source][time] for source in own], entry_RGC.device)
        return torch.where(place_C < size_R[:, None, None], entry_RGC, -1)

    def _recall(self, query_BD: Tensor, rows: list[int], sources: list[int]) -> Neighbours:
        """The neighbours of some rows among what earlier searches brought."""
        row_R = chosen(rows, len(sources), query_BD.device)
        if self._plan.in_order:
            assert self._reader is not None  # every sentence searches at its first step
            return self._reader.read(row_R)
        assert self._cache is not None
        with timed("cache/search"):
            query_RE = query_BD[row_R, : self._plan.cache.columns]
            return self._cache.recall(rows, [sources[row] for row in rows], query_RE, self._plan.cache_k)

    def _far(self, recalled: Neighbours, rows: list[int]) -> list[int]:
        """Those of the rows that find nothing near in the cache."""
        if self._plan.search_beyond is None:
            return []
        # Who searches is decided in Python: on a GPU the program waits for it.
        is_far = (recalled.distance_BK[:, 0] > self._plan.search_beyond).tolist()
        return [row for row, far in zip(rows, is_far, strict=True) if far]
