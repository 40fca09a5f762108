"""From neighbours to evidence: how much each counts, and how much all of them together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from nearmt.contracts import Evidence, Origin, Scores
from nearmt.datastore.search.snapshot import TRUSTED
from nearmt.retrieval.distribution import neighbour_weights
from nearmt.retrieval.retriever import Retrieved
from nearmt.retrieval.source import EntrySource


class Mixer(Protocol):
    """Weighs what was retrieved at one step."""

    #: How familiar sentences must be for the guard to let neighbours count, and count fully (`EntrySource.trust`).
    trusted: ClassVar[tuple[float, float]]

    def evidence(self, found: Retrieved, store: EntrySource, scores: Scores) -> Evidence:
        """The neighbours' distribution and its share of the mixture; `scores` is the model's distribution."""


@dataclass(frozen=True)
class FixedMixer:
    """Equations 2 and 3 with constant weights and temperatures: one for searches, one in between."""

    trusted: ClassVar[tuple[float, float]] = TRUSTED

    weight: float
    temperature: float
    cache_weight: float
    cache_temperature: float

    def evidence(self, found: Retrieved, store: EntrySource, scores: Scores) -> Evidence:
        searched_B = found.origin_B == int(Origin.SEARCH)
        temperature_B1 = torch.where(searched_B, self.temperature, self.cache_temperature)[:, None]
        share_B = torch.where(searched_B, self.weight, self.cache_weight)
        return Evidence(
            origin_B=found.origin_B,
            entry_BK=found.entry_BK,
            token_BK=store.tokens(found.entry_BK),
            weight_BK=neighbour_weights(found.distance_BK, temperature_B1, multiplicity(found, store)),
            share_B=torch.where(found.origin_B == int(Origin.MODEL), 0.0, share_B),
        )


def multiplicity(found: Retrieved, store: EntrySource) -> Tensor | None:
    """What multiplies exp(-d / T) of each neighbour, [B, K]; None where all count alike.

    A store among several has a weight. A pruned store merges entries into others that are found in their stead.
    Its chunks stay whole: an entry that was merged still stands for itself where a chunk brings it into the cache.
    """
    weight_BK = store.weights(found.entry_BK)
    return None if weight_BK is None else torch.where(weight_BK == 0, 1.0, weight_BK)
