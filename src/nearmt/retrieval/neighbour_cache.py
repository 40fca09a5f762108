"""The neighbours' cache: all tokens of the retrieved chunks, at hand between searches (section 3.2.2).

M = {(f(x, y_<t+i), y_t+i) for 0 <= i < c, for every retrieved chunk y_t:(t+c-1)}

Two options span the paper's strategies. The *scope* says who shares a cache: each hypothesis, all
hypotheses of a source sentence, or the whole batch. The *retention* says what a new search of a
sentence does to its earlier chunks: replace them (`last`) or join them (`all`).

Shapes here: U holders (hypotheses or sentences), G caches (one a holder, or one for the batch),
R rows of a cache, M entries of a cache; -1 fills up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nearmt.contracts import Neighbours
from nearmt.engines.cpu import kernels
from nearmt.engines.reference.distances import first_of, squared_l2
from nearmt.retrieval.held_keys import HeldKeys, KernelHeldKeys, held_keys
from nearmt.retrieval.marks import Marks
from nearmt.retrieval.rows import on_device, ranks_of
from nearmt.retrieval.source import EntrySource


# So many are nominated on the columns that are held, and then compared on all of them.
def nominees(k: int) -> int:
    return 2 * k + 8


@dataclass(frozen=True)
class CacheConfig:
    """Who shares a cache, what it keeps, and on how many columns it compares."""

    scope: str
    retention: str
    duplicates: str
    columns: int


class NeighbourCache:
    """The caches of one request. Sentences get theirs when they need it, and give it back when they are done."""

    def __init__(self, store: EntrySource, config: CacheConfig, sentences: int, device: torch.device) -> None:
        self._store, self._config = store, config
        # Hypotheses begin as one row a sentence; `reorder` lets them multiply.
        holders = sentences if config.scope == "hypothesis" else 0
        self._held_UM = torch.full((holders, 0), -1, device=device)
        self._keys = held_keys(holders, config.columns, device)
        #: What kernels read of entries, where they fill the cache, and how they tell what is there already.
        self._rows = store.rows if isinstance(self._keys, KernelHeldKeys) else None
        #: A kernel measures keys of few columns faster than they are nominated, and each row by itself.
        self._compares_all = device.type == "cpu" and kernels() is not None and store.rows is not None
        self._marks = Marks(holders) if self._rows is not None and config.duplicates == "remove" else None
        #: How many entries each holder has, and how many of them for good.
        self._count, self._seeds = [0] * holders, [0] * holders
        #: Which holder a sentence is, and those that are nobody.
        self._holder_of: dict[int, int] = {}
        self._free: list[int] = []
        self._joined: tuple[Tensor, HeldKeys] | None = None

    def seed(self, rows: list[int], sources: list[int], entry_RX: Tensor) -> None:
        """Entries that these rows, one a sentence, hold from the start, whatever is retrieved (-1: none)."""
        holders = self._holders(rows, sources)
        self._add(holders, entry_RX)
        for holder in holders:
            self._seeds[holder] = self._count[holder]

    def remember(self, rows: list[int], sources: list[int], entry_RX: Tensor) -> None:
        """Take in the chunk entries that these rows retrieved (-1: none)."""
        holders, new_GX = _by_holder(self._holders(rows, sources), entry_RX)
        if self._config.retention == "last":
            for holder in holders:
                self._cut(holder, self._seeds[holder])
        self._add(holders, new_GX)

    def leave(self, sources: list[int]) -> None:
        """These sentences are done. What a batch shares stays."""
        if self._config.scope != "source":
            return
        for source in sources:
            holder = self._holder_of.pop(source, None)
            if holder is not None:
                self._seeds[holder] = 0
                self._cut(holder, 0)
                self._free.append(holder)

    def recall(self, rows: list[int], sources: list[int], query_XE: Tensor, k: int) -> Neighbours:
        """The k nearest cached entries of each of these rows, with their L2 distances (not squared)."""
        holders, entry_UM, width, keys = self._caches(rows, sources)
        query_GRE = query_XE.view(len(holders), -1, query_XE.shape[1])
        if keys.whole and self._compares_all:
            found = self._store.nearest(query_XE, _of_each_row(entry_UM[holders, :width], len(query_XE)), k)
            return Neighbours(found.entry_BK, found.distance_BK.sqrt_())
        # Nominate by the expanded square, then measure by differences, which is exact also where a distance is small.
        query_GRN = query_GRE[:, :, : keys.columns]
        if isinstance(keys, KernelHeldKeys):
            entry_GRX = keys.nominate_entries(holders, query_GRN, width, nominees(k), entry_UM)
            found = self._store.nearest(query_XE, entry_GRX.flatten(0, 1), k)
            return Neighbours(found.entry_BK, found.distance_BK.sqrt_())
        place_GRX = keys.nominate(holders, query_GRN, width, nominees(k))
        entry_GRX = entry_UM[on_device(holders, place_GRX.device)[:, None, None], place_GRX]
        if keys.whole:  # they are at hand, perhaps on another device than the store
            ordered = entry_GRX.flatten(0, 1).sort(dim=1)
            key_RXE = keys.at(holders, place_GRX.gather(2, ordered.indices.view_as(place_GRX)))
            found = first_of(ordered.values, squared_l2(query_XE, key_RXE), k)
        else:
            found = self._store.nearest(query_XE, entry_GRX.flatten(0, 1), k)
        return Neighbours(found.entry_BK, found.distance_BK.sqrt_())

    @classmethod
    def at_once(cls, store: EntrySource, config: CacheConfig) -> bool:
        """Whether kernels can recall what sentences have, and remember chunks, in one call."""
        usual = (config.scope, config.retention, config.duplicates) == ("source", "all", "remove")
        wide = isinstance(held_keys(0, config.columns, torch.device("cpu")), KernelHeldKeys)
        return usual and wide and config.columns % 4 == 0 and store.rows is not None

    def recall_at_once(self, found: Neighbours, query_BD: Tensor, sentences: list[int], places: list[int]) -> None:
        """What `recall` does for all rows of sentences in some places of a batch, whose rows stand together."""
        assert isinstance(self._keys, KernelHeldKeys) and self._rows is not None
        holders = self._holders([], [sentences[place] for place in places])
        held = self._keys.held_by(holders, self._held_UM, places)
        rows, k = len(query_BD) // len(sentences), found.entry_BK.shape[1]
        self._rows.keys.recall(
            held, query_BD, rows, self._config.columns, nominees(k), found.entry_BK, found.distance_BK
        )

    def remember_chunks(self, sentences: list[int], entry_SX: Tensor, chunk: int) -> None:
        """What `remember` does for the chunks that begin with these entries (-1: none)."""
        assert isinstance(self._keys, KernelHeldKeys) and self._rows is not None and self._marks is not None
        holders = self._holders([], sentences)
        most = max(self._count[holder] for holder in holders) + chunk * entry_SX.shape[1]
        self._marks.make_room(self._held_UM, most)
        self._grow(most)
        starts = [self._count[holder] for holder in holders]
        fresh = self._keys.keep_chunks(
            holders, starts, self._rows, entry_SX, chunk, self._held_UM, self._marks.tables()
        )
        for holder, start, count in zip(holders, starts, fresh, strict=True):
            self._count[holder] = start + count

    def reorder(self, row_B: Tensor) -> None:
        if self._config.scope == "hypothesis":
            self._held_UM = self._held_UM[row_B]
            self._keys.select(row_B)
            if self._marks is not None:
                self._marks.select(row_B)
            rows = row_B.tolist()  # on a GPU the program waits here; other scopes stay where they are
            self._count, self._seeds = [self._count[row] for row in rows], [self._seeds[row] for row in rows]

    def _holders(self, rows: list[int], sources: list[int]) -> list[int]:
        """Who holds what each row retrieves. Rows of one holder stand together; those that read are equally many."""
        if self._config.scope == "hypothesis":
            return rows
        new = [source for source in dict.fromkeys(sources) if source not in self._holder_of]
        if len(new) > len(self._free):
            self._add_holders(len(new) - len(self._free))
        for source in new:
            self._holder_of[source] = self._free.pop(0)
        return [self._holder_of[source] for source in sources]

    def _add_holders(self, count: int) -> None:
        self._free += range(len(self._count), len(self._count) + count)
        self._count, self._seeds = self._count + [0] * count, self._seeds + [0] * count
        self._held_UM = torch.nn.functional.pad(self._held_UM, (0, 0, 0, count), value=-1)
        self._keys.add(count)
        if self._marks is not None:
            self._marks.add(count)

    def _caches(self, rows: list[int], sources: list[int]) -> tuple[list[int], Tensor, int, HeldKeys]:
        """The caches that these rows read, in their order: the holders, all entries [U, M], how many to read, keys."""
        if self._config.scope == "batch":
            entry_1M, keys = self._batch_cache()
            return [0], entry_1M, entry_1M.shape[1], keys
        holders = list(dict.fromkeys(self._holders(rows, sources)))
        return holders, self._held_UM, max(self._count[holder] for holder in holders), self._keys

    def _cut(self, holder: int, end: int) -> None:
        """Forget what a holder has from there on."""
        self._count[holder] = end
        self._held_UM[holder, end:] = -1
        self._keys.cut(holder, end)
        if self._marks is not None:
            self._marks.forget(holder, self._held_UM[holder, :end])

    def _batch_cache(self) -> tuple[Tensor, HeldKeys]:
        """What all sentences hold, as one cache."""
        if self._joined is None:
            entry_1M = self._held_UM.view(1, -1)
            hidden_1M = entry_1M < 0
            if self._config.duplicates == "remove":
                hidden_1M |= _repeats(entry_1M)
            self._joined = entry_1M.masked_fill(hidden_1M, -1), self._keys.joined(hidden_1M)
        return self._joined

    def _add(self, holders: Sequence[int], new_GX: Tensor) -> None:
        """Append what holders do not have yet."""
        self._joined = None
        fresh = self._fresh(holders, new_GX)
        self._grow(max(self._count[holder] + len(entry_X) for holder, entry_X in zip(holders, fresh, strict=True)))
        self._put_keys(holders, fresh)
        for holder, entry_X in zip(holders, fresh, strict=True):
            first = self._count[holder]
            self._count[holder] += len(entry_X)
            self._held_UM[holder, first : self._count[holder]] = entry_X

    def _fresh(self, holders: Sequence[int], new_GX: Tensor) -> Sequence[Tensor]:
        """Of each holder what it does not have yet."""
        if self._marks is not None:
            most = max(self._count[holder] for holder in holders) + new_GX.shape[1]
            self._marks.make_room(self._held_UM, most)
            return [
                self._marks.fresh(holder, new_X) for holder, new_X in zip(holders, new_GX.contiguous(), strict=True)
            ]
        fresh_GX = new_GX >= 0
        if self._config.duplicates == "remove":
            width = max(self._count[holder] for holder in holders)
            known_GX = torch.cat([self._held_UM[holders, :width], new_GX], dim=1)
            fresh_GX &= ~_repeats(known_GX)[:, width:]
        # How much there is decides on the room: at steps that search the program waits for it, also on a GPU.
        parts: Sequence[Tensor] = new_GX[fresh_GX].split(fresh_GX.sum(dim=1).tolist())
        return parts

    def _put_keys(self, holders: Sequence[int], fresh: Sequence[Tensor]) -> None:
        """Keys of what is about to be appended."""
        if self._rows is not None and isinstance(self._keys, KernelHeldKeys):
            for holder, entry_X in zip(holders, fresh, strict=True):
                self._keys.put_entries(holder, self._count[holder], self._rows, entry_X)
            return
        keys = self._store.keys(torch.cat(list(fresh)), self._keys.columns)
        for holder, key_XN in zip(holders, keys.split([len(entry_X) for entry_X in fresh]), strict=True):
            self._keys.put(holder, self._count[holder], key_XN)

    def _grow(self, width: int) -> None:
        self._keys.grow(width)
        more = self._keys.room - self._held_UM.shape[1]
        if more > 0:
            self._held_UM = torch.nn.functional.pad(self._held_UM, (0, more), value=-1)


def _of_each_row(entry_GM: Tensor, rows: int) -> Tensor:
    """What the cache of each row holds, [rows, M]; the rows of a cache stand together."""
    return entry_GM.repeat_interleave(rows // len(entry_GM), dim=0)


def _by_holder(holder_of_row: list[int], entry_RX: Tensor) -> tuple[list[int], Tensor]:
    """The holders, and what the rows of each retrieved, side by side [G, X']; -1 fills up."""
    holders = list(dict.fromkeys(holder_of_row))
    rows_each = len(holder_of_row) // len(holders)
    if all(holder_of_row.count(holder) == rows_each for holder in holders):
        return holders, entry_RX.reshape(len(holders), -1)
    place = {holder: number for number, holder in enumerate(holders)}
    ranks = ranks_of(holder_of_row)
    entry_GRX = entry_RX.new_full((len(holders), max(ranks) + 1, entry_RX.shape[1]), -1)
    entry_GRX[[place[holder] for holder in holder_of_row], ranks] = entry_RX
    return holders, entry_GRX.flatten(1)


def _repeats(entry_GX: Tensor) -> Tensor:
    """Where a row says again what it said before."""
    ordered = entry_GX.sort(dim=1, stable=True)
    again_GX = torch.nn.functional.pad(ordered.values[:, 1:] == ordered.values[:, :-1], (1, 0), value=False)
    return torch.empty_like(again_GX).scatter_(1, ordered.indices, again_GX)
