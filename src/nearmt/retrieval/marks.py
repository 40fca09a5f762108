"""Which entries each holder of a cache has, on a CPU with kernels: tables of hashes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from nearmt.engines.cpu.nearest import mark

# Places of a table at first. At least half of them stay free.
_PLACES = 1024


class Marks:
    """Tables of all holders, equally large: [U, T], T a power of two."""

    def __init__(self, holders: int) -> None:
        self._table_UT = torch.zeros(holders, _PLACES, dtype=torch.int32)

    def add(self, holders: int) -> None:
        """Some more holders, who have nothing yet."""
        self._table_UT = pad(self._table_UT, (0, 0, 0, holders))

    def select(self, holder_U: Tensor) -> None:
        """Holder i continues as what was holder `holder_U[i]`."""
        self._table_UT = self._table_UT[holder_U]

    def make_room(self, held_UM: Tensor, most: int) -> None:
        """Let tables take `most` entries each; `held_UM` is what holders have (-1: none)."""
        places = self._table_UT.shape[1]
        if 2 * most <= places:
            return
        self._table_UT = torch.zeros(len(held_UM), 1 << (2 * most - 1).bit_length(), dtype=torch.int32)
        for table_T, held_M in zip(self._table_UT, held_UM, strict=True):
            mark(table_T, held_M)

    def fresh(self, holder: int, entry_X: Tensor) -> Tensor:
        """Those of some entries (-1: none) that a holder does not have yet, each once; now it has them."""
        return mark(self._table_UT[holder], entry_X)

    def tables(self) -> Tensor:
        """As kernels read and write them."""
        return self._table_UT

    def forget(self, holder: int, kept_M: Tensor) -> None:
        """A holder has nothing but these."""
        self._table_UT[holder].zero_()
        mark(self._table_UT[holder], kept_M)
