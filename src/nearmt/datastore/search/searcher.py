"""Search: every segment's index nominates, the stored keys decide."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from nearmt.contracts import Index, Neighbours
from nearmt.datastore.search.entries import Entries
from nearmt.engines.cpu.nearest import KeyRows, RowSearch
from nearmt.engines.cuda.graphs import current
from nearmt.index import ExactIndex, PieceIndex, SharedIndex, SubsetIndex, TorchIndex, nominate_together
from nearmt.timing import timed

#: Where few entries are hidden, so many times k are asked for before the hidden ones are dropped.
_MORE = 2
#: Where this share or less is allowed, and no more than so many, their keys are compared one by one.
_FEW_SHARE = 1 / 8
_FEW = 16_384


@dataclass
class Searcher:
    """The k nearest entries by squared L2 distance of the stored keys, whatever the index."""

    entries: Entries
    indexes: list[Index]
    columns: int

    def search(self, query_BD: Tensor, k: int, allowed_N: Tensor | None = None) -> Neighbours:
        """Exactly k entries that are allowed and not pruned, fewer only where fewer exist (-1 and inf fill up)."""
        with timed("index/search"), current(query_BD.device):
            at_once = self._at_once(query_BD, k) if allowed_N is None else None
            if at_once is not None and _is_full(at_once):
                return at_once
            rows, device = len(query_BD), query_BD.device
            allowed_N = None if allowed_N is None else allowed_N.to(device)
            live_N = self.live(allowed_N)
            live = self.entries.kept if allowed_N is None or live_N is None else _count(live_N)
            if not live or not rows:
                nobody_BK = torch.full((rows, k), -1, device=device)
                return Neighbours(nobody_BK, torch.full_like(nobody_BK, torch.inf, dtype=torch.float32))
            # What the first way does not find, the next one does.
            first, *others = self._ways(k, allowed_N, live_N, live)
            found = at_once or first(query_BD)
            for way in others:
                if self.complete and allowed_N is None:
                    break  # nothing can be missing, and on a GPU the program would have to wait to see it
                short_B = found.entry_BK[:, min(k, live) - 1] < 0
                if not bool(short_B.any()):
                    break
                part = way(query_BD[short_B])
                found.entry_BK[short_B], found.distance_BK[short_B] = part.entry_BK, part.distance_BK
            return found

    @cached_property
    def complete(self) -> bool:
        """Whether all indexes find as many as they are asked for."""
        inner = [index.inner if isinstance(index, SubsetIndex) else index for index in self.indexes]
        return all(isinstance(index, TorchIndex | ExactIndex | PieceIndex) for index in inner)

    def live(self, allowed_N: Tensor | None) -> Tensor | None:
        """The allowed entries without pruned ones; None stands for all."""
        kept_N = self.entries.kept_N
        if allowed_N is None or kept_N is None:
            return kept_N if allowed_N is None else allowed_N
        return allowed_N & kept_N.to(allowed_N.device)

    def _ways(
        self, k: int, allowed_N: Tensor | None, live_N: Tensor | None, live: int
    ) -> Iterator[Callable[[Tensor], Neighbours]]:
        """How neighbours of some queries can be had, each way surer and slower than the one before."""
        few = live <= min(_FEW, _FEW_SHARE * len(self.entries))
        # A mask makes an index slow: few hidden entries are better dropped from what it finds.
        if allowed_N is not None and 2 * live >= self.entries.kept:
            yield lambda query_BD: self._dropping(query_BD, k, allowed_N)
        if allowed_N is None or not few:
            yield lambda query_BD: self.entries.nearest(
                query_BD, self._nominate(self.indexes, query_BD, k, allowed_N), k
            )
        # An approximate index may miss entries in its lists or behind the mask.
        yield lambda query_BD: self.entries.nearest(query_BD, self._nominate_exactly(query_BD, k, live_N, live), k)

    def _at_once(self, query_BD: Tensor, k: int) -> Neighbours | None:
        """The k nearest, or not all of them, where a kernel nominates and compares; None where there is none."""
        if self._kernel_reads is None:
            return None
        index, keys = self._kernel_reads
        return index.nearest(query_BD, k, keys)

    def row_search(self, k: int) -> RowSearch | None:
        """What finds the k nearest of some rows, or not all of them, where a kernel does it."""
        if self._kernel_reads is None:
            return None
        index, keys = self._kernel_reads
        return index.row_search(k, keys)

    @property
    def _kernel_reads(self) -> tuple[SharedIndex, KeyRows] | None:
        """What a kernel would read that nominates and compares."""
        keys = self.entries.key_rows
        if keys is None or len(self.indexes) != 1 or not isinstance(self.indexes[0], SharedIndex):
            return None
        return self.indexes[0], keys

    def _dropping(self, query_BD: Tensor, k: int, allowed_N: Tensor) -> Neighbours:
        """The allowed ones among somewhat more than k: the nearest, unless that leaves fewer than k."""
        more = self.entries.nearest(query_BD, self._nominate(self.indexes, query_BD, _MORE * k, None), _MORE * k)
        seen_BX = (more.entry_BK >= 0) & allowed_N[more.entry_BK.clamp(min=0)]
        order_BK = (~seen_BX).long().argsort(dim=1, stable=True)[:, :k]
        entry_BX = more.entry_BK.masked_fill(~seen_BX, -1)
        distance_BX = more.distance_BK.masked_fill(~seen_BX, torch.inf)
        return Neighbours(entry_BX.gather(1, order_BK), distance_BX.gather(1, order_BK))

    def _nominate(self, indexes: list[Index], query_BD: Tensor, k: int, allowed_N: Tensor | None) -> Tensor:
        """Candidates of all segments, [B, at least k], under the store's numbering."""
        return nominate_together(indexes, self.entries.offsets, query_BD, k, allowed_N)

    def _nominate_exactly(self, query_BD: Tensor, k: int, live_N: Tensor | None, live: int) -> Tensor:
        if live_N is None or live > _FEW:
            return self._nominate(self._exact, query_BD, k, live_N)
        entry_L = live_N.nonzero().flatten()
        return SubsetIndex(TorchIndex(self.entries.keys(entry_L, self.columns)), entry_L).nominate(query_BD, k, None)

    @cached_property
    def _exact(self) -> list[Index]:
        return [TorchIndex(key_ND) for key_ND in self.entries.keys_by_segment]


def _is_full(found: Neighbours) -> bool:
    """Whether all rows have as many as were asked for."""
    return bool(found.entry_BK.numpy()[:, -1].min(initial=0) >= 0)


def _count(mask_N: Tensor) -> int:
    # On a GPU the program waits for it: only where there is a mask.
    # Adding up a mask makes numbers of all its places first; numpy counts them where they are.
    return int(mask_N.count_nonzero()) if mask_N.is_cuda else int(np.count_nonzero(mask_N.numpy()))
