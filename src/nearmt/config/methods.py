"""Settings of the methods, and the strategies of the paper as presets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nearmt.config.base import Config, option
from nearmt.config.schedule import parse_schedule
from nearmt.errors import ConfigError

#: Neighbours that may end a sentence.
ENDS = ("near", "all")
#: Who shares a cache, what it keeps, and what becomes of an entry that is retrieved twice.
SCOPES = ("hypothesis", "source", "batch")
RETENTIONS = ("last", "all")
DUPLICATES = ("remove", "keep")
#: Most hypotheses of a sentence.
ALL_BEAMS = 100
#: What the paper's caches have in common: nothing but retrieved chunks, of all hypotheses, as often as they are
#: retrieved.
_PAPER_CACHE: dict[str, Any] = {
    "duplicates": "keep",
    "seeds": 0,
    "search-beams": ALL_BEAMS,
    "cache-columns": 64,
    "guard": False,
    "agreement": 0,
    "break-loops": False,
    "ends": "all",
    "give-up": False,
}
#: The strategies of section 3.2 as settings.
PRESETS: dict[str, dict[str, Any]] = {
    "in-order": {
        "recall": "in-order",
        "seeds": 0,
        "guard": False,
        "agreement": 0,
        "break-loops": False,
        "ends": "all",
        "give-up": False,
    },
    "single-chunk": {"scope": "hypothesis", "retention": "last", **_PAPER_CACHE},
    "beam-batch": {"scope": "batch", "retention": "last", **_PAPER_CACHE},
    "sentence": {"scope": "batch", "retention": "all", **_PAPER_CACHE},
}
#: What the paper uses where it says nothing else.
PRESETS["paper"] = PRESETS["sentence"]


@dataclass(frozen=True)
class PlainConfig(Config):
    """There is nothing to set."""


@dataclass(frozen=True)
class KnnConfig(Config):
    """Retrieval and mixing of neighbours."""

    k: int = option(8, "neighbours retrieved", low=1, high=1024)
    weight: float | None = option(
        None, "weight of the neighbours at search steps (default: from the store)", name="lambda", low=0, high=1
    )
    temperature: float | None = option(
        None, "softmax temperature T at search steps, on squared distances (default: from the store)", low=1e-6
    )
    guard: bool = option(
        True,
        "weigh the neighbours less in sentences that have little in common with the memory",
    )
    agreement: float | None = option(
        None,
        "how strongly neighbours are silenced whose source has another word there; 0 is off (default: from the store)",
        low=0,
        high=1,
    )
    break_loops: bool = option(True, "let neighbours not count where a hypothesis repeats itself")
    ends: str | None = option(
        None, "neighbours that may end a sentence: near ones or all (default: near; with a network: all)", choices=ENDS
    )
    give_up: bool = option(True, "do not wait for hypotheses that are far behind the best finished one")
    adaptive: str | None = option(
        None, "network that weighs the neighbours in place of lambda and T (`nearmt train-adaptive` makes one)"
    )
    adaptive_boost: float = option(
        0.0, "how much more the neighbours weigh than the network says (log odds)", low=-5, high=5
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.adaptive is None and self.adaptive_boost:
            raise ConfigError(f"adaptive-boost = {self.adaptive_boost:g}: there is no network to boost; set adaptive")


@dataclass(frozen=True)
class EfficientConfig(KnnConfig):
    """Retrieval and mixing of neighbours."""

    reuse_distance: float | None = option(
        None,
        "queries this near (not squared) re-use what one of them found (default: from the store)",
        low=0,
    )
    reuse_scope: str = option("batch", "earlier queries that count: a sentence's, or a batch's", choices=SCOPES[1:])


@dataclass(frozen=True)
class ChunkConfig(KnnConfig):
    """Retrieval and mixing of neighbours."""

    chunk: int = option(16, "tokens of a retrieved chunk (c)", low=1, high=1024)
    schedule: str = option("geometric:2:16", "when to search: every:STEPS or geometric:MIN:MAX")
    varying_chunk: bool = option(False, "chunks as long as the interval that follows (c_k = i_k), not `chunk`")
    cache_weight: float | None = option(
        None, "weight of the neighbours between searches (default: from the store)", name="cache-lambda", low=0, high=1
    )
    cache_temperature: float | None = option(
        None, "softmax temperature T' between searches, on distances (default: from the store)", low=1e-6
    )
    cache_k: int | None = option(None, "neighbours recalled from the cache (default: 2 times k)", low=1, high=4096)
    cache_columns: int | None = option(None, "columns of the keys that the cache compares (default: all)", low=1)
    seeds: int | None = option(
        None,
        "pairs with similar sources that are in the cache from the start (default: from the store)",
        low=0,
        high=65536,
    )
    search_beams: int | None = option(
        None,
        "hypotheses of a sentence that search, best first (default: 3; all where each has chunks of its own)",
        low=1,
        high=ALL_BEAMS,
    )
    recall: str = option("cache", "between searches: the cache, or chunks in order", choices=("cache", "in-order"))
    scope: str = option("source", "hypotheses that share a cache: one, a sentence's, a batch's", choices=SCOPES)
    retention: str = option("all", "chunks a cache keeps: of the last search, or of all", choices=RETENTIONS)
    duplicates: str = option("remove", "an entry that is retrieved twice is kept once or twice", choices=DUPLICATES)

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_schedule(self.schedule)
        if not self.shares_chunks and (self.search_beams or ALL_BEAMS) < ALL_BEAMS:
            raise ConfigError("search-beams lets few hypotheses search for all, but each has chunks of its own here")

    @property
    def shares_chunks(self) -> bool:
        """Whether what one hypothesis retrieves is there for the others of its sentence."""
        return self.recall == "cache" and self.scope != "hypothesis"

    @property
    def is_variant(self) -> bool:
        """Whether a strategy of the paper is asked for that the engines' caches do not have."""
        usual = (self.scope, self.retention, self.duplicates) == ("source", "all", "remove")
        return self.recall != "cache" or self.varying_chunk or not usual


@dataclass(frozen=True)
class SubsetConfig(KnnConfig):
    """Retrieval and mixing of neighbours."""

    subset: int = option(512, "pairs with similar sources, whose entries alone are searched", low=1, high=65536)


@dataclass(frozen=True)
class SkMtConfig(KnnConfig):
    """Retrieval and mixing of neighbours."""

    k: int = option(2, "neighbours retrieved", low=1, high=1024)
    references: int = option(16, "most similar pairs, whose entries alone are searched", low=1, high=65536)
    candidates: int = option(
        64, "pairs found by their words, among which edit distance finds the most similar", low=1, high=65536
    )


@dataclass(frozen=True)
class RetomatonConfig(KnnConfig):
    """Retrieval and mixing of neighbours."""

    follow: int = option(
        8, "neighbours that must go on with the chosen token to save a search; 0 always searches", low=0, high=1024
    )


#: The settings of each method.
METHOD_CONFIGS: dict[str, type[Config]] = {
    "plain": PlainConfig,
    "knn": KnnConfig,
    "efficient": EfficientConfig,
    "chunk": ChunkConfig,
    "subset": SubsetConfig,
    "sk-mt": SkMtConfig,
    "retomaton": RetomatonConfig,
}
METHODS = tuple(METHOD_CONFIGS)
