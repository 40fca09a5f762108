"""Exact search in PyTorch, on the CPU or on a GPU: a matrix product and a top-k, block by block."""

from __future__ import annotations

import torch
from torch import Tensor

from nearmt.index.products import fast_products
from nearmt.index.topk import RunningTop

# Entries converted to fp32 at a time: small on a CPU, where the block should stay in the cache.
BLOCK = {"cpu": 16_384, "cuda": 1_048_576}
# On a GPU products are rounded: so many more are nominated that none of the nearest is missed for that.
_SPARE = {"cpu": 0, "cuda": 16}
# So few keys are kept as fp32 on a CPU: converting them would take a good part of every search.
_SMALL = 16_384


class TorchIndex:
    """Searches the keys where they lie; the queries come to them."""

    def __init__(self, key_ND: Tensor) -> None:
        self._key_ND = key_ND
        self._block = BLOCK.get(key_ND.device.type, BLOCK["cpu"])
        self._spare = _SPARE.get(key_ND.device.type, 0)
        #: Squared lengths of the keys by the start of their block, as far as they have been needed.
        self._norms: dict[int, Tensor] = {}
        self._whole_ND: Tensor | None = None

    def nominate(self, query_BD: Tensor, count: int, allowed_N: Tensor | None) -> Tensor:
        device = self._key_ND.device
        query = query_BD.to(device, torch.float32)
        top = RunningTop(len(query), count + self._spare, device)
        for start in range(0, len(self._key_ND), self._block):
            block_ND = self._keys(start)
            if start not in self._norms:
                self._norms[start] = block_ND.square().sum(dim=1)
            with fast_products(device):
                squared_BN = torch.addmm(self._norms[start][None, :], query, block_ND.T, alpha=-2.0)
            if allowed_N is not None:
                squared_BN.masked_fill_(~allowed_N[start : start + self._block].to(device), torch.inf)
            top.add(squared_BN, start)
        return top.entry_BK.to(query_BD.device)

    def _keys(self, start: int) -> Tensor:
        """A block as fp32."""
        if self._key_ND.is_cuda or len(self._key_ND) > _SMALL:
            return self._key_ND[start : start + self._block].float()
        if self._whole_ND is None:
            self._whole_ND = self._key_ND.float()
        return self._whole_ND[start : start + self._block]
