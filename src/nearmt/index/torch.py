"""Exact search in PyTorch, on the CPU or on a GPU: a matrix product and a top-k, block by block."""

from __future__ import annotations

import torch
from torch import Tensor

from nearmt.index.topk import RunningTop

# Entries converted to fp32 at a time: small on a CPU, where the block should stay in the cache.
BLOCK = {"cpu": 16_384, "cuda": 1_048_576}


class TorchIndex:
    """Searches the keys where they lie; the queries come to them."""

    def __init__(self, key_ND: Tensor) -> None:
        self._key_ND = key_ND
        self._block = BLOCK.get(key_ND.device.type, BLOCK["cpu"])

    def nominate(self, query_BD: Tensor, count: int, allowed_N: Tensor | None) -> Tensor:
        device = self._key_ND.device
        query = query_BD.to(device, torch.float32)
        top = RunningTop(len(query), count, device)
        for start in range(0, len(self._key_ND), self._block):
            block_ND = self._key_ND[start : start + self._block].float()
            squared_BN = torch.addmm(block_ND.square().sum(dim=1)[None, :], query, block_ND.T, alpha=-2.0)
            if allowed_N is not None:
                squared_BN.masked_fill_(~allowed_N[start : start + self._block].to(device), torch.inf)
            top.add(squared_BN, start)
        return top.entry_BK.to(query_BD.device)
