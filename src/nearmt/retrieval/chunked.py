"""Chunk-based retrieval (section 3 of the paper): search seldom, recall in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nearmt.config.schedule import Schedule, search_steps
from nearmt.contracts import Neighbours, Origin
from nearmt.retrieval.chunk_order import ChunkReader
from nearmt.retrieval.neighbour_cache import CacheConfig, NeighbourCache
from nearmt.retrieval.retriever import Retrieved
from nearmt.retrieval.rows import chosen, on_device, ranks_of
from nearmt.retrieval.source import EntrySource
from nearmt.timing import timed


@dataclass(frozen=True)
class ChunkPlan:
    """When chunks are retrieved, how many, how long, and how they are recalled."""

    #: Neighbours of a search; it brings the chunks that begin with them.
    k: int
    #: Neighbours recalled from the cache.
    cache_k: int
    schedule: Schedule
    #: Hypotheses of a sentence that search when it is due, best first. What they bring is for all that share a cache.
    search_beams: int
    chunk: int
    varying_chunk: bool
    #: Pairs with similar sources whose tokens are in the cache from the start.
    seeds: int
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
        self._store, self._plan, self._sources = store, plan, sources
        #: Of each sentence: the steps at which it searches, and the interval after each.
        self._due = [search_steps(plan.schedule, length, max_steps) for length in source_lengths]
        longest = max((interval for steps in self._due for interval in steps.values()), default=1)
        self._chunk = longest if plan.varying_chunk else plan.chunk
        self._cache: NeighbourCache | None = None
        self._seeded = set[int]()
        self._reader: ChunkReader | None = None
        self.searches = [0] * len(source_lengths)

    def retrieve(self, query_BD: Tensor, times: list[int], sources: list[int]) -> Retrieved:
        """Rows recall what earlier steps brought; the best of sentences that are due search, and fill the caches."""
        found = Retrieved.nothing(len(sources), max(self._plan.k, self._plan.cache_k), query_BD.device)
        is_due = [time in self._due[source] for time, source in zip(times, sources, strict=True)]
        ranks, most = ranks_of(sources), self._plan.search_beams
        due = [row for row, now in enumerate(is_due) if now and ranks[row] < most]
        # Rows of a sentence recall together, also those that search besides.
        left_out = {source for source, rank in zip(sources, ranks, strict=True) if rank >= most}
        rest = [row for row, now in enumerate(is_due) if not now or sources[row] in left_out]
        if rest:
            recalled = self._recall(query_BD, rest, sources)
            found.put(chosen(rest, len(sources), query_BD.device), Origin.CACHE, recalled)
        if due:
            self._search(found, query_BD, due, times, sources)
        return found

    def reorder(self, row_B: Tensor) -> None:
        for part in (self._cache, self._reader):
            if part is not None:
                part.reorder(row_B)

    def leave(self, sources: list[int]) -> None:
        if self._cache is not None:
            self._cache.leave(sources)

    def _search(
        self, found: Retrieved, query_BD: Tensor, rows: list[int], times: list[int], sources: list[int]
    ) -> None:
        """Search for some rows: the k nearest are found, the chunks are kept for later steps."""
        plan, device = self._plan, query_BD.device
        own, own_times = [sources[row] for row in rows], [times[row] for row in rows]
        for source in set(own):
            self.searches[source] += 1
        row_R = chosen(rows, len(sources), device)
        nearest = self._store.search(query_BD[row_R], plan.k)
        found.put(row_R, Origin.SEARCH, nearest)
        entry_RKC = self._chunks(nearest.entry_BK, own_times, own)
        if plan.in_order:
            if self._reader is None:
                self._reader = ChunkReader.blank(len(sources), plan.k, self._chunk, device)
            self._reader.replace(row_R, entry_RKC, nearest.distance_BK)
        else:
            cache = self._caches(device)
            self._seed(cache, rows, own, device)
            with timed("cache/fill"):
                cache.remember(rows, own, entry_RKC.flatten(1))

    def _caches(self, device: torch.device) -> NeighbourCache:
        if self._cache is None:
            self._cache = NeighbourCache(self._store, self._plan.cache, len(self._due), device)
        return self._cache

    def _seed(self, cache: NeighbourCache, rows: list[int], own: list[int], device: torch.device) -> None:
        """Sentences that search for the first time hold the translations of similar sources from now on."""
        if not (self._plan.seeds and self._sources):
            return
        first = {source: row for row, source in zip(rows, own, strict=True) if source not in self._seeded}
        if first:
            entry_RX = self._store.similar_each([self._sources[source] for source in first], self._plan.seeds)
            cache.seed(list(first.values()), list(first), entry_RX.to(device))
            self._seeded.update(first)

    def _chunks(self, entry_RK: Tensor, times: list[int], own: list[int]) -> Tensor:
        """The entries of the retrieved chunks [R, K, C]; where sizes vary, each as long as its interval."""
        entry_RKC = self._store.chunks(entry_RK, self._chunk)
        if not self._plan.varying_chunk:
            return entry_RKC
        place_C = torch.arange(self._chunk, device=entry_RKC.device)
        sizes = [self._due[source][time] for time, source in zip(times, own, strict=True)]
        size_R = on_device(sizes, entry_RKC.device)
        return torch.where(place_C < size_R[:, None, None], entry_RKC, -1)

    def _recall(self, query_BD: Tensor, rows: list[int], sources: list[int]) -> Neighbours:
        """The neighbours of some rows among what earlier searches brought."""
        row_R = chosen(rows, len(sources), query_BD.device)
        if self._plan.in_order:
            assert self._reader is not None  # every sentence searches at its first step
            return self._reader.read(row_R)
        with timed("cache/search"):
            query_RE = query_BD[row_R, : self._plan.cache.columns]
            return self._caches(query_BD.device).recall(
                rows, [sources[row] for row in rows], query_RE, self._plan.cache_k
            )
