"""Efficient kNN-MT (Martins et al. 2022): kNN-MT that re-uses what near queries found.

Its other two parts are properties of the store and serve every method: keys reduced by PCA, and
greedy merging (`nearmt prune`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nearmt.config.methods import EfficientConfig
from nearmt.methods.knn import lag_of, near_ends, resolve, search_mixer, settings_signature
from nearmt.methods.retrieving import RetrievingMethod
from nearmt.retrieval.retriever import Retriever
from nearmt.retrieval.reuse import Reusing
from nearmt.retrieval.source import EntrySource

#: How near a query must be, in units of the store's typical distance (not squared).
REUSE_SHARE = 0.5


class EfficientMethod(RetrievingMethod):
    """Equation 3 at every step, with neighbours of this query or of one that was much like it."""

    name = "efficient"
    by_sentence = False

    def __init__(self, store: EntrySource, config: EfficientConfig | None = None) -> None:
        self.config = resolve(config or EfficientConfig(), store)
        if self.config.reuse_distance is None:
            self.config = replace(self.config, reuse_distance=REUSE_SHARE * store.search_scale**0.5)
        # A distribution that is re-used keeps the squared distances of its search: the same mixer fits.
        mixer, near = search_mixer(self.config), near_ends(self.config, store)
        super().__init__(store, mixer, self.config.guard, near, lag_of(self.config))

    @property
    def shares_batch(self) -> bool:  # type: ignore[override]
        return self.config.reuse_scope == "batch"

    def retriever(
        self,
        store: EntrySource,
        source_lengths: Sequence[int],
        max_steps: int,
        sources: Sequence[Sequence[int]] = (),
    ) -> Retriever:
        assert self.config.reuse_distance is not None
        return Reusing(store, self.config.k, self.config.reuse_distance, self.shares_batch, len(source_lengths))

    def settings(self) -> str:
        return settings_signature(self.config, self.mixer)
