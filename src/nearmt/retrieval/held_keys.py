"""The keys of cached entries, held so that those near a query are found by one small matrix product.

Shapes here: U holders, M places of a holder, N columns that nominate, G holders that are read, R rows of each.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nearmt.retrieval.rows import chosen, on_device

# On a CPU reading the keys takes the time: the most telling columns are held, as 8-bit numbers.
_COLUMNS = 128
_LEVELS = 127.0
# So few columns take no more room as they are.
_FEW = _COLUMNS // 4
# Room grows by so many places: growing copies everything.
_ROOM = 256


class HeldKeys:
    """Nominates places by |k|^2 - 2 q k. On a CPU wide keys are rounded; elsewhere they are whole."""

    def __init__(self, holders: int, columns: int, device: torch.device) -> None:
        self.whole = device.type != "cpu" or columns <= _FEW
        self.columns = columns if self.whole else min(_COLUMNS, columns)
        dtype = torch.float32 if self.whole else torch.int8
        self._key_UMN = torch.zeros((holders, 0, self.columns), dtype=dtype, device=device)
        #: Squared lengths, infinite at places without an entry, and the unit of the rounded keys.
        self._norm_UM = torch.zeros((holders, 0), device=device)
        self._unit_UM = torch.zeros((holders, 0), device=device)

    @property
    def room(self) -> int:
        return self._key_UMN.shape[1]

    def grow(self, width: int) -> None:
        """Make room for so many places, and some more."""
        more = -(-width // _ROOM) * _ROOM - self.room
        if more > 0:
            pad = torch.nn.functional.pad
            self._key_UMN = pad(self._key_UMN, (0, 0, 0, more))
            self._norm_UM = pad(self._norm_UM, (0, more), value=torch.inf)
            self._unit_UM = pad(self._unit_UM, (0, more))

    def put(self, holder: int, start: int, key_XN: Tensor) -> None:
        """Keys for places from `start` on."""
        places = slice(start, start + len(key_XN))
        self._norm_UM[holder, places] = key_XN.square().sum(dim=1)
        if not self.whole:
            key_XN, self._unit_UM[holder, places] = _rounded(key_XN)
        self._key_UMN[holder, places] = key_XN

    def cut(self, holder: int, end: int) -> None:
        """Forget the places from `end` on."""
        self._norm_UM[holder, end:] = torch.inf

    def select(self, holder_U: Tensor) -> None:
        """Holder i continues as what was holder `holder_U[i]`."""
        self._key_UMN, self._norm_UM = self._key_UMN[holder_U], self._norm_UM[holder_U]
        self._unit_UM = self._unit_UM[holder_U]

    def joined(self, hidden_1M: Tensor) -> HeldKeys:
        """The same keys as those of one holder, without the places that are hidden."""
        one = HeldKeys(1, self.columns, self._key_UMN.device)
        one._key_UMN = self._key_UMN.view(1, -1, self.columns)
        one._norm_UM = self._norm_UM.view(1, -1).masked_fill(hidden_1M, torch.inf)
        one._unit_UM = self._unit_UM.view(1, -1)
        return one

    def nominate(self, holders: list[int], query_GRN: Tensor, width: int, count: int) -> Tensor:
        """Up to `count` of the first `width` places of each holder that are likely to be nearest, [G, R, X]."""
        read = chosen(holders, len(self._norm_UM), self._norm_UM.device)
        norm_G1M = self._norm_UM[read, None, :width]
        if self.whole:
            key_GNM = self._key_UMN[read, :width].transpose(1, 2)
            squared_GRM = torch.baddbmm(norm_G1M, query_GRN, key_GNM, alpha=-2.0)
        else:
            code_GRN, unit_GR = _rounded(query_GRN)
            # One product a holder, as the keys are read where they are.
            products = [
                torch._int_mm(code_RN, self._key_UMN[holder, :width].T)
                for holder, code_RN in zip(holders, code_GRN, strict=True)
            ]
            squared_GRM = torch.stack(products).float()
            squared_GRM.mul_(unit_GR[:, :, None]).mul_(self._unit_UM[read, None, :width])
            squared_GRM = torch.sub(norm_G1M, squared_GRM, alpha=2.0)
        return squared_GRM.topk(min(count, width), dim=-1, largest=False, sorted=False).indices

    def at(self, holders: list[int], place_GRX: Tensor) -> Tensor:
        """The keys at some places, [G * R, X, N], where they are whole."""
        holder_G11 = on_device(holders, place_GRX.device)[:, None, None]
        return self._key_UMN[holder_G11, place_GRX].flatten(0, 1)


def _rounded(value: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors as 8-bit numbers, and the unit of each: what depends on no other vector."""
    unit = value.abs().amax(dim=-1).clamp_(min=1e-30).div_(_LEVELS)
    return (value / unit[..., None]).round_().to(torch.int8), unit
