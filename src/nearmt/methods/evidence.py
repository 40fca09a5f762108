"""Putting together what neighbours say at one step."""

from __future__ import annotations

import torch
from torch import Tensor

from nearmt.contracts import Evidence, Neighbours, Origin, Step
from nearmt.retrieval.distribution import mix, neighbour_weights
from nearmt.retrieval.source import EntrySource


def no_evidence(rows: int, k: int, device: torch.device) -> Evidence:
    """The model alone, for every row."""
    return Evidence(
        origin_B=torch.full((rows,), int(Origin.MODEL), device=device),
        entry_BK=torch.full((rows, k), -1, device=device),
        token_BK=torch.zeros((rows, k), dtype=torch.long, device=device),
        weight_BK=torch.zeros((rows, k), device=device),
        share_B=torch.zeros(rows, device=device),
    )


def add_evidence(
    evidence: Evidence,
    row_R: Tensor,
    origin: Origin,
    neighbours: Neighbours,
    store: EntrySource,
    temperature: float,
    share: float,
) -> None:
    """Let neighbours speak for some rows; a row without any keeps to the model."""
    weight_RK = neighbour_weights(neighbours.distance_BK, temperature)
    present_R = (neighbours.entry_BK >= 0).any(dim=1)
    evidence.origin_B[row_R] = torch.where(present_R, int(origin), int(Origin.MODEL))
    evidence.entry_BK[row_R] = neighbours.entry_BK
    evidence.token_BK[row_R] = store.tokens(neighbours.entry_BK)
    evidence.weight_BK[row_R] = weight_RK
    evidence.share_B[row_R] = torch.where(present_R, share, 0.0)


def mixed_log_probs(step: Step, evidence: Evidence) -> Tensor:
    """log p(y_t | y_<t, x) of equation 3."""
    return mix(torch.log_softmax(step.logits_BV, dim=-1), evidence)
