"""Chunk-based kNN-MT (Martins et al. 2022, section 3): search seldom, recall in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nearmt.config.methods import ALL_BEAMS, ChunkConfig
from nearmt.config.schedule import parse_schedule
from nearmt.engines.cuda.graphs import Pool
from nearmt.methods.adaptive import load_adaptive
from nearmt.methods.knn import lag_of, near_ends, resolve, settings_signature
from nearmt.methods.mixing import FixedMixer, Mixer
from nearmt.methods.retrieving import RetrievingMethod
from nearmt.retrieval.chunked import Chunked, ChunkPlan
from nearmt.retrieval.ends import NEAR_SHARE, NearEnds
from nearmt.retrieval.entry_cache import EntryCache
from nearmt.retrieval.kernel_chunked import KernelChunked
from nearmt.retrieval.native_chunked import NativeChunked
from nearmt.retrieval.neighbour_cache import CacheConfig
from nearmt.retrieval.retriever import Retriever
from nearmt.retrieval.source import EntrySource

#: T' in units of the store's typical distance (not squared) on the cache columns, and neighbours recalled, in
#: units of k: a cache that is seeded holds many that are worth hearing.
SEEDED_TEMPERATURE_SHARE = 0.2
SEEDED_NEIGHBOURS = 2
#: The same for a cache that knows nothing but retrieved chunks, and how much less than lambda it weighs.
CHUNK_TEMPERATURE_SHARE = 0.3
CHUNK_NEIGHBOURS = 1
CHUNK_DISCOUNT = 0.1

#: Hypotheses of a sentence that search where they share what they find. Fewer than three cost BLEU with a large memory
#: (docs/log.md).
SEARCH_BEAMS = 3


def resolve_cache(config: ChunkConfig, store: EntrySource) -> ChunkConfig:
    """The settings with lambda', T' and the others filled in from what the store knows of itself."""
    columns = min(config.cache_columns or store.columns, store.columns)
    if not store.knows_sources:
        config = replace(config, seeds=0)
    weight, temperature = config.cache_weight, config.cache_temperature
    if config.adaptive is not None:
        weight = temperature = None
    elif weight is None:
        discount = 0.0 if config.seeds else CHUNK_DISCOUNT
        weight = round(max(0.0, (config.weight or 0.0) - discount), 2)
    if temperature is None and config.adaptive is None:
        share = SEEDED_TEMPERATURE_SHARE if config.seeds else CHUNK_TEMPERATURE_SHARE
        temperature = share * store.scale(columns)
    seeded = config.seeds and config.recall == "cache"
    neighbours = config.k * (SEEDED_NEIGHBOURS if seeded else CHUNK_NEIGHBOURS)
    return replace(
        config,
        cache_weight=weight,
        cache_temperature=temperature,
        cache_columns=columns,
        cache_k=config.cache_k or neighbours,
        search_beams=config.search_beams or (SEARCH_BEAMS if config.shares_chunks else ALL_BEAMS),
    )


class ChunkMethod(RetrievingMethod):
    """Equation 3 at every step, with neighbours from the datastore or from what it brought before."""

    name = "chunk"

    def __init__(self, store: EntrySource, config: ChunkConfig | None = None) -> None:
        self.config = resolve_cache(resolve(config or ChunkConfig(), store), store)
        mixer, near = _mixer(self.config), _near_ends(self.config, store)
        super().__init__(store, mixer, self.config.guard, near, lag_of(self.config))
        self._plan = _plan(self.config, store)
        #: What requests on a GPU leave to those that follow.
        self._caches = Pool[EntryCache]()

    @property
    def shares_batch(self) -> bool:  # type: ignore[override]
        return self.config.recall == "cache" and self.config.scope == "batch"

    @property
    def by_sentence(self) -> bool:  # type: ignore[override]
        return self.config.recall == "cache" and self.config.scope == "source"

    def retriever(
        self,
        store: EntrySource,
        source_lengths: Sequence[int],
        max_steps: int,
        sources: Sequence[Sequence[int]] = (),
    ) -> Retriever:
        if KernelChunked.serves(store, self._plan):
            return KernelChunked(store, self._plan, source_lengths, max_steps, sources, self._caches)
        usual = NativeChunked if NativeChunked.serves(store, self._plan) else Chunked
        return usual(store, self._plan, source_lengths, max_steps, sources)

    def settings(self) -> str:
        return settings_signature(self.config, self.mixer)


def _mixer(config: ChunkConfig) -> Mixer:
    if config.adaptive is not None:
        return load_adaptive(Path(config.adaptive), config.k, config.cache_k, boost=config.adaptive_boost)
    assert config.weight is not None and config.temperature is not None
    assert config.cache_weight is not None and config.cache_temperature is not None
    # Chunks that are read in order keep the distances of their search, and so its temperature.
    recalled = config.temperature if config.recall == "in-order" else config.cache_temperature
    return FixedMixer(config.weight, config.temperature, config.cache_weight, recalled)


def _near_ends(config: ChunkConfig, store: EntrySource) -> NearEnds | None:
    searched = near_ends(config, store)
    # Chunks that are read in order keep the distances of their search.
    if searched is None or config.recall == "in-order":
        return searched
    return replace(searched, cache=NEAR_SHARE * store.scale(config.cache_columns or store.columns))


def _plan(config: ChunkConfig, store: EntrySource) -> ChunkPlan:
    columns = config.cache_columns or store.columns
    return ChunkPlan(
        k=config.k,
        schedule=parse_schedule(config.schedule),
        chunk=config.chunk,
        varying_chunk=config.varying_chunk,
        cache_k=config.cache_k or config.k,
        search_beams=config.search_beams or ALL_BEAMS,
        seeds=config.seeds,
        in_order=config.recall == "in-order",
        cache=CacheConfig(config.scope, config.retention, config.duplicates, columns),
    )
