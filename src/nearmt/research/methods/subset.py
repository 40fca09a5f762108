"""Subset kNN-MT (Deguchi et al. 2023): the entries of similar sentences alone are searched.

Section 3.1: S is the set of the n sentence pairs whose sources are nearest to the input, found once a sentence; at
every step the k nearest are searched among the entries of S, and mixed as in kNN-MT. The paper compares sources by
neural encoders or by BM25; here it is BM25 over subwords, as for the seeds of chunks. Its look-up tables of quantised
distances have a counterpart in the engines' caches, which nominate by rounded keys; distances are always exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from nearmt.config.methods import SubsetConfig
from nearmt.engines.base import CachePlan, Retrieved
from nearmt.methods.knn import KnnMethod
from nearmt.retrieval.retriever import RetrievalPlan, Retriever, ScheduledRetriever
from nearmt.retrieval.source import EntrySource, LiveSource
from nearmt.steps import Request


class SubsetRetriever(ScheduledRetriever):
    """Searches what a sentence begins with, by the engine's cache, and never the store."""

    def __init__(self, store: EntrySource, k: int, request: Request) -> None:
        # Chunks of 1 would be kept, if there were searches: engines have caches only where something is kept.
        cache = CachePlan(k, k, chunk=1, columns=store.profile.columns)
        super().__init__(store, RetrievalPlan(None, 1, cache), request.lengths, request.max_steps, request.device)

    def retrieve(self, query_BD: Tensor, times: Sequence[int], sentences: Sequence[int]) -> Retrieved:
        """As if searched: with squared distances."""
        found = super().retrieve(query_BD, times, sentences)
        return replace(found, distance_BK=found.distance_BK.square())


class SubsetMethod(KnnMethod):
    """Equation 3 at every step, with neighbours from the translations of similar sentences."""

    name = "subset"

    config: SubsetConfig

    def __init__(self, store: LiveSource, config: SubsetConfig | None = None) -> None:
        super().__init__(store, config or SubsetConfig())

    @property
    def seeds(self) -> int:  # type: ignore[override]
        return self.config.subset

    def retriever(self, store: EntrySource, request: Request) -> Retriever:
        return SubsetRetriever(store, self.config.k, request)
