"""What a store must offer to be translated with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from nearmt.contracts import Neighbours, Pair, SimilarSources, StoreProfile
from nearmt.engines.base import AgreementRule, CachePlan, SentenceCache, SentenceWords


class LiveSource(Protocol):
    """A store that may change: what methods are made for."""

    def snapshot(self) -> EntrySource:
        """The source as it is now, unaffected by later changes: what a request reads."""


class EntrySource(LiveSource, Protocol):
    """Entries by number, in corpus order; -1 is none. Tensors come and go on the caller's device."""

    @property
    def profile(self) -> StoreProfile: ...

    def query(self, hidden_BH: Tensor) -> Tensor:
        """Decoder states as keys of this store, [B, D]."""

    def search(self, query_BD: Tensor, k: int) -> Neighbours:
        """The k nearest entries with their squared distances."""

    def tokens(self, entry: Tensor) -> Tensor:
        """Target tokens of entries, any shape; any valid token for -1."""

    def weights(self, entry: Tensor) -> Tensor | None:
        """How much each entry counts, any shape: how many it stands for (0: merged into another), times the weight of
        its store; 1 for -1. None where all count alike."""

    def agreement(self, entry_BK: Tensor, words: SentenceWords, rule: AgreementRule) -> Tensor | None:
        """The share of its weight that each neighbour (-1: none) keeps, [B, K]. Slots have equally many adjacent rows.
        None where the words of entries are unknown."""

    def keys(self, entry_M: Tensor, columns: int) -> Tensor:
        """The leading columns of the entries' keys, [M, columns]."""

    def chunks(self, entry_BK: Tensor, size: int) -> Tensor:
        """Each entry and its successors in its sentence, [B, K, size]; -1 beyond the end of the sentence."""

    def similar(self, sources: Sequence[Sequence[int]], count: int, candidates: int = 0) -> SimilarSources:
        """Up to `count` pairs with the most similar sources of each sentence (subword ids): those that have most in
        common with it, or, among so many candidates of that kind, those with the fewest edits."""

    def new_cache(self, plan: CachePlan, device: torch.device) -> SentenceCache:
        """The sentence cache of one request whose queries are on `device`."""

    def pair_of(self, entry: int) -> Pair:
        """The pair that an entry comes from."""
