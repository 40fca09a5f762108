"""Search: every segment's index nominates, the stored keys decide."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from nearmt.contracts import Neighbours
from nearmt.engines.base import Index, RowSearch
from nearmt.engines.choose import exact_index
from nearmt.engines.cuda.graphs import current
from nearmt.engines.reference.entries import EntryTable
from nearmt.errors import IndexServerError
from nearmt.index import JoinedIndexes, SubsetIndex, nominate_together, remote_index
from nearmt.timing import timed

#: Where few entries are hidden, this many times k are searched for, and the hidden ones are dropped.
_MORE = 2
#: At most this share of the entries, and at most this many, are searched exhaustively when only they are allowed.
_FEW_SHARE = 1 / 8
_FEW = 16_384


@dataclass
class Searcher:
    """The k nearest entries by squared L2 distance of the stored keys, whatever the index."""

    entries: EntryTable
    indexes: list[Index]
    columns: int

    def search(self, query_BD: Tensor, k: int, allowed_N: Tensor | None = None) -> Neighbours:
        """Exactly k entries that are allowed and not pruned, fewer only where fewer exist (-1 and inf fill up).

        None, and marked as missed, where the server of an index does not answer and need not.
        """
        try:
            return self._search(query_BD, k, allowed_N)
        except IndexServerError:
            if not self._is_optional:
                raise
            return _no_neighbours(query_BD, k, missed=True)

    def _search(self, query_BD: Tensor, k: int, allowed_N: Tensor | None) -> Neighbours:
        with timed("index/search"), current(query_BD.device):
            in_one = self._by_kernel(query_BD, k) if allowed_N is None else None
            if in_one is not None and _is_full(in_one):
                return in_one
            allowed_N = None if allowed_N is None else allowed_N.to(query_BD.device)
            live_N = self.live(allowed_N)
            live = self.entries.kept if allowed_N is None or live_N is None else _count(live_N)
            if not live or not len(query_BD):
                return _no_neighbours(query_BD, k)
            # What the first way does not find, the next one does.
            first, *others = self._ways(k, allowed_N, live_N, live)
            found = in_one or first(query_BD)
            for way in others:
                if self.complete and allowed_N is None:
                    break  # nothing can be missing, and to check would synchronise with a GPU
                short_B = found.entry_BK[:, min(k, live) - 1] < 0
                if not bool(short_B.any()):
                    break
                part = way(query_BD[short_B])
                found.entry_BK[short_B], found.distance_BK[short_B] = part.entry_BK, part.distance_BK
            return found

    @cached_property
    def complete(self) -> bool:
        """Whether all indexes find as many entries as they are asked for."""
        return all(index.complete for index in self.indexes)

    @cached_property
    def is_remote(self) -> bool:
        """Whether a server is asked, and so something else can be done meanwhile."""
        return any(remote_index(index) for index in self.indexes)

    @cached_property
    def _is_optional(self) -> bool:
        """Whether translation goes on without neighbours where the server does not answer."""
        found = [remote for index in self.indexes if (remote := remote_index(index)) is not None]
        return all(index.collection.use.optional for index in found)

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

    def _by_kernel(self, query_BD: Tensor, k: int) -> Neighbours | None:
        """The k nearest, or not all of them, where a kernel nominates and measures; None where there is none."""
        search = self.row_search(k)
        if search is None or query_BD.dtype != torch.float32:
            return None
        entry_BK, distance_BK = torch.empty(len(query_BD), k, dtype=torch.long), torch.empty(len(query_BD), k)
        search(query_BD.contiguous(), None, entry_BK, distance_BK)
        return Neighbours(entry_BK, distance_BK)

    def row_search(self, k: int) -> RowSearch | None:
        """A kernel that finds the k nearest of some rows, or not all of them, if there is one."""
        lists = self.indexes[0].lists if len(self.indexes) == 1 else self._joined
        return None if lists is None else self.entries.row_search(lists, k)

    @cached_property
    def _joined(self) -> JoinedIndexes | None:
        """The indexes as one, if all segments are in the same clusters."""
        full = [number for number, key_ND in enumerate(self.entries.keys_by_segment) if len(key_ND)]
        return JoinedIndexes.of([self.indexes[n] for n in full], [self.entries.offsets[n] for n in full])

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
        return SubsetIndex(exact_index(self.entries.keys(entry_L, self.columns)), entry_L).nominate(query_BD, k, None)

    @cached_property
    def _exact(self) -> list[Index]:
        return [exact_index(key_ND) for key_ND in self.entries.keys_by_segment]


def _no_neighbours(query_BD: Tensor, k: int, *, missed: bool = False) -> Neighbours:
    none_BK = torch.full((len(query_BD), k), -1, device=query_BD.device)
    return Neighbours(none_BK, torch.full_like(none_BK, torch.inf, dtype=torch.float32), missed)


def _is_full(found: Neighbours) -> bool:
    """Whether all rows have as many as were asked for."""
    return bool(found.entry_BK.numpy()[:, -1].min(initial=0) >= 0)


def _count(mask_N: Tensor) -> int:
    # Synchronises with a GPU: only where there is a mask.
    return int(mask_N.count_nonzero())
