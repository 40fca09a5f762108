"""Search: every segment's index nominates, the stored keys decide."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nearmt.contracts import Index, Neighbours
from nearmt.index import TorchIndex
from nearmt.index.distances import squared_l2
from nearmt.store.entries import Entries
from nearmt.timing import timed


@dataclass
class Searcher:
    """The k nearest entries by squared L2 distance of the stored keys, whatever the index."""

    entries: Entries
    indexes: list[Index]
    columns: int

    def search(self, query_BD: Tensor, k: int, allowed_N: Tensor | None = None) -> Neighbours:
        """Exactly k entries that are allowed and not pruned, fewer only where fewer exist (-1 and inf fill up)."""
        with timed("index/search"):
            live_N = self._live(allowed_N)
            live = self.entries.kept if allowed_N is None or live_N is None else int(live_N.sum())
            found = self._measure(query_BD, k, self._nominate(self.indexes, query_BD, k, allowed_N))
            # An approximate index may miss entries in its lists or behind the mask: ask an exact one.
            short_B = (found.entry_BK >= 0).sum(dim=1) < min(k, live)
            if bool(short_B.any()):
                exact: list[Index] = [TorchIndex(key_ND) for key_ND in self.entries.keys_by_segment]
                again = self._nominate(exact, query_BD[short_B], k, live_N)
                complete = self._measure(query_BD[short_B], k, again)
                found.entry_BK[short_B] = complete.entry_BK
                found.distance_BK[short_B] = complete.distance_BK
            return found

    def _live(self, allowed_N: Tensor | None) -> Tensor | None:
        """The allowed entries without pruned ones; None stands for all."""
        kept_N = self.entries.kept_N
        if allowed_N is None or kept_N is None:
            return kept_N if allowed_N is None else allowed_N
        return allowed_N & kept_N.to(allowed_N.device)

    def _nominate(self, indexes: list[Index], query_BD: Tensor, k: int, allowed_N: Tensor | None) -> Tensor:
        """Candidates of all segments, [B, at least k], under the store's numbering."""
        candidates = [torch.full((len(query_BD), k), -1, device=query_BD.device)]
        for index, start, end in zip(indexes, self.entries.offsets, self.entries.offsets[1:], strict=False):
            if end == start:
                continue
            local = index.nominate(query_BD, k, None if allowed_N is None else allowed_N[start:end])
            candidates.append(torch.where(local >= 0, local + start, -1))
        return torch.cat(candidates[1:] or candidates, dim=1)

    def _measure(self, query_BD: Tensor, k: int, candidate_BX: Tensor) -> Neighbours:
        """The k nearest candidates; equal distances in corpus order, so that ties are always broken alike."""
        entry_BX = candidate_BX.sort(dim=1).values
        rows, width = entry_BX.shape
        if len(self.entries):
            key_BXD = self.entries.keys(entry_BX.clamp(min=0).flatten(), self.columns).view(rows, width, -1)
            distance_BX = squared_l2(query_BD, key_BXD).masked_fill_(entry_BX < 0, torch.inf)
        else:
            distance_BX = torch.full((rows, width), torch.inf, device=query_BD.device)
        order_BK = distance_BX.argsort(dim=1, stable=True)[:, :k]
        return Neighbours(entry_BX.gather(1, order_BK), distance_BX.gather(1, order_BK))
