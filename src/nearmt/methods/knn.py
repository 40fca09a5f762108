"""kNN-MT (Khandelwal et al. 2021): search the datastore at every step (equations 1 to 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from nearmt.config.methods import KnnConfig
from nearmt.datastore.search.calibrate import TEMPERATURE_SHARE
from nearmt.engines.cuda.graphs import Pool, Recorder
from nearmt.methods.adaptive import AdaptiveMixer, load_adaptive
from nearmt.methods.mixing import FixedMixer, Mixer
from nearmt.methods.retrieving import RetrievingMethod
from nearmt.retrieval.ends import NEAR_SHARE, NearEnds
from nearmt.retrieval.retriever import EveryStep, Retriever
from nearmt.retrieval.source import EntrySource

#: Lambda for a store whose likely weight is unknown.
WEIGHT = 0.6
#: Single tokens are most likely under a smaller weight than the one that gives the best translations:
#: tuned on the dev sets of three domains, the latter was near 0.3 + 0.7 * likely weight (docs/log.md).
WEIGHT_AT_LEAST = 0.3
#: How much worse than the best that ended, as a share, hypotheses may be to be waited for (docs/log.md).
LAG = 0.1


AnyKnnConfig = TypeVar("AnyKnnConfig", bound=KnnConfig)


def resolve(config: AnyKnnConfig, store: EntrySource) -> AnyKnnConfig:
    """The settings with lambda and T filled in from what the store knows of itself; a network needs neither."""
    if config.adaptive is not None:
        # It has learnt what neighbours are worth, also where sentences end.
        return replace(config, weight=None, temperature=None, ends=config.ends or "all")
    weight, temperature = config.weight, config.temperature
    if weight is None:
        likely = store.likely_weight
        weight = WEIGHT if likely is None else round(WEIGHT_AT_LEAST + (1 - WEIGHT_AT_LEAST) * likely, 2)
    if temperature is None:
        temperature = TEMPERATURE_SHARE * store.search_scale
    return replace(config, weight=weight, temperature=temperature, ends=config.ends or "near")


def search_mixer(config: KnnConfig) -> Mixer:
    """A mixer for methods whose neighbours all come from searches."""
    if config.adaptive is not None:
        return load_adaptive(Path(config.adaptive), config.k, None, boost=config.adaptive_boost)
    assert config.weight is not None and config.temperature is not None
    return FixedMixer(config.weight, config.temperature, config.weight, config.temperature)


def near_ends(config: KnnConfig, store: EntrySource) -> NearEnds | None:
    """Who may end a sentence, for methods whose neighbours all come from searches."""
    within = NEAR_SHARE**2 * store.search_scale
    return NearEnds(within, within) if config.ends == "near" else None


def lag_of(config: KnnConfig) -> float:
    """How far behind hypotheses are waited for. Without weight neighbours change nothing, nor does this."""
    return LAG if config.give_up and config.weight != 0 else math.inf


def settings_signature(config: KnnConfig, mixer: Mixer) -> str:
    """The settings; of a network not its place but its content."""
    if isinstance(mixer, AdaptiveMixer):
        config = replace(config, adaptive=mixer.identity)
    return config.signature()


class KnnMethod(RetrievingMethod):
    """Equation 3 at every step."""

    name = "knn"

    def __init__(self, store: EntrySource, config: KnnConfig | None = None) -> None:
        self.config = resolve(config or KnnConfig(), store)
        mixer, near = search_mixer(self.config), near_ends(self.config, store)
        super().__init__(store, mixer, self.config.guard, near, lag_of(self.config))
        #: What requests on a GPU leave to those that follow.
        self._recorders = Pool[Recorder]()

    def retriever(
        self,
        store: EntrySource,
        source_lengths: Sequence[int],
        max_steps: int,
        sources: Sequence[Sequence[int]] = (),
    ) -> Retriever:
        return EveryStep(store, self.config.k, len(source_lengths), self._recorders)

    def settings(self) -> str:
        return settings_signature(self.config, self.mixer)
