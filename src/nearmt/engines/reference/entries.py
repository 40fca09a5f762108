"""The entries of a store under one numbering, on one device: tokens, keys, chunks, nearest of given candidates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Protocol

import torch
from torch import Tensor

from nearmt.contracts import Neighbours
from nearmt.engines.base import AgreementRule, CachePlan, KernelLists, RowSearch, SentenceCache, SentenceWords
from nearmt.engines.reference.agreement import agreement
from nearmt.engines.reference.cache import CacheStore, ReferenceCache
from nearmt.engines.reference.distances import first_of, squared_l2


class SearchedStore(CacheStore, Protocol):
    """A store as fast caches use it."""

    @property
    def capturable(self) -> bool:
        """Whether every search issues the same work and does not synchronise: then CUDA graphs can hold it."""

    def start_search(self, query_BD: Tensor, k: int) -> Callable[[], Neighbours]:
        """Begin a search; the neighbours are those that the result returns."""

    @property
    def row_search(self) -> Callable[[int], RowSearch | None]:
        """What searches for k neighbours of some rows in place, if a kernel does."""


class EntryTable:
    """Entry n is target token n of the corpus. Keys may lie in several tensors, one per segment."""

    def __init__(
        self,
        keys: Sequence[Tensor],
        token_N: Tensor,
        end_P: Tensor,
        weight_N: Tensor | None,
        word_N: Tensor | None = None,
    ) -> None:
        """`end_P` is where the entries of each pair end; `weight_N` how many entries each stands for in a pruned store,
        0 for an entry that was merged into another; `word_N` the code of the source word that each is aligned with."""
        self.device = token_N.device
        self.keys_by_segment = list(keys)
        self.offsets = [0, *accumulate(len(key_ND) for key_ND in keys)]
        self.token_N, self.end_P, self._weight_N, self.word_N = token_N, end_P, weight_N, word_N
        #: Which entries can be found; None stands for all.
        self.kept_N = None if weight_N is None else weight_N > 0
        #: How many these are.
        self.kept = len(self) if self.kept_N is None else int(self.kept_N.sum())

    def __len__(self) -> int:
        return self.offsets[-1]

    @property
    def pair_count(self) -> int:
        return len(self.end_P)

    def tokens(self, entry: Tensor) -> Tensor:
        """Target tokens, any shape; entry -1 gets any valid token."""
        if not len(self):
            return torch.zeros_like(entry)
        return self.token_N[entry.clamp(min=0)].long()

    def weights(self, entry: Tensor) -> Tensor | None:
        """How many entries each stands for, any shape (1 for entry -1); None where the store is not pruned."""
        if self._weight_N is None:
            return None
        return torch.where(entry < 0, 1.0, self._weight_N[entry.clamp(min=0)])

    def agreement(self, entry_BK: Tensor, words: SentenceWords, rule: AgreementRule) -> Tensor | None:
        """The share of its weight that each neighbour keeps (`AgreementRule`), [B, K]. None where the words of entries
        are unknown."""
        return None if self.word_N is None else agreement(self.word_N, entry_BK, words, rule)

    def keys(self, entry_M: Tensor, columns: int) -> Tensor:
        """fp32 keys, [M, columns]."""
        if len(self.keys_by_segment) == 1:
            return self.keys_by_segment[0][:, :columns].index_select(0, entry_M).float()
        key_ME = torch.empty(len(entry_M), columns, device=self.device)
        for key_ND, start in zip(self.keys_by_segment, self.offsets, strict=False):
            inside = (entry_M >= start) & (entry_M < start + len(key_ND))
            key_ME[inside] = key_ND[:, :columns].index_select(0, entry_M[inside] - start).float()
        return key_ME

    def nearest(self, query_BE: Tensor, candidate_BX: Tensor, k: int) -> Neighbours:
        """The k nearest of each row's candidates (-1: none) by squared distance on the query's columns.

        Equal distances come in corpus order, so that ties are always broken alike.
        """
        entry_BX, columns = candidate_BX.sort(dim=1).values, query_BE.shape[1]
        key_BXE = self.keys(entry_BX.clamp(min=0).flatten(), columns).view(*entry_BX.shape, columns)
        return first_of(entry_BX, squared_l2(query_BE, key_BXE), k)

    def row_search(self, lists: KernelLists, k: int) -> RowSearch | None:
        """What nominates by the lists of all entries and measures them, in place; None where there is none."""
        return None

    def chunks(self, entry_BK: Tensor, size: int) -> Tensor:
        """Entry n and its successors in its sentence, [B, K, size]; -1 where the sentence has ended."""
        if not len(self):
            return torch.full((*entry_BK.shape, size), -1, device=self.device)
        end_BK = self.end_P[self.pair_numbers(entry_BK.clamp(min=0))]
        entry_BKC = entry_BK[..., None] + torch.arange(size, device=self.device)
        inside = (entry_BKC < end_BK[..., None]) & (entry_BK[..., None] >= 0)
        return torch.where(inside, entry_BKC, -1)

    def pair_numbers(self, entry: Tensor) -> Tensor:
        """The pair that each entry belongs to, any shape."""
        return torch.searchsorted(self.end_P, entry, right=True)

    def of_pair(self, number: int) -> Tensor:
        """The entries of a pair."""
        return self.of_pairs_each(torch.tensor([[number]]))[0]

    def of_pairs_each(self, number_SP: Tensor) -> Tensor:
        """The entries of some pairs (-1: none) of each sentence, one pair after the other: [S, X]; -1 is padding.

        X depends on the lengths of the pairs: this synchronises with a GPU.
        """
        number_SP = number_SP.to(self.device)
        if not number_SP.numel() or not len(self):
            return torch.full((len(number_SP), 0), -1, device=self.device)
        first_SP = torch.where(number_SP > 0, self.end_P[(number_SP - 1).clamp(min=0)], 0)
        length_SP = torch.where(number_SP >= 0, self.end_P[number_SP.clamp(min=0)] - first_SP, 0)
        end_SP = length_SP.cumsum(dim=1)
        position_SX = torch.arange(int(end_SP[:, -1].max()), device=self.device).expand(len(number_SP), -1).contiguous()
        # The pair at each position, and the distance from that position to the pair's entries.
        pair_SX = torch.searchsorted(end_SP, position_SX, right=True)
        inside_SX = pair_SX < number_SP.shape[1]
        shift_SX = (first_SP - (end_SP - length_SP)).gather(1, pair_SX.clamp(max=number_SP.shape[1] - 1))
        return torch.where(inside_SX, position_SX + shift_SX, -1)

    def new_cache(self, store: SearchedStore, plan: CachePlan, device: torch.device) -> SentenceCache:
        """The sentence cache of one request whose queries are on `device`; `store` searches this table."""
        return ReferenceCache(store, plan, device)
