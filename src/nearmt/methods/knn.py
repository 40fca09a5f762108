"""kNN-MT (Khandelwal et al. 2021): search the datastore at every step (equations 1 to 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from nearmt.config import Config, option
from nearmt.datastore.search.calibrate import TEMPERATURE_SHARE
from nearmt.engines.cuda.graphs import Pool, Recorder
from nearmt.errors import ConfigError
from nearmt.methods.adaptive import AdaptiveMixer, load_adaptive
from nearmt.methods.mixing import FixedMixer, Mixer
from nearmt.methods.retrieving import RetrievingMethod
from nearmt.retrieval.ends import NEAR_SHARE, NearEnds
from nearmt.retrieval.retriever import EveryStep, Retriever
from nearmt.retrieval.source import EntrySource, SnapshotSource

#: Neighbours that may end a sentence.
ENDS = ("near", "all")
#: Lambda for a store whose likely weight is unknown.
WEIGHT = 0.6
#: Single tokens are most likely under a smaller weight than the one that gives the best translations:
#: tuned on the dev sets of three domains, the latter was near 0.3 + 0.7 * likely weight (docs/log.md).
WEIGHT_AT_LEAST = 0.3
#: How much worse than the best that ended, as a share, hypotheses may be to be waited for (docs/log.md).
LAG = 0.1


@dataclass(frozen=True)
class KnnConfig(Config):
    """How neighbours are retrieved and mixed in."""

    k: int = option(8, "neighbours retrieved", low=1, high=1024)
    weight: float | None = option(
        None, "weight of the neighbours at search steps (default: from the store)", name="lambda", low=0, high=1
    )
    temperature: float | None = option(
        None, "softmax temperature T at search steps, on squared distances (default: from the store)", low=1e-6
    )

    guard: bool = option(True, "trust the neighbours less in sentences that have little in common with the memory")
    ends: str | None = option(
        None, "neighbours that may end a sentence: near ones or all (default: near; with a network: all)", choices=ENDS
    )
    give_up: bool = option(True, "do not wait for hypotheses that are far behind the best one that has ended")
    adaptive: str | None = option(
        None, "network that weighs the neighbours in place of lambda and T (`nearmt train-adaptive` makes one)"
    )
    adaptive_boost: float = option(
        0.0, "how much more the neighbours weigh than the network says (log odds)", low=-5, high=5
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.adaptive is None and self.adaptive_boost:
            raise ConfigError(
                f"adaptive-boost = {self.adaptive_boost:g}: there is no network to boost; give --adaptive"
            )


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

    def __init__(self, store: SnapshotSource, config: KnnConfig | None = None) -> None:
        now = store.snapshot()
        self.config = resolve(config or KnnConfig(), now)
        mixer, near = search_mixer(self.config), near_ends(self.config, now)
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
