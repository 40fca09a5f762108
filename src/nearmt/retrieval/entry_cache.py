"""The neighbours' cache on a GPU: sentences hold the numbers of entries, whose keys stay in the datastore.

It does what `NeighbourCache` does for caches that sentences have to themselves and in which nothing is held twice.
Nothing waits for the device: how many entries a sentence has is known there, and here soon after.

Shapes: U holders, M places, S sentences, R rows of each, X entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from nearmt.contracts import Neighbours, Origin
from nearmt.engines.cuda.gathered import COLUMNS, GatheredEntries, power_of_two
from nearmt.engines.cuda.graphs import Beside, Recorder
from nearmt.engines.reference.topk import smallest
from nearmt.retrieval.neighbour_cache import nominees
from nearmt.retrieval.retriever import Retrieved
from nearmt.retrieval.rows import on_device

# Places are added by so many at a time, and holders.
_ROOM, _HOLDERS = 1024, 16
# Entries that are compared with queries at a time, and put into a cache.
_COMPARED, _PUT = 64, 1024
# The least that a product of a GPU takes.
_FEWEST_ROWS = 16
# Of so many times that something was added what there is is counted once: what may be there is known without.
_COUNTED = 4


class Desk(NamedTuple):
    """Where the queries of a step and what is found for them lie, for those who record how that is done.

    There is a row more than queries: what is found for nobody goes there.
    """

    query_PD: Tensor
    found: Retrieved
    #: Who searches, holders and then rows, and what the searches bring, one below the other.
    number_X: Tensor
    searched: Neighbours

    @classmethod
    def blank(cls, rows: int, columns: int, k: int, searched: int, device: torch.device) -> Desk:
        entry_PW = torch.full((rows + 1, searched), -1, device=device)
        return cls(
            query_PD=torch.zeros(rows + 1, columns, device=device),
            found=Retrieved.nothing(rows + 1, k, device),
            number_X=torch.zeros(2 * rows, dtype=torch.long, device=device),
            searched=Neighbours(entry_PW, torch.zeros(entry_PW.shape, device=device)),
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """What tells it from other desks of a cache."""
        return *self.found.entry_BK.shape, self.searched.entry_BK.shape[1]

    @property
    def nobody(self) -> int:
        """The row that is no query's."""
        return len(self.query_PD) - 1

    def put(self, row_R: Tensor) -> None:
        """What the searches brought, one below the other, is what is found for these rows."""
        from nearmt.engines.cuda.step_kernels import put_searched

        found, searched, most = self.found, self.searched, self.found.entry_BK.shape[1]
        put_searched[(len(row_R),)](
            row_R, searched.entry_BK, searched.distance_BK, searched.entry_BK.shape[1],
            found.asked_B, found.entry_BK, found.distance_BK, most,
            ORIGIN=int(Origin.SEARCH), PLACES=power_of_two(most),
        )  # fmt: skip


