"""The entry table on a GPU: Triton kernels read keys in place."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from nearmt.contracts import Neighbours
from nearmt.engines.base import AgreementRule, CachePlan, SentenceCache, SentenceWords
from nearmt.engines.cuda.cache import CacheBuffers, CudaCache
from nearmt.engines.cuda.graphs import Pool
from nearmt.engines.cuda.keys import SegmentedKeys, nearest_of
from nearmt.engines.cuda.sizes import power_of_two
from nearmt.engines.devices import is_same
from nearmt.engines.reference.entries import EntryTable, SearchedStore


class CudaEntryTable(EntryTable):
    """Does not synchronise with the host, and copies as little as it can."""

    def __init__(
        self,
        keys: Sequence[Tensor],
        token_N: Tensor,
        end_P: Tensor,
        weight_N: Tensor | None,
        word_N: Tensor | None = None,
    ) -> None:
        super().__init__(keys, token_N.long(), end_P, weight_N, word_N)
        self._keys = SegmentedKeys.of(self.keys_by_segment)
        #: Buffers and graphs that the requests of each store re-use: graphs hold a store's own searches.
        self._buffers: WeakKeyDictionary[SearchedStore, Pool[CacheBuffers]] = WeakKeyDictionary()

    def tokens(self, entry: Tensor) -> Tensor:
        # Entry -1 is the last one: a valid token, and one launch instead of three.
        return self.token_N[entry] if len(self) else torch.zeros_like(entry)

    def keys(self, entry_M: Tensor, columns: int) -> Tensor:
        if len(self.keys_by_segment) == 1:
            return super().keys(entry_M, columns)
        key_ME = torch.empty(len(entry_M), columns, device=self.device)
        for key_ND, start in zip(self.keys_by_segment, self.offsets, strict=False):
            if len(key_ND):
                # The number of entries in a segment is known to the GPU alone: all read something, some in vain.
                inside = (entry_M >= start) & (entry_M < start + len(key_ND))
                local_M = (entry_M - start).clamp(0, len(key_ND) - 1)
                key_ME = torch.where(inside[:, None], key_ND[:, :columns].index_select(0, local_M).float(), key_ME)
        return key_ME

    def nearest(self, query_BE: Tensor, candidate_BX: Tensor, k: int) -> Neighbours:
        return nearest_of(query_BE, self._keys, candidate_BX, k)

    def agreement(self, entry_BK: Tensor, words: SentenceWords, rule: AgreementRule) -> Tensor | None:
        from nearmt.engines.cuda.step_kernels import agreement

        if self.word_N is None:
            return None
        (rows, k), (slots, codes) = entry_BK.shape, words.known_SX.shape
        agreement_BK = torch.empty(rows, k, device=entry_BK.device)
        agreement[(rows,)](
            self.word_N, len(self), entry_BK.contiguous(), k,
            words.known_SX, codes, words.near_S, words.trust_S, rows // slots, agreement_BK,
            rule.paraphrase, rule.contrast, rule.strength, rule.elsewhere,
            WINDOW=rule.window, POSITIONS=power_of_two(k),
        )  # fmt: skip
        return agreement_BK

    def new_cache(self, store: SearchedStore, plan: CachePlan, device: torch.device) -> SentenceCache:
        if not store.capturable or not is_same(device, self.device):
            return super().new_cache(store, plan, device)
        pool = self._buffers.setdefault(store, Pool[CacheBuffers]())
        return CudaCache(store, plan, pool, lambda: CacheBuffers(self._keys, self.device))
