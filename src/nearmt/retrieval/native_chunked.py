"""Chunk-based retrieval on a CPU with kernels: what `Chunked` does for the usual plan, in few calls."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from nearmt.contracts import Neighbours, Origin
from nearmt.engines.cpu.nearest import RowSearch
from nearmt.retrieval.chunked import Chunked, ChunkPlan
from nearmt.retrieval.neighbour_cache import NeighbourCache
from nearmt.retrieval.retriever import Retrieved
from nearmt.retrieval.source import EntrySource
from nearmt.timing import timed


class NativeChunked(Chunked):
    """One request. Rows of a sentence stand side by side, equally many of each."""

    @classmethod
    def serves(cls, store: EntrySource, plan: ChunkPlan) -> bool:
        """Whether a request with this plan can be done so."""
        special = plan.in_order or plan.varying_chunk or plan.cache_k < plan.k
        return not special and NeighbourCache.at_once(store, plan.cache)

    @cached_property
    def _row_search(self) -> RowSearch | None:
        """What searches for rows where they stand."""
        rows = self._store.rows
        return rows.searching(self._plan.k) if rows is not None else None

    def retrieve(self, query_BD: Tensor, times: list[int], sources: list[int]) -> Retrieved:
        if query_BD.device.type != "cpu":  # the model is elsewhere, and so are its caches
            return super().retrieve(query_BD, times, sources)
        plan, count, rows = self._plan, len(sources), sources.count(sources[0])
        sentences = sources[::rows]
        due = [place for place, sentence in enumerate(sentences) if times[place * rows] in self._due[sentence]]
        each = min(rows, plan.search_beams)
        query_BD = query_BD.contiguous()
        found = Retrieved(  # numpy is quicker with so few
            asked_B=torch.from_numpy(np.full(count, int(Origin.CACHE))),
            entry_BK=torch.empty(count, plan.cache_k, dtype=torch.long),
            distance_BK=torch.empty(count, plan.cache_k),
        )
        # Those that search need what the others of their sentence recall only if there are others.
        reading = [place for place in range(len(sentences)) if each < rows or place not in due]
        if reading:
            with timed("cache/search"):
                cache, neighbours = self._caches(query_BD.device), Neighbours(found.entry_BK, found.distance_BK)
                cache.recall_at_once(neighbours, query_BD, sentences, reading)
        if due:
            self._search_for(
                found, query_BD, [sentences[place] for place in due], [place * rows for place in due], each
            )
        return found

    def _search_for(
        self, found: Retrieved, query_BD: Tensor, sentences: list[int], firsts: list[int], each: int
    ) -> None:
        """Search for the first rows of some sentences; the chunks are kept for later steps."""
        plan = self._plan
        for sentence in sentences:
            self.searches[sentence] += 1
        rows = np.array([first + row for first in firsts for row in range(each)])
        entry_RK = self._look_for(found, query_BD, rows)
        cache = self._caches(query_BD.device)
        self._seed(cache, firsts, sentences, query_BD.device)
        with timed("cache/fill"):
            cache.remember_chunks(sentences, torch.from_numpy(entry_RK.reshape(len(sentences), -1)), plan.chunk)

    def _look_for(self, found: Retrieved, query_BD: Tensor, rows: np.ndarray) -> np.ndarray:
        """Put the k nearest of some rows where they belong; returned is where chunks begin, [R, K]."""
        k = self._plan.k
        found.asked_B.numpy()[rows] = int(Origin.SEARCH)
        if self._row_search is not None:
            with timed("index/search"):
                fewer = self._row_search(query_BD, rows, found.entry_BK, found.distance_BK)
            if not fewer:
                entry_RK: np.ndarray = found.entry_BK.numpy()[rows, :k]
                return entry_RK
        nearest = self._store.search(torch.from_numpy(query_BD.numpy()[rows]), k)
        _put(found, rows, nearest, k)
        return np.ascontiguousarray(nearest.entry_BK.numpy())


def _put(found: Retrieved, rows: np.ndarray, nearest: Neighbours, k: int) -> None:
    """What `Retrieved.put` does with the k nearest of a search, by numpy, which is quicker with so few."""
    entries, distances = (found.entry_BK, nearest.entry_BK, -1), (found.distance_BK, nearest.distance_BK, torch.inf)
    for to, new, nothing in (entries, distances):
        to.numpy()[rows, :k] = new.numpy()
        to.numpy()[rows, k:] = nothing
