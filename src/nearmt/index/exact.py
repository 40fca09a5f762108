"""Exact search in numpy: what all others are compared with."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from nearmt.engines.reference.topk import RunningTop

BLOCK = 65_536


class ExactIndex:
    """Compares every query with every key, block by block."""

    complete, lists, scan = True, None, None

    def __init__(self, key_ND: np.ndarray) -> None:
        self._key_ND = key_ND

    def nominate(self, query_BD: Tensor, count: int, allowed_N: Tensor | None) -> Tensor:
        query = query_BD.detach().cpu().numpy().astype(np.float32)
        top = RunningTop(len(query), count, torch.device("cpu"))
        for start in range(0, len(self._key_ND), BLOCK):
            block = self._key_ND[start : start + BLOCK].astype(np.float32)
            squared = (block**2).sum(axis=1)[None, :] - 2.0 * query @ block.T
            if allowed_N is not None:
                squared[:, ~allowed_N[start : start + BLOCK].cpu().numpy()] = np.inf
            top.add(torch.from_numpy(squared), start)
        return top.entry_BK.to(query_BD.device)
