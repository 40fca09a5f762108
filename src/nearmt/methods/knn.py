"""kNN-MT (Khandelwal et al. 2021): search the datastore at every step (equations 1 to 3)."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from nearmt.config.methods import ALL_BEAMS, KnnConfig
from nearmt.config.schedule import EverySchedule
from nearmt.datastore.search.agreement import AGREEMENT
from nearmt.datastore.search.calibrate import TEMPERATURE_SHARE
from nearmt.engines.base import AgreementRule, CachePlan, EndRule
from nearmt.methods.adaptive import load_adaptive
from nearmt.methods.mixing import FixedMixer, Mixer
from nearmt.methods.retrieving import RetrievingMethod
from nearmt.retrieval.retriever import RetrievalPlan, Retriever, ScheduledRetriever
from nearmt.retrieval.source import EntrySource, LiveSource
from nearmt.steps import Request

#: Lambda for a store whose likely weight is unknown.
WEIGHT = 0.6
#: Single tokens are most likely under a smaller weight than the one that gives the best translations:
#: tuned on the dev sets of three domains, the latter was near 0.3 + 0.7 * likely weight (docs/log.md).
WEIGHT_AT_LEAST = 0.3
#: Radius within which a neighbour may end a sentence, in units of the store's typical distance (not squared). Pairs of
#: the store find themselves within it.
END_RADIUS = 0.5
#: End-of-sentence probability of the model from which all neighbours may end a sentence.
LIKELY_END = 0.1
#: Hypotheses whose scores are this share worse than the best finished one are not waited for (docs/log.md).
TOLERANCE = 0.1

AnyKnnConfig = TypeVar("AnyKnnConfig", bound=KnnConfig)


def resolve(config: AnyKnnConfig, store: EntrySource) -> AnyKnnConfig:
    """The settings with what is not given filled in from what the store knows of itself."""
    if config.agreement is None:
        known = store.profile.agreement
        config = replace(config, agreement=AGREEMENT.strength if known is None else known)
    if config.adaptive is not None:
        # It has learnt what neighbours are worth, also where sentences end.
        return replace(config, weight=None, temperature=None, ends=config.ends or "all")
    weight, temperature = config.weight, config.temperature
    if weight is None:
        likely = store.profile.likely_weight
        weight = WEIGHT if likely is None else round(WEIGHT_AT_LEAST + (1 - WEIGHT_AT_LEAST) * likely, 2)
    if temperature is None:
        temperature = TEMPERATURE_SHARE * store.profile.search_scale
    return replace(config, weight=weight, temperature=temperature, ends=config.ends or "near")


def search_mixer(config: KnnConfig, store: EntrySource) -> Mixer:
    """A mixer for methods whose neighbours all come from searches."""
    if config.adaptive is not None:
        path, columns = Path(config.adaptive), store.profile.columns
        return load_adaptive(path, config.k, None, config.adaptive_boost, columns)
    assert config.weight is not None and config.temperature is not None
    return FixedMixer(config.weight, config.temperature, config.weight, config.temperature)


def end_rule(config: KnnConfig, store: EntrySource) -> EndRule | None:
    """Which neighbours may end a sentence, for methods whose neighbours all come from searches."""
    radius = END_RADIUS**2 * store.profile.search_scale
    return EndRule(radius, radius, LIKELY_END) if config.ends == "near" else None


def agreement_rule(config: KnnConfig) -> AgreementRule | None:
    """How much neighbours count whose source disagrees with the sentence; None for all alike."""
    return replace(AGREEMENT, strength=config.agreement) if config.agreement else None


def tolerance_of(config: KnnConfig) -> float:
    """Tolerance of early stopping. Without weight neighbours change nothing, nor does this."""
    return TOLERANCE if config.give_up and config.weight != 0 else math.inf


def settings_signature(config: KnnConfig, mixer: Mixer) -> str:
    """The settings; a network is named by its content, not by its path."""
    return replace(config, adaptive=mixer.identity).signature()


class KnnMethod(RetrievingMethod):
    """Equation 3 at every step."""

    name = "knn"

    def __init__(self, store: LiveSource, config: KnnConfig | None = None) -> None:
        now = store.snapshot()
        self.config = resolve(config or KnnConfig(), now)
        mixer, rule = search_mixer(self.config, now), end_rule(self.config, now)
        rules = agreement_rule(self.config), rule
        super().__init__(store, mixer, self.config.guard, *rules, tolerance_of(self.config))
        self.break_loops = self.config.break_loops
        k, columns = self.config.k, now.profile.columns
        self._plan = RetrievalPlan(EverySchedule(1), ALL_BEAMS, CachePlan(k, k, chunk=0, columns=columns))

    def retriever(self, store: EntrySource, request: Request) -> Retriever:
        return ScheduledRetriever(store, self._plan, request.lengths, request.max_steps, request.device)

    def settings(self) -> str:
        return settings_signature(self.config, self.mixer)
