"""The paper's strategies of chunk-based retrieval that the engines' caches do not have.

Caches of hypotheses and of batches, caches of the last search alone, duplicates, chunks read in order (section 3.2.1)
and chunks of varying size (appendix A). Caches are plain torch; decoder, search and scoring use the chosen engines.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nearmt.config.methods import ChunkConfig
from nearmt.config.schedule import search_steps
from nearmt.contracts import Origin
from nearmt.engines.base import Retrieved
from nearmt.engines.reference.rows import on_device, rows_of
from nearmt.methods.chunk import ChunkMethod
from nearmt.research.methods.chunk_order import ChunkReader
from nearmt.research.methods.paper_cache import PaperCache, PaperCacheConfig
from nearmt.retrieval.retriever import RetrievalPlan, Retriever
from nearmt.retrieval.source import EntrySource
from nearmt.steps import Request
from nearmt.timing import timed


class PaperChunkMethod(ChunkMethod):
    """Chunk-based kNN-MT with any of the paper's caches."""

    has_variants = True

    @property
    def shares_batch(self) -> bool:  # type: ignore[override]
        return self.config.recall == "cache" and self.config.scope == "batch"

    @property
    def per_sentence(self) -> bool:  # type: ignore[override]
        return self.config.recall == "cache" and self.config.scope == "source"

    def retriever(self, store: EntrySource, request: Request) -> Retriever:
        return PaperChunkRetriever(store, self.plan, self.config, request)


class PaperChunkRetriever:
    """The schedule of each sentence, and the cache or the chunks of each row."""

    def __init__(self, store: EntrySource, plan: RetrievalPlan, config: ChunkConfig, request: Request) -> None:
        self._store, self._plan, self._config = store, plan, config
        #: Of each sentence: the steps at which it searches, and the interval after each.
        self._due = [search_steps(plan.schedule, length, request.max_steps) for length in request.lengths]
        longest = max((interval for steps in self._due for interval in steps.values()), default=1)
        self._chunk = longest if config.varying_chunk else config.chunk
        cache = PaperCacheConfig(config.scope, config.retention, config.duplicates, plan.cache.columns)
        self._cache = PaperCache(store, cache, len(request.lengths), request.device)
        self._reader: ChunkReader | None = None
        self.searches, self.missed, self.compared = ([0] * len(request.lengths) for _ in range(3))
        self._entries = store.profile.entries

    @property
    def _in_order(self) -> bool:
        return self._config.recall == "in-order"

    def begin(self, sentences: Sequence[int], entry_SX: Tensor) -> None:
        # Where hypotheses have caches, all sentences begin together: row i is sentence i.
        if entry_SX.shape[1] and not self._in_order:
            self._cache.seed(sentences, sentences, entry_SX)

    def retrieve(self, query_BD: Tensor, times: Sequence[int], sentences: Sequence[int]) -> Retrieved:
        each, device = len(query_BD) // len(sentences), query_BD.device
        found = Retrieved.nothing(len(query_BD), self._plan.cache.width, device)
        due = [slot for slot, sentence in enumerate(sentences) if times[slot] in self._due[sentence]]
        searching = min(each, self._plan.search_beams)
        recalling = [slot for slot in range(len(sentences)) if searching < each or slot not in due]
        if recalling:
            self._recall(found, query_BD, recalling, sentences, each)
        if due:
            for slot in due:
                self.searches[sentences[slot]] += 1
                self.compared[sentences[slot]] += searching * self._entries
            self._search(found, query_BD, due, times, sentences, searching)
            for slot in due:
                self.missed[sentences[slot]] += found.missed
        return found

    def reorder(self, row_B: Tensor) -> None:
        self._cache.reorder(row_B)
        if self._reader is not None:
            self._reader.reorder(row_B)

    def release(self, sentences: Sequence[int]) -> None:
        self._cache.release(sentences)

    def _recall(
        self, found: Retrieved, query_BD: Tensor, slots: list[int], sentences: Sequence[int], each: int
    ) -> None:
        """Put neighbours of all rows of some slots, among what earlier searches brought, into their rows."""
        row_R = rows_of(slots, each, each, len(sentences), query_BD.device)
        if self._in_order:
            assert self._reader is not None  # every sentence searches at its first step
            found.put(row_R, Origin.CACHE, self._reader.read(row_R))
            return
        rows = [slot * each + row for slot in slots for row in range(each)]
        owners = [sentences[slot] for slot in slots for _ in range(each)]
        for owner, held in zip(owners, self._cache.held(rows, owners), strict=True):
            self.compared[owner] += held
        with timed("cache/search"):
            query_RE = query_BD[row_R, : self._plan.cache.columns]
            found.put(row_R, Origin.CACHE, self._cache.recall(rows, owners, query_RE, self._plan.cache.cache_k))

    def _search(
        self,
        found: Retrieved,
        query_BD: Tensor,
        due: list[int],
        times: Sequence[int],
        sentences: Sequence[int],
        searching: int,
    ) -> None:
        """Search for the first rows of some slots and keep the chunks for later steps."""
        plan, each = self._plan.cache, len(query_BD) // len(sentences)
        row_R = rows_of(due, each, searching, len(sentences), query_BD.device)
        nearest = self._store.search(query_BD[row_R], plan.k)
        found.put(row_R, Origin.SEARCH, nearest)
        owners = [sentences[slot] for slot in due for _ in range(searching)]
        sizes = [self._due[sentences[slot]][times[slot]] for slot in due for _ in range(searching)]
        entry_RKC = self._chunks(nearest.entry_BK, sizes)
        if self._in_order:
            if self._reader is None:
                self._reader = ChunkReader.blank(len(query_BD), plan.k, self._chunk, query_BD.device)
            self._reader.replace(row_R, entry_RKC, nearest.distance_BK)
            return
        rows = [slot * each + row for slot in due for row in range(searching)]
        with timed("cache/fill"):
            self._cache.remember(rows, owners, entry_RKC.flatten(1))

    def _chunks(self, entry_RK: Tensor, sizes: Sequence[int]) -> Tensor:
        """The entries of the retrieved chunks [R, K, C]; where sizes vary, each as long as its interval."""
        entry_RKC = self._store.chunks(entry_RK, self._chunk)
        if not self._config.varying_chunk:
            return entry_RKC
        position_C = torch.arange(self._chunk, device=entry_RKC.device)
        size_R11 = on_device(sizes, entry_RKC.device)[:, None, None]
        return torch.where(position_C < size_R11, entry_RKC, -1)
