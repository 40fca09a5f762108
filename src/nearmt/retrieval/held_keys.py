"""The keys of cached entries, held so that those near a query are found by one small matrix product.

Shapes here: U holders, M places of a holder, N columns that nominate, G holders that are read, R rows of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import torch
from torch import Tensor
from torch.nn.functional import pad

from nearmt.engines.cpu import kernels, nearest
from nearmt.engines.cpu.library import Held, address
from nearmt.engines.cpu.nearest import EntryRows, HeldRows
from nearmt.retrieval.rows import chosen, on_device

# On a CPU reading the keys takes the time: the most telling columns are held, as 8-bit numbers.
_COLUMNS = 128
_LEVELS = 127.0
# Numbers count so much more than the keys at hand need, so that larger ones find room that come later.
_HEADROOM = 1.1
# So few columns take no more room as they are.
_FEW = _COLUMNS // 4
# Room grows by multiples of so many places, and by this part more than is asked for: growing copies everything.
_ROOM, _SPARE = 256, 4
# Half the squared length of a place without an entry, in whole numbers: more than any product can make good.
_NOWHERE = 1 << 29


class HeldKeys:
    """Nominates places by |k|^2 - 2 q k. Elsewhere than on a CPU keys are whole.

    On a CPU wide keys are rounded, all of a holder to multiples of one unit, and compared as whole numbers.
    """

    def __init__(self, holders: int, columns: int, device: torch.device) -> None:
        self.whole = device.type != "cpu" or columns <= _FEW
        self.columns = columns if self.whole else min(_COLUMNS, columns)
        dtype = torch.float32 if self.whole else torch.int8
        self._key_UMN = torch.zeros((holders, 0, self.columns), dtype=dtype, device=device)
        #: Squared lengths, infinite at places without an entry; half of them, in whole numbers, where keys are rounded.
        self._nowhere: float = torch.inf if self.whole else _NOWHERE
        self._norm_UM = torch.zeros((holders, 0), dtype=torch.float32 if self.whole else torch.int32, device=device)
        #: Of each holder whose keys are rounded: what its numbers count, and up to where there are entries.
        self._unit, self._end = [0.0] * holders, [0] * holders

    @property
    def room(self) -> int:
        return self._key_UMN.shape[1]

    def add(self, holders: int) -> None:
        """Some more holders, who have nothing yet."""
        self._key_UMN = pad(self._key_UMN, (0, 0, 0, 0, 0, holders))
        self._norm_UM = pad(self._norm_UM, (0, 0, 0, holders), value=self._nowhere)
        self._unit, self._end = [*self._unit, *[0.0] * holders], [*self._end, *[0] * holders]

    def grow(self, width: int) -> None:
        """Make room for so many places, and some more."""
        if width > self.room:
            more = -(-(width + width // _SPARE) // _ROOM) * _ROOM - self.room
            self._key_UMN = pad(self._key_UMN, (0, 0, 0, more))
            self._norm_UM = pad(self._norm_UM, (0, more), value=self._nowhere)

    def put(self, holder: int, start: int, key_XN: Tensor) -> None:
        """Keys for places from `start` on."""
        places = slice(start, start + len(key_XN))
        if self.whole:
            self._norm_UM[holder, places] = key_XN.square().sum(dim=1)
            self._key_UMN[holder, places] = key_XN
            return
        if not len(key_XN):
            return
        low, high = (float(bound) for bound in key_XN.aminmax())
        self._make_fit(holder, max(1e-30, high, -low))
        self._write(holder, start, key_XN)
        self._end[holder] = places.stop

    def _write(self, holder: int, start: int, key_XN: Tensor) -> None:
        """Keys as whole numbers."""
        places = slice(start, start + len(key_XN))
        number_XN = (key_XN * (1 / self._unit[holder])).round_()
        self._key_UMN[holder, places] = number_XN
        self._norm_UM[holder, places] = torch.linalg.vector_norm(number_XN, dim=1).square_().mul_(0.5)

    def _make_fit(self, holder: int, largest: float) -> None:
        """Let a holder have numbers for keys up to this size, if it has not."""
        if largest > _LEVELS * self._unit[holder]:
            self._coarsen(holder, _HEADROOM * largest / _LEVELS)

    def _coarsen(self, holder: int, unit: float) -> None:
        """Let the numbers of a holder count more than they do, if this is more."""
        old, end = self._unit[holder], self._end[holder]
        if unit > old:
            self._unit[holder] = unit
            self._scale(holder, end, old / unit)
            hidden_M = self._norm_UM[holder, :end] == _NOWHERE
            norm_M = (self._norm_UM[holder, :end] * (old / unit) ** 2).int()
            self._norm_UM[holder, :end] = norm_M.masked_fill_(hidden_M, _NOWHERE)

    def _scale(self, holder: int, end: int, factor: float) -> None:
        """Multiply the numbers of a holder."""
        self._key_UMN[holder, :end] = (self._key_UMN[holder, :end] * factor).round_()

    def cut(self, holder: int, end: int) -> None:
        """Forget the places from `end` on."""
        self._norm_UM[holder, end:] = self._nowhere
        if not end and not self.whole:
            self._unit[holder], self._end[holder] = 0.0, 0

    def select(self, holder_U: Tensor) -> None:
        """Holder i continues as what was holder `holder_U[i]`."""
        self._key_UMN, self._norm_UM = self._key_UMN[holder_U], self._norm_UM[holder_U]
        if not self.whole:
            holders = holder_U.tolist()
            self._unit, self._end = [self._unit[u] for u in holders], [self._end[u] for u in holders]

    def joined(self, hidden_1M: Tensor) -> HeldKeys:
        """The same keys as those of one holder, without the places that are hidden."""
        if not self.whole:
            for holder in range(len(self._unit)):
                self._coarsen(holder, max(self._unit))
        one = copy(self)
        one._key_UMN = self._key_UMN.flatten(0, 1)[None]
        one._norm_UM = self._norm_UM.view(1, -1).masked_fill(hidden_1M, self._nowhere)
        one._unit, one._end = [max(self._unit, default=0.0)], [one.room]
        return one

    def nominate(self, holders: list[int], query_GRN: Tensor, width: int, count: int) -> Tensor:
        """Up to `count` of the first `width` places of each holder that are likely to be nearest, [G, R, X]."""
        count = min(count, width)
        if self.whole:
            read = chosen(holders, len(self._norm_UM), self._norm_UM.device)
            key_GNM = self._key_UMN[read, :width].transpose(1, 2)
            squared_GRM = torch.baddbmm(self._norm_UM[read, None, :width], query_GRN, key_GNM, alpha=-2.0)
            return squared_GRM.topk(count, dim=-1, largest=False, sorted=False).indices
        unit_G11 = torch.tensor([max(self._unit[holder], 1e-30) for holder in holders])[:, None, None]
        number_GRN = (query_GRN / unit_G11).round_().clamp_(-_LEVELS, _LEVELS).to(torch.int8)
        # One holder after the other: each has as many as it has, and what is made of it stays in the processor's cache.
        found = []
        for holder, number_RN in zip(holders, number_GRN, strict=True):
            end = min(width, max(count, self._end[holder]))
            near_RM = torch._int_mm(number_RN, self._key_UMN[holder, :end].T).sub_(self._norm_UM[holder, :end])
            found.append(near_RM.topk(count, dim=-1, sorted=False).indices)
        return torch.stack(found)

    def at(self, holders: list[int], place_GRX: Tensor) -> Tensor:
        """The keys at some places, [G * R, X, N], where they are whole."""
        holder_G11 = on_device(holders, place_GRX.device)[:, None, None]
        return self._key_UMN[holder_G11, place_GRX].flatten(0, 1)


class KernelHeldKeys(HeldKeys):
    """The same on a CPU with kernels: of 16 places first 4 columns of each, then the next 4; each number plus 128."""

    _PLACES, _QUAD = 16, 4

    def __init__(self, holders: int, columns: int) -> None:
        super().__init__(holders, columns, torch.device("cpu"))
        assert not self.whole
        width = self.columns + -self.columns % self._QUAD
        self._key_UMN = torch.zeros((holders, 0, width), dtype=torch.uint8)

    def _write(self, holder: int, start: int, key_XN: Tensor) -> None:
        key_XN = self._filled(key_XN)
        nearest.hold(self._key_UMN[holder], self._norm_UM[holder], start, key_XN, self._unit[holder])

    def keep_chunks(
        self, holders: list[int], starts: list[int], rows: EntryRows, entry_SX: Tensor, chunk: int, entry_UM: Tensor,
        table_UT: Tensor,
    ) -> list[int]:  # fmt: skip
        """Put chunks that begin with these entries (-1: none) behind what holders have, and their keys with them.

        Returns how many entries are new. Tables tell what holders have already.
        """
        held = Held(
            address(table_UT), table_UT.shape[1], address(entry_UM), address(self._key_UMN), address(self._norm_UM),
            entry_UM.shape[1], self._key_UMN.shape[2],
        )  # fmt: skip
        units = [self._unit[holder] for holder in holders]
        fresh, larger = rows.keep_chunks(held, holders, starts, units, entry_SX, chunk, self.columns)
        for holder, start, count, largest in zip(holders, starts, fresh, larger, strict=True):
            if largest < 0:
                self._end[holder] = start + count
            else:
                self.put_entries(holder, start, rows, entry_UM[holder, start : start + count], largest)
        return fresh

    def put_entries(
        self, holder: int, start: int, rows: EntryRows, entry_X: Tensor, largest: float | None = None
    ) -> None:
        """What `put` does, for entries whose keys are read where they are; `largest` is their largest number."""
        if len(entry_X):
            largest = rows.keys.largest(entry_X, self.columns) if largest is None else largest
            self._make_fit(holder, max(1e-30, largest))
            rows.keys.hold(
                self._key_UMN[holder], self._norm_UM[holder], start, entry_X, self._unit[holder], self.columns
            )
            self._end[holder] = start + len(entry_X)

    def _scale(self, holder: int, end: int, factor: float) -> None:
        read = slice(0, end + -end % self._PLACES)
        number_MN = (self._key_UMN[holder, read].short() - 128) * factor
        self._key_UMN[holder, read] = number_MN.round_().add_(128).to(torch.uint8)

    def nominate(self, holders: list[int], query_GRN: Tensor, width: int, count: int) -> Tensor:
        return self.nominate_entries(holders, query_GRN, width, count, torch.arange(self.room).expand_as(self._norm_UM))

    def nominate_entries(
        self, holders: list[int], query_GRN: Tensor, width: int, count: int, entry_UM: Tensor
    ) -> Tensor:
        """What `nominate` does, and then what is held at these places."""
        count = min(count, width)
        # Those that hold less than is asked for name places without an entry, too.
        ends = [min(width, max(count, self._end[holder])) for holder in holders]
        units = [max(self._unit[holder], 1e-30) for holder in holders]
        query_GRN = self._filled(query_GRN)
        held = self._key_UMN, self._norm_UM, entry_UM.contiguous()
        return nearest.nominate(*held, holders, units, ends, query_GRN, count)[0]

    def held_by(self, holders: Sequence[int], entry_UM: Tensor, places: Sequence[int]) -> HeldRows:
        """What is held for sentences in some places of a batch."""
        units = [max(self._unit[holder], 1e-30) for holder in holders]
        ends = [self._end[holder] for holder in holders]
        return HeldRows(self._key_UMN, self._norm_UM, entry_UM, holders, units, ends, places)

    def _filled(self, key: Tensor) -> Tensor:
        """Columns filled up with zeros."""
        missing = self._key_UMN.shape[2] - key.shape[-1]
        return pad(key, (0, missing)) if missing else key


def held_keys(holders: int, columns: int, device: torch.device) -> HeldKeys:
    """The fastest kind that there is for keys of so many columns."""
    keys = HeldKeys(holders, columns, device)
    return keys if keys.whole or kernels() is None else KernelHeldKeys(holders, columns)
