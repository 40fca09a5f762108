"""How many of the true neighbours an index finds, and the setting at which it finds enough."""

from __future__ import annotations

import torch
from torch import Tensor

from nearmt.index import TorchIndex
from nearmt.index.faiss import FaissIndex

QUERIES = 256
NEIGHBOURS = 8
#: Recall at which a more thorough (slower) setting of an index is no longer tried.
GOOD_RECALL = 0.98


def tune_recall(index: FaissIndex, key_ND: Tensor) -> float:
    """Choose the fastest setting of an index with good recall@k against exact search; return that recall."""
    query_QD = key_ND[sample(len(key_ND), QUERIES)].float()
    exact = TorchIndex(key_ND).nominate(query_QD, NEIGHBOURS, None)
    recall = 0.0
    for effort in index.efforts or [index.effort]:
        index.effort = effort
        recall = _recall(index.nominate(query_QD, NEIGHBOURS, None), exact, query_QD, key_ND)
        if recall >= GOOD_RECALL:
            break
    return recall


def _recall(nominated_QX: Tensor, exact_QK: Tensor, query_QD: Tensor, key_ND: Tensor) -> float:
    """Share of nominees among the k nearest that are no farther than the exact ones (ties count as found)."""

    def distances(entry: Tensor) -> Tensor:
        squared = (key_ND[entry.clamp(min=0)].float() - query_QD[:, None]).square().sum(dim=-1)
        return squared.masked_fill(entry < 0, torch.inf).sort(dim=1).values[:, : exact_QK.shape[1]]

    bound_Q1 = distances(exact_QK)[:, -1:] * (1 + 1e-5) + 1e-6
    return float((distances(nominated_QX) <= bound_Q1).float().mean())


def sample(count: int, size: int, seed: int = 0) -> Tensor:
    """Up to `size` different numbers below `count`, the same ones every time, ascending."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(count, generator=generator)[:size].sort().values
