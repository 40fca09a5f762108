"""The neighbours' distribution (equation 2) and its mixture with the model's (equation 3)."""

from __future__ import annotations

import torch
from torch import Tensor

from nearmt.contracts import Evidence
from nearmt.timing import timed


def neighbour_weights(
    distance_BK: Tensor, temperature: float | Tensor, multiplicity_BK: Tensor | None = None
) -> Tensor:
    """Each neighbour's share of p_kNN: n_j exp(-d_j / T) / sum_i n_i exp(-d_i / T), equation 2.

    n is 1 unless a neighbour stands for several entries. A neighbour at infinite distance does not
    exist; a row without any has only zeros.
    """
    score_BK = -distance_BK / temperature
    if multiplicity_BK is not None:
        score_BK = score_BK + multiplicity_BK.log()
    weight_BK = torch.softmax(score_BK, dim=-1)
    return torch.where(torch.isinf(distance_BK), 0.0, weight_BK)


def mix(log_prob_BV: Tensor, evidence: Evidence) -> Tensor:
    """log((1 - lambda) p_NMT + lambda p_kNN), equation 3, with a lambda per row.

    Only the K tokens that neighbours speak for are touched, in log space, so a weight of 0 leaves
    the model's numbers exactly as they are and nothing of size [B, K, V] is made.
    """
    with timed("mix"):
        token_BK = evidence.token_BK
        # p_kNN of each neighbour's token: neighbours with the same token add up.
        same_BKK = token_BK[:, :, None] == token_BK[:, None, :]
        probability_BK = (same_BKK * evidence.weight_BK[:, None, :]).sum(dim=-1)
        share_B1 = evidence.share_B[:, None]
        mixed_BV = log_prob_BV + torch.log1p(-share_B1)
        spoken_BK = torch.logaddexp(mixed_BV.gather(1, token_BK), torch.log(share_B1 * probability_BK))
        return mixed_BV.scatter(1, token_BK, spoken_BK)
