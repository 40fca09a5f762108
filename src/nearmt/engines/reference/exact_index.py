"""Exact search in PyTorch, on the CPU or on a GPU: a matrix product and a top-k, block by block."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nearmt.engines.base import KeyScan, Top
from nearmt.engines.reference.products import fast_products
from nearmt.engines.reference.topk import RunningTop

# Entries converted to fp32 at a time: small on a CPU, where the block should stay in the cache.
BLOCK = {"cpu": 16_384, "cuda": 1_048_576}
# Additional candidates on a GPU, where products are rounded, so that rounding loses none of the nearest.
_SPARE = {"cpu": 0, "cuda": 16}
# At most this many keys are kept as fp32 on a CPU: converting them would take a good part of every search.
SMALL = 16_384


class TorchIndex:
    """Searches the keys where they lie; queries are moved to their device."""

    complete, lists = True, None

    def __init__(self, key_ND: Tensor) -> None:
        self._key_ND = key_ND
        self._block = BLOCK.get(key_ND.device.type, BLOCK["cpu"])
        #: Squared lengths of the keys by the start of their block, computed at the first search.
        self._norms: dict[int, Tensor] = {}
        self._whole_ND: Tensor | None = None

    @property
    def scan(self) -> KeyScan:
        return self

    @property
    def device(self) -> torch.device:
        return self._key_ND.device

    @property
    def spare(self) -> int:
        return _SPARE.get(self.device.type, 0)

    def nominate(self, query_BD: Tensor, count: int, allowed_N: Tensor | None) -> Tensor:
        return nominate_by_scans([(self, 0, allowed_N)], query_BD, count)

    def add_to(self, top: Top, query_BD: Tensor, first: int, allowed_N: Tensor | None) -> None:
        for start in range(0, len(self._key_ND), self._block):
            squared_BN = self._squared(query_BD, start)
            if allowed_N is not None:
                squared_BN.masked_fill_(~allowed_N[start : start + self._block].to(self.device), torch.inf)
            top.add(squared_BN, first + start)

    def _squared(self, query_BD: Tensor, start: int) -> Tensor:
        """Squared distances to the keys of a block, less the squared length of each query."""
        block_ND = self._keys(start)
        with fast_products(self._key_ND.device):
            return torch.addmm(self._norm(start, block_ND)[None, :], query_BD, block_ND.T, alpha=-2.0)

    def _norm(self, start: int, block_ND: Tensor) -> Tensor:
        if start not in self._norms:
            self._norms[start] = block_ND.float().square().sum(dim=1)
        return self._norms[start]

    def _keys(self, start: int) -> Tensor:
        """A block as fp32."""
        if self._key_ND.is_cuda or len(self._key_ND) > SMALL:
            return self._key_ND[start : start + self._block].float()
        if self._whole_ND is None:
            self._whole_ND = self._key_ND.float()
        return self._whole_ND[start : start + self._block]


def nominate_by_scans(scans: Sequence[tuple[KeyScan, int, Tensor | None]], query_BD: Tensor, count: int) -> Tensor:
    """What one index of all keys would nominate: scans on one device, the numbers of their first entries, and which of
    their entries are allowed."""
    first, _, _ = scans[0]
    query = query_BD.to(first.device, torch.float32)
    top = RunningTop(len(query), count + first.spare, first.device)
    for scan, start, allowed_N in scans:
        scan.add_to(top, query, start, allowed_N)
    return top.entry_BK.to(query_BD.device)
