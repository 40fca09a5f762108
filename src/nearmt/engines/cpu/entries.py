"""The entry table on a CPU with kernels: keys are fp16 and read where they are memory-mapped."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nearmt.contracts import Neighbours
from nearmt.engines.base import AgreementRule, CachePlan, KernelLists, RowSearch, SentenceCache, SentenceWords
from nearmt.engines.cpu.cache import CpuCache
from nearmt.engines.cpu.library import address, loaded
from nearmt.engines.cpu.nearest import KeyRows
from nearmt.engines.devices import is_same
from nearmt.engines.reference.entries import EntryTable, SearchedStore


class CpuEntryTable(EntryTable):
    """Measures, searches and caches by kernels."""

    def __init__(
        self,
        keys: Sequence[Tensor],
        token_N: Tensor,
        end_P: Tensor,
        weight_N: Tensor | None,
        word_N: Tensor | None = None,
    ) -> None:
        super().__init__(keys, token_N, end_P, weight_N, word_N)
        self.key_rows = KeyRows(self.keys_by_segment, self.offsets)

    def nearest(self, query_BE: Tensor, candidate_BX: Tensor, k: int) -> Neighbours:
        return Neighbours(*self.key_rows.nearest(query_BE, candidate_BX, k))

    def agreement(self, entry_BK: Tensor, words: SentenceWords, rule: AgreementRule) -> Tensor | None:
        if self.word_N is None:
            return None
        entry_BK, (rows, k) = entry_BK.contiguous(), entry_BK.shape
        agreement_BK = torch.empty(rows, k)
        (slots, codes), near_S, trust_S = words.known_SX.shape, words.near_S, words.trust_S
        loaded().agreement(
            address(self.word_N), len(self), address(entry_BK), rows, k, address(words.known_SX), address(near_S),
            address(trust_S), slots, codes, rule.window, rule.paraphrase, rule.contrast, rule.strength, rule.elsewhere,
            address(agreement_BK),
        )  # fmt: skip
        return agreement_BK

    def row_search(self, lists: KernelLists, k: int) -> RowSearch | None:
        return lists.row_search(self.key_rows, k)

    def new_cache(self, store: SearchedStore, plan: CachePlan, device: torch.device) -> SentenceCache:
        # A model on another device has its caches there.
        if not is_same(device, self.device) or not CpuCache.fits(plan):
            return super().new_cache(store, plan, device)
        return CpuCache(self.key_rows, self.end_P, store, plan)
