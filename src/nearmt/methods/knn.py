"""kNN-MT (Khandelwal et al. 2021): search the datastore at every step (equations 1 to 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from nearmt.config import Config, option
from nearmt.methods.mixing import FixedMixer
from nearmt.methods.retrieving import RetrievingMethod
from nearmt.retrieval.retriever import EveryStep, Retriever
from nearmt.retrieval.source import EntrySource
from nearmt.store.calibrate import TEMPERATURE_SHARE

#: Lambda for a store whose likely weight is unknown.
WEIGHT = 0.6
#: Single tokens are most likely under a smaller weight than the one that gives the best translations:
#: tuned on the dev sets of three domains, the latter was near 0.3 + 0.7 * likely weight (docs/log.md).
WEIGHT_AT_LEAST = 0.3


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


AnyKnnConfig = TypeVar("AnyKnnConfig", bound=KnnConfig)


def resolve(config: AnyKnnConfig, store: EntrySource) -> AnyKnnConfig:
    """The settings with lambda and T filled in from what the store knows of itself."""
    weight, temperature = config.weight, config.temperature
    if weight is None:
        likely = store.likely_weight
        weight = WEIGHT if likely is None else round(WEIGHT_AT_LEAST + (1 - WEIGHT_AT_LEAST) * likely, 2)
    if temperature is None:
        temperature = TEMPERATURE_SHARE * store.search_scale
    return replace(config, weight=weight, temperature=temperature)


class KnnMethod(RetrievingMethod):
    """Equation 3 at every step."""

    name = "knn"

    def __init__(self, store: EntrySource, config: KnnConfig | None = None) -> None:
        self.config = resolve(config or KnnConfig(), store)
        assert self.config.weight is not None and self.config.temperature is not None
        weight, temperature = self.config.weight, self.config.temperature
        super().__init__(store, FixedMixer(weight, temperature, weight, temperature))

    def retriever(self, source_lengths: Sequence[int], max_steps: int) -> Retriever:
        return EveryStep(self.store, self.config.k, len(source_lengths))

    def settings(self) -> str:
        return self.config.signature()