class EntryCache:
    """The caches of one request at a time. The first holder is nobody, and holds nothing."""

    def __init__(self, gathered: GatheredEntries) -> None:
        self.gathered = gathered
        self.device = device = gathered.token_N.device
        #: What was recorded reads and writes these caches.
        self.record, self.beside = Recorder(device), Beside(device)
        self._desks: dict[tuple[int, ...], Desk] = {}
        self._held_UM = torch.full((_HOLDERS, _ROOM), -1, device=device)
        self._count_U = torch.zeros(_HOLDERS, dtype=torch.long, device=device)
        #: A bit for each entry of the datastore that a holder has.
        words = -(-len(gathered.token_N) // 32)
        self._known_UW = torch.zeros(_HOLDERS, words, dtype=torch.int32, device=device)
        self.reset()

    def reset(self) -> None:
        """Nobody holds anything."""
        self.beside.join()
        self._held_UM.fill_(-1)
        self._count_U.zero_()
        self._known_UW.zero_()
        #: No holder has more than this: what the device counted last, and what may have been added since.
        self._most = [0] * len(self._count_U)
        self._since = [0] * len(self._count_U)
        self._counted: Arriving | None = None
        self._uncounted = 0
        self._holder_of: dict[int, int] = {}
        self._free = list(range(1, len(self._count_U)))
        #: Those of them that still have what a sentence left behind.
        self._left = set[int]()

    def desk(self, rows: int, k: int, searched: int) -> Desk:
        """For so many queries, k neighbours of each, and so many that are searched for; always the same."""
        if (rows, k, searched) not in self._desks:
            columns = self.gathered.keys.key_ND.shape[1]
            self._desks[rows, k, searched] = Desk.blank(rows, columns, k, searched, self.device)
        return self._desks[rows, k, searched]

    def holders(self, sentences: Sequence[int]) -> list[int]:
        """Who holds what these sentences have."""
        new = [sentence for sentence in sentences if sentence not in self._holder_of]
        if len(new) > len(self._free):
            self._add_holders(len(new) - len(self._free))
        if new:
            taken, self._free = self._free[: len(new)], self._free[len(new) :]
            self._holder_of.update(zip(new, taken, strict=True))
            self._clear([holder for holder in taken if holder in self._left])
        return [self._holder_of[sentence] for sentence in sentences]

    def make_room(self, holders: Sequence[int], more: int) -> None:
        """For so many entries more of each of these."""
        self._look()
        for holder in holders:
            self._most[holder] += more
            self._since[holder] += more
        missing = max(self._most[holder] for holder in holders) - self._held_UM.shape[1]
        if missing > 0:
            self.beside.join()
            self._held_UM = torch.nn.functional.pad(self._held_UM, (0, -(-missing // _ROOM) * _ROOM), value=-1)
            self._forget()

    def add(self, holder_G: Tensor, entry_GX: Tensor) -> None:
        """What these holders, who have room, do not have yet (-1: none)."""
        from nearmt.engines.cuda.step_kernels import put_new

        holders, width = entry_GX.shape
        put_new[(holders,)](
            self._held_UM, self._held_UM.shape[1], self._count_U, self._known_UW, self._known_UW.shape[1], holder_G,
            entry_GX.sort(dim=1).values, width, PLACES=_PUT,
        )  # fmt: skip

    def count(self) -> None:
        """Let it be known how much there is now, every now and then; to be called when something was added."""
        self._uncounted += 1
        if self._uncounted >= _COUNTED and self._counted is None:
            self._counted, self._since, self._uncounted = Arriving(self._count_U), [0] * len(self._most), 0

    def leave(self, sentences: Sequence[int]) -> None:
        """These sentences are done. What they had stays until others, who mostly come together, take their places."""
        gone = [self._holder_of.pop(sentence) for sentence in sentences if sentence in self._holder_of]
        self._free += gone
        self._left.update(gone)

    def _clear(self, holders: list[int]) -> None:
        """Take from them what they have."""
        if holders:
            self.beside.join()
            gone_G = on_device(holders, self.device)
            self._held_UM.index_fill_(0, gone_G, -1)
            self._count_U.index_fill_(0, gone_G, 0)
            self._known_UW.index_fill_(0, gone_G, 0)
            self._left.difference_update(holders)
            self._counted = None  # it is about what they had
            for holder in holders:
                self._most[holder] = 0

    def width(self, holders: Sequence[int]) -> int:
        """Places beyond which none of these has an entry."""
        self._look()
        most = max(self._most[holder] for holder in holders)
        return min(self._held_UM.shape[1], -(-max(1, most) // _ROOM) * _ROOM)

    def recall(self, found: Retrieved, query_BE: Tensor, holder_S: Tensor, width: int, k: int) -> None:
        """Put the k nearest entries of each row and their distances (not squared) into the first rows of `found`.

        The rows of a sentence stand side by side, equally many of each.
        """
        from nearmt.engines.cuda.step_kernels import compare, measure

        keys, (rows, columns), sentences = self.gathered.keys, query_BE.shape, len(holder_S)
        each, stride = rows // sentences, query_BE.stride(0)
        near_BM = torch.empty(rows, width, device=query_BE.device)
        compare[(sentences, -(-width // _COMPARED))](
            query_BE, *keys.arguments(), self._held_UM, self._held_UM.shape[1], self._count_U, holder_S,
            near_BM, width, each, stride, columns=columns,
            ROWS=max(_FEWEST_ROWS, power_of_two(each)), PLACES=_COMPARED, COLUMNS=COLUMNS, MORE=keys.more,
        )  # fmt: skip
        place_BX = smallest(near_BM, min(nominees(k), width))[1]
        nominated, most = place_BX.shape[1], found.entry_BK.shape[1]
        measure[(rows,)](
            query_BE, *keys.arguments(), self._held_UM, self._held_UM.shape[1], holder_S, each,
            place_BX.contiguous(), nominated, found.asked_B, found.entry_BK, found.distance_BK, k, most, stride,
            columns=columns, ORIGIN=int(Origin.CACHE), PLACES=power_of_two(max(nominated, most)), COLUMNS=COLUMNS,
            MORE=keys.more,
        )  # fmt: skip

    def _add_holders(self, count: int) -> None:
        self.beside.join()
        count = -(-count // _HOLDERS) * _HOLDERS
        self._free += range(len(self._most), len(self._most) + count)
        self._most, self._since = self._most + [0] * count, self._since + [0] * count
        self._held_UM = torch.nn.functional.pad(self._held_UM, (0, 0, 0, count), value=-1)
        self._count_U = torch.nn.functional.pad(self._count_U, (0, count))
        self._known_UW = torch.nn.functional.pad(self._known_UW, (0, 0, 0, count))
        self._forget()

    def _forget(self) -> None:
        """What was recorded knows another memory."""
        self.record.forget()
        self.beside.record.forget()

    def _look(self) -> None:
        """Take over what was counted, if it is here."""
        if self._counted is not None and self._counted.is_here():
            counts = self._counted.numbers()
            counts += [0] * (len(self._most) - len(counts))
            self._most = [count + more for count, more in zip(counts, self._since, strict=True)]
            self._counted = None


class Arriving:
    """Numbers on their way from a device, for which nobody waits."""

    def __init__(self, number_X: Tensor) -> None:
        on_gpu = number_X.is_cuda
        self._number_X = torch.empty(number_X.shape, dtype=number_X.dtype, pin_memory=on_gpu)
        self._number_X.copy_(number_X, non_blocking=True)
        self._event = torch.cuda.Event() if on_gpu else None
        if self._event is not None:
            self._event.record()

    def is_here(self) -> bool:
        return self._event is None or self._event.query()

    def numbers(self) -> list[int]:
        found: list[int] = self._number_X.tolist()
        return found
