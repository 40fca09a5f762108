"""Efficient kNN-MT's cache (Martins et al. 2022): a query near an earlier one re-uses what that one found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from nearmt.contracts import Neighbours, Origin
from nearmt.engines.base import Retrieved
from nearmt.engines.reference.rows import on_device
from nearmt.retrieval.source import EntrySource
from nearmt.timing import timed


class ReusingRetriever:
    """Searches only for queries that are far from all earlier queries of the same sentence or batch.

    Other rows re-use the neighbours and distances of the nearest earlier query: its distribution.
    """

    def __init__(self, store: EntrySource, k: int, reuse_distance: float, whole_batch: bool, sentences: int) -> None:
        self._store, self._k, self._limit = store, k, reuse_distance
        self._whole_batch = whole_batch
        self.searches, self.missed, self.compared = ([0] * sentences for _ in range(3))
        self._entries = store.profile.entries
        self._query_MD: Tensor | None = None
        self._owner_M = torch.zeros(0, dtype=torch.long)
        self._found = Neighbours(torch.zeros(0), torch.zeros(0))

    def begin(self, sentences: Sequence[int], entry_SX: Tensor) -> None:
        """There is no cache to seed."""

    def retrieve(self, query_BD: Tensor, times: Sequence[int], sentences: Sequence[int]) -> Retrieved:
        device, each = query_BD.device, len(query_BD) // len(sentences)
        sentence_of = [sentence for sentence in sentences for _ in range(each)]
        owner_B = on_device([0] * len(query_BD) if self._whole_batch else sentence_of, device)
        found = Retrieved.nothing(len(query_BD), self._k, device)
        near_B, place_B = self._nearest(query_BD, owner_B)
        if self._query_MD is not None:
            known = Neighbours(self._found.entry_BK[place_B[near_B]], self._found.distance_BK[place_B[near_B]])
            found.put(near_B.nonzero()[:, 0], Origin.CACHE, known)
        # How many rows search is known only now: this synchronises with a GPU.
        due_R = (~near_B).nonzero()[:, 0]
        if len(due_R):
            fresh = self._store.search(query_BD[due_R], self._k)
            found.put(due_R, Origin.SEARCH, fresh)
            self._remember(query_BD[due_R], owner_B[due_R], fresh)
            for sentence, rows in Counter(sentence_of[row] for row in due_R.tolist()).items():
                self.searches[sentence] += 1
                self.missed[sentence] += fresh.missed
                self.compared[sentence] += rows * self._entries
        return found

    def reorder(self, row_B: Tensor) -> None:
        pass  # queries belong to sentences or to the batch, never to a row

    def release(self, sentences: Sequence[int]) -> None:
        pass

    def _nearest(self, query_BD: Tensor, owner_B: Tensor) -> tuple[Tensor, Tensor]:
        """Whether an earlier query is near enough, and the nearest one, for each row."""
        if self._query_MD is None:
            none_B = torch.zeros(len(query_BD), dtype=torch.bool, device=query_BD.device)
            return none_B, none_B.long()
        with timed("cache/search"):
            distance_BM = torch.cdist(query_BD, self._query_MD, compute_mode="donot_use_mm_for_euclid_dist")
            distance_BM.masked_fill_(owner_B[:, None] != self._owner_M, torch.inf)
            nearest = distance_BM.min(dim=1)
            # Queries of other owners are never near, not even for an infinite limit.
            return (nearest.values <= self._limit) & nearest.values.isfinite(), nearest.indices

    def _remember(self, query_RD: Tensor, owner_R: Tensor, fresh: Neighbours) -> None:
        if self._query_MD is None:
            self._query_MD, self._owner_M, self._found = query_RD, owner_R, fresh
            return
        self._query_MD = torch.cat([self._query_MD, query_RD])
        self._owner_M = torch.cat([self._owner_M, owner_R])
        self._found = Neighbours(
            torch.cat([self._found.entry_BK, fresh.entry_BK]),
            torch.cat([self._found.distance_BK, fresh.distance_BK]),
        )
