"""kNN-MT (Khandelwal et al. 2021): search the datastore at every step (equations 1 to 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from nearmt.config import Config, option
from nearmt.contracts import Evidence, Origin, Step
from nearmt.methods.evidence import add_evidence, mixed_log_probs, no_evidence
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


class KnnState:
    """Counts searches and, if asked to, keeps the evidence of every step."""

    def __init__(self, method: KnnMethod, sentences: int, trace: bool) -> None:
        self._method = method
        self.searches = [0] * sentences
        self.evidence: list[Evidence] | None = [] if trace else None

    def log_probs(self, step: Step) -> Tensor:
        config, store = self._method.config, self._method.store
        evidence = no_evidence(len(step.sources), config.k, step.logits_BV.device)
        row_B = torch.arange(len(step.sources), device=step.logits_BV.device)
        found = store.search(store.query(step.hidden_BH), config.k)
        assert config.temperature is not None and config.weight is not None
        add_evidence(evidence, row_B, Origin.SEARCH, found, store, config.temperature, config.weight)
        for source in set(step.sources):
            self.searches[source] += 1
        if self.evidence is not None:
            self.evidence.append(evidence)
        return mixed_log_probs(step, evidence)

    def reorder(self, row_B: Tensor) -> None:
        pass


class KnnMethod:
    """Equation 3 at every step."""

    shares_batch = False

    def __init__(self, store: EntrySource, config: KnnConfig | None = None) -> None:
        self.store = store
        self.config = resolve(config or KnnConfig(), store)

    def begin(self, source_lengths: Sequence[int], max_steps: int, trace: bool) -> KnnState:
        return KnnState(self, len(source_lengths), trace)

    def signature(self) -> str:
        return f"method:knn|datastore:{self.store.identity}|{self.config.signature()}"
