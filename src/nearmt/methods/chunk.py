"""Chunk-based kNN-MT (Martins et al. 2022, section 3): search seldom, recall in between."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nearmt.config.methods import ALL_BEAMS, ChunkConfig
from nearmt.config.schedule import parse_schedule
from nearmt.contracts import StoreProfile
from nearmt.engines.base import CachePlan, EndRule
from nearmt.errors import ConfigError
from nearmt.methods.adaptive import load_adaptive
from nearmt.methods.knn import END_RADIUS, agreement_rule, end_rule, resolve, settings_signature, tolerance_of
from nearmt.methods.mixing import FixedMixer, Mixer
from nearmt.methods.retrieving import RetrievingMethod
from nearmt.retrieval.retriever import RetrievalPlan, Retriever, ScheduledRetriever
from nearmt.retrieval.source import EntrySource, LiveSource
from nearmt.steps import Request

#: T' in units of the store's typical distance (not squared) on the cache columns, and neighbours recalled, in
#: units of k: a cache that is seeded holds many that are worth hearing.
SEEDED_TEMPERATURE_SHARE = 0.2
SEEDED_NEIGHBOURS = 2
#: The same for a cache that knows nothing but retrieved chunks, and how much less than lambda it weighs.
CHUNK_TEMPERATURE_SHARE = 0.3
CHUNK_NEIGHBOURS = 1
CHUNK_DISCOUNT = 0.1
#: Entries that seeds should bring into a cache, and the bounds of their number: 128 short strings have too few words
#: for what a sentence needs, and more of long sentences cost time and bring nothing (docs/log.md).
SEED_ENTRIES = 4096
FEWEST_SEEDS, MOST_SEEDS = 128, 512
#: Hypotheses of a sentence that search where they share what they find. Fewer than three cost BLEU with a large memory
#: (docs/log.md).
SEARCH_BEAMS = 3


def default_seeds(profile: StoreProfile) -> int:
    """Pairs that hold about SEED_ENTRIES entries of this store, in steps of 32."""
    typical = SEED_ENTRIES * profile.pairs // max(1, profile.entries)
    return min(MOST_SEEDS, max(FEWEST_SEEDS, typical // 32 * 32))


def resolve_cache(config: ChunkConfig, store: EntrySource) -> ChunkConfig:
    """The settings with lambda', T' and the others filled in from what the store knows of itself."""
    columns = min(config.cache_columns or store.profile.columns, store.profile.columns)
    if not store.profile.knows_sources:
        config = replace(config, seeds=0)
    elif config.seeds is None:
        config = replace(config, seeds=default_seeds(store.profile))
    weight, temperature = config.cache_weight, config.cache_temperature
    if config.adaptive is not None:
        weight = temperature = None
    elif weight is None:
        discount = 0.0 if config.seeds else CHUNK_DISCOUNT
        weight = round(max(0.0, (config.weight or 0.0) - discount), 2)
    if temperature is None and config.adaptive is None:
        share = SEEDED_TEMPERATURE_SHARE if config.seeds else CHUNK_TEMPERATURE_SHARE
        temperature = share * store.profile.scale(columns)
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
    #: Whether it has the paper's own caches.
    has_variants = False

    def __init__(self, store: LiveSource, config: ChunkConfig | None = None) -> None:
        now = store.snapshot()
        if config is not None and config.is_variant and not self.has_variants:
            raise ConfigError("the paper's caches are made by `make_method('chunk', ...)`")
        self.config = resolve_cache(resolve(config or ChunkConfig(), now), now)
        mixer, rule = _mixer(self.config), _end_rule(self.config, now)
        rules = agreement_rule(self.config), rule
        super().__init__(store, mixer, self.config.guard, *rules, tolerance_of(self.config))
        self.break_loops = self.config.break_loops
        self.plan = _plan(self.config, now)

    @property
    def chunk(self) -> int:  # type: ignore[override]
        return self.config.chunk

    @property
    def seeds(self) -> int:  # type: ignore[override]
        assert self.config.seeds is not None
        return self.config.seeds

    def retriever(self, store: EntrySource, request: Request) -> Retriever:
        return ScheduledRetriever(store, self.plan, request.lengths, request.max_steps, request.device)

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


def _end_rule(config: ChunkConfig, store: EntrySource) -> EndRule | None:
    rule = end_rule(config, store)
    # Chunks that are read in order keep the distances of their search.
    if rule is None or config.recall == "in-order":
        return rule
    return replace(rule, cache=END_RADIUS * store.profile.scale(config.cache_columns or store.profile.columns))


def _plan(config: ChunkConfig, store: EntrySource) -> RetrievalPlan:
    cache = CachePlan(
        k=config.k,
        cache_k=config.cache_k or config.k,
        chunk=config.chunk,
        columns=config.cache_columns or store.profile.columns,
    )
    return RetrievalPlan(parse_schedule(config.schedule), config.search_beams or ALL_BEAMS, cache)
