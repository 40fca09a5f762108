"""SK-MT (Dai et al. 2023): a tiny datastore of the most similar pairs for each sentence, and a lambda by distance.

Section 3.1: BM25 finds up to 64 pairs; the 2 to 16 with the highest similarity 1 - edits / max(|x|, |x'|) are kept, and
their entries are the datastore of the sentence. Section 3.2: at every step

lambda = ReLU(1 - d_0 / T), d_0 the squared distance of the nearest entry; p_kNN as in equation 2, with the same T.

Edits are of subwords here, the paper's of words. `lambda` is what this is multiplied with: 1 is the paper.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from nearmt.config.methods import SkMtConfig
from nearmt.contracts import Evidence, Origin, Scores
from nearmt.engines.reference.scoring import neighbour_weights
from nearmt.methods.knn import KnnMethod
from nearmt.methods.mixing import TRUSTED, EvidenceMixer, Votes
from nearmt.models import TranslationModel
from nearmt.research.methods.subset import SubsetRetriever
from nearmt.retrieval.retriever import Retriever
from nearmt.retrieval.source import EntrySource, LiveSource
from nearmt.steps import Request

#: T in units of the store's typical squared distance.
TEMPERATURE_SHARE = 1.7


@dataclass(frozen=True)
class DistanceMixer(EvidenceMixer):
    """Neighbours count the more, the nearer the nearest of them is."""

    weight: float
    temperature: float
    trusted: ClassVar[tuple[float, float]] = TRUSTED
    sees_keys: ClassVar[bool] = False
    identity: ClassVar[str | None] = None

    def check_model(self, model: TranslationModel) -> None:
        """Fits every model."""

    def evidence(self, votes: Votes, scores: Scores) -> Evidence:
        found, distance_BK = votes.found, votes.found.distance_BK
        share_B = self.weight * torch.relu(1.0 - distance_BK.amin(dim=1) / self.temperature)
        return Evidence(
            origin_B=found.origin_B,
            entry_BK=found.entry_BK,
            token_BK=votes.token_BK,
            weight_BK=neighbour_weights(distance_BK, self.temperature, votes.count_BK),
            share_B=torch.where(found.origin_B == int(Origin.MODEL), 0.0, share_B),
        )


class SkMtMethod(KnnMethod):
    """A few similar pairs a sentence; nothing to tune."""

    name = "sk-mt"

    config: SkMtConfig

    def __init__(self, store: LiveSource, config: SkMtConfig | None = None) -> None:
        super().__init__(store, resolve_distance(config or SkMtConfig(), store.snapshot()))
        if self.config.adaptive is None:
            assert self.config.weight is not None and self.config.temperature is not None
            self.mixer = DistanceMixer(self.config.weight, self.config.temperature)

    @property
    def seeds(self) -> int:  # type: ignore[override]
        return self.config.references

    @property
    def candidates(self) -> int:  # type: ignore[override]
        return max(self.config.candidates, self.config.references)

    def retriever(self, store: EntrySource, request: Request) -> Retriever:
        return SubsetRetriever(store, self.config.k, request)


def resolve_distance(config: SkMtConfig, store: EntrySource) -> SkMtConfig:
    """The settings with those of the mixer filled in, unless a network weighs the neighbours."""
    if config.adaptive is not None:
        return config
    weight = 1.0 if config.weight is None else config.weight
    return replace(
        config, weight=weight, temperature=config.temperature or TEMPERATURE_SHARE * store.profile.search_scale
    )
