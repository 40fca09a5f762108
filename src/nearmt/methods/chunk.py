"""Chunk-based kNN-MT (Martins et al. 2022, section 3): search seldom, recall in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nearmt.config import option
from nearmt.contracts import Evidence, Neighbours, Origin, Step
from nearmt.methods.evidence import add_evidence, mixed_log_probs, no_evidence
from nearmt.methods.knn import KnnConfig, resolve
from nearmt.retrieval.chunk_order import ChunkReader
from nearmt.retrieval.neighbour_cache import DUPLICATES, RETENTIONS, SCOPES, CacheConfig, NeighbourCache
from nearmt.retrieval.schedule import parse_schedule, search_steps
from nearmt.retrieval.source import EntrySource
from nearmt.timing import timed

#: T' in units of the store's typical distance (not squared) on the cache columns.
CACHE_TEMPERATURE_SHARE = 0.3
#: How much less than lambda the cache weighs, by default.
CACHE_DISCOUNT = 0.1

#: The strategies of section 3.2 as settings. They keep duplicates, as the paper's do.
PRESETS: dict[str, dict[str, str]] = {
    "in-order": {"recall": "in-order"},
    "single-chunk": {"scope": "hypothesis", "retention": "last", "duplicates": "keep"},
    "beam-batch": {"scope": "batch", "retention": "last", "duplicates": "keep"},
    "sentence": {"scope": "batch", "retention": "all", "duplicates": "keep"},
}
#: What the paper uses where it says nothing else.
PRESETS["paper"] = PRESETS["sentence"]


@dataclass(frozen=True)
class ChunkConfig(KnnConfig):
    """How neighbours are retrieved and mixed in."""

    chunk: int = option(16, "tokens of a retrieved chunk (c)", low=1, high=1024)
    schedule: str = option("geometric:2:16", "when to search: every:STEPS or geometric:MIN:MAX")
    varying_chunk: bool = option(False, "chunks as long as the interval that follows (c_k = i_k), not --chunk")
    cache_weight: float | None = option(
        None, "weight of the neighbours between searches (default: from the store)", name="cache-lambda", low=0, high=1
    )
    cache_temperature: float | None = option(
        None, "softmax temperature T' between searches, on distances (default: from the store)", low=1e-6
    )
    cache_columns: int | None = option(None, "columns of the keys that the cache compares (default: 64)", low=1)
    recall: str = option("cache", "between searches: the cache, or chunks in order", choices=("cache", "in-order"))
    scope: str = option("source", "who shares a cache", choices=SCOPES)
    retention: str = option("all", "chunks a cache keeps: of the last search, or of all", choices=RETENTIONS)
    duplicates: str = option("remove", "what to do with an entry retrieved twice", choices=DUPLICATES)

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_schedule(self.schedule)


def resolve_cache(config: ChunkConfig, store: EntrySource) -> ChunkConfig:
    """The settings with lambda', T' and the columns filled in from what the store knows of itself."""
    weight, temperature = config.cache_weight, config.cache_temperature
    if weight is None:
        weight = round(max(0.0, (config.weight or 0.0) - CACHE_DISCOUNT), 2)
    if temperature is None:
        temperature = CACHE_TEMPERATURE_SHARE * store.cache_scale
    columns = config.cache_columns or store.cache_columns
    return replace(config, cache_weight=weight, cache_temperature=temperature, cache_columns=columns)


class ChunkState:
    """One request: the schedule of each sentence, and the cache or the chunks of each row."""

    def __init__(self, method: ChunkMethod, source_lengths: Sequence[int], max_steps: int, trace: bool) -> None:
        self._store, self._config = method.store, method.config
        schedule = parse_schedule(self._config.schedule)
        #: Of each sentence: the steps at which it searches, and the interval after each.
        self._due = [search_steps(schedule, length, max_steps) for length in source_lengths]
        longest = max((interval for steps in self._due for interval in steps.values()), default=1)
        self._chunk = longest if self._config.varying_chunk else self._config.chunk
        self._cache_config, self._sentences = method.cache_config, len(source_lengths)
        self._cache: NeighbourCache | None = None
        self._reader: ChunkReader | None = None
        self.searches = [0] * len(source_lengths)
        self.evidence: list[Evidence] | None = [] if trace else None

    def log_probs(self, step: Step) -> Tensor:
        """Rows that are due search and fill the cache; then the others recall from it."""
        device = step.logits_BV.device
        evidence = no_evidence(len(step.sources), self._config.k, device)
        query_BD = self._store.query(step.hidden_BH)
        due = [row for row, source in enumerate(step.sources) if step.time in self._due[source]]
        rest = [row for row, source in enumerate(step.sources) if step.time not in self._due[source]]
        if due:
            self._search(step, evidence, due, query_BD[due])
        if rest:
            self._recall(step, evidence, rest, query_BD[rest])
        if self.evidence is not None:
            self.evidence.append(evidence)
        return mixed_log_probs(step, evidence)

    def _search(self, step: Step, evidence: Evidence, rows: list[int], query_RD: Tensor) -> None:
        config = self._config
        found = self._store.search(query_RD, config.k)
        row_R = torch.tensor(rows, device=query_RD.device)
        assert config.temperature is not None and config.weight is not None
        add_evidence(evidence, row_R, Origin.SEARCH, found, self._store, config.temperature, config.weight)
        sources = [step.sources[row] for row in rows]
        for source in set(sources):
            self.searches[source] += 1
        entry_RKC = self._chunks(found, [self._due[source][step.time] for source in sources])
        if config.recall == "cache":
            if self._cache is None:
                self._cache = NeighbourCache(self._store, self._cache_config, self._sentences, query_RD.device)
            self._cache.remember(rows, sources, entry_RKC.flatten(1))
        else:
            if self._reader is None:
                self._reader = ChunkReader.blank(len(step.sources), config.k, self._chunk, query_RD.device)
            self._reader.replace(row_R, entry_RKC, found.distance_BK)

    def _chunks(self, found: Neighbours, intervals: list[int]) -> Tensor:
        """The entries of the retrieved chunks [R, K, C]; where sizes vary, each as long as its interval."""
        entry_RKC = self._store.chunks(found.entry_BK, self._chunk)
        if not self._config.varying_chunk:
            return entry_RKC
        place_C = torch.arange(self._chunk, device=entry_RKC.device)
        size_R = torch.tensor(intervals, device=entry_RKC.device)
        return torch.where(place_C < size_R[:, None, None], entry_RKC, -1)

    def _recall(self, step: Step, evidence: Evidence, rows: list[int], query_RD: Tensor) -> None:
        config = self._config
        row_R = torch.tensor(rows, device=query_RD.device)
        if config.recall == "cache":
            assert self._cache is not None  # every sentence searches at its first step
            with timed("cache/search"):
                sources = [step.sources[row] for row in rows]
                query_RE = query_RD[:, : config.cache_columns]
                found = self._cache.recall(rows, sources, query_RE, config.k)
            temperature = config.cache_temperature
        else:
            assert self._reader is not None
            found = self._reader.read(row_R)
            temperature = config.temperature
        assert temperature is not None and config.cache_weight is not None
        add_evidence(evidence, row_R, Origin.CACHE, found, self._store, temperature, config.cache_weight)

    def reorder(self, row_B: Tensor) -> None:
        for part in (self._cache, self._reader):
            if part is not None:
                part.reorder(row_B)


class ChunkMethod:
    """Equation 3 at every step, with neighbours from the datastore or from what it brought before."""

    def __init__(self, store: EntrySource, config: ChunkConfig | None = None) -> None:
        self.store = store
        self.config = resolve_cache(resolve(config or ChunkConfig(), store), store)
        columns = self.config.cache_columns or store.cache_columns
        self.cache_config = CacheConfig(self.config.scope, self.config.retention, self.config.duplicates, columns)

    @property
    def shares_batch(self) -> bool:
        return self.config.recall == "cache" and self.config.scope == "batch"

    def begin(self, source_lengths: Sequence[int], max_steps: int, trace: bool) -> ChunkState:
        return ChunkState(self, source_lengths, max_steps, trace)

    def signature(self) -> str:
        return f"method:chunk|datastore:{self.store.identity}|{self.config.signature()}"
