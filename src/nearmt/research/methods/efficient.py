"""Efficient kNN-MT (Martins et al. 2022): kNN-MT that re-uses what near queries found.

Its other two parts are properties of the store and serve every method: keys reduced by PCA, and
greedy merging (`nearmt prune`).
"""

from __future__ import annotations

from dataclasses import replace

from nearmt.config.methods import EfficientConfig
from nearmt.methods.knn import agreement_rule, end_rule, resolve, search_mixer, settings_signature, tolerance_of
from nearmt.methods.retrieving import RetrievingMethod
from nearmt.research.methods.reuse import ReusingRetriever
from nearmt.retrieval.retriever import Retriever
from nearmt.retrieval.source import EntrySource, LiveSource
from nearmt.steps import Request

#: How near a query must be, in units of the store's typical distance (not squared).
REUSE_SHARE = 0.5


class EfficientMethod(RetrievingMethod):
    """Equation 3 at every step, with neighbours of this query or of one that was much like it."""

    name = "efficient"
    per_sentence = False

    def __init__(self, store: LiveSource, config: EfficientConfig | None = None) -> None:
        now = store.snapshot()
        self.config = resolve(config or EfficientConfig(), now)
        if self.config.reuse_distance is None:
            self.config = replace(self.config, reuse_distance=REUSE_SHARE * now.profile.search_scale**0.5)
        # A re-used distribution keeps the squared distances of its search: the same mixer fits.
        mixer, rule = search_mixer(self.config, now), end_rule(self.config, now)
        rules = agreement_rule(self.config), rule
        super().__init__(store, mixer, self.config.guard, *rules, tolerance_of(self.config))
        self.break_loops = self.config.break_loops

    @property
    def shares_batch(self) -> bool:  # type: ignore[override]
        return self.config.reuse_scope == "batch"

    def retriever(self, store: EntrySource, request: Request) -> Retriever:
        assert self.config.reuse_distance is not None
        sentences = len(request.lengths)
        return ReusingRetriever(store, self.config.k, self.config.reuse_distance, self.shares_batch, sentences)

    def settings(self) -> str:
        return settings_signature(self.config, self.mixer)
