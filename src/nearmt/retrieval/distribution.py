"""The neighbours' distribution (equation 2) and its mixture with the model's (equation 3)."""

from __future__ import annotations

import torch
from torch import Tensor

from nearmt.contracts import Evidence, Scores
from nearmt.engines.cpu import scores as native
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


def mix(scores: Scores, evidence: Evidence) -> Scores:
    """log((1 - lambda) p_NMT + lambda p_kNN), equation 3, with a lambda per row; the logits change in place.

    Only the K tokens that neighbours speak for are touched, in log space, so a weight of 0 leaves
    the model's numbers exactly as they are and nothing of the size of the vocabulary is made.
    """
    with timed("mix"):
        logits_BV, token_BK = scores.logits_BV, evidence.token_BK
        if native.serves(logits_BV):
            spoken = token_BK, evidence.weight_BK, evidence.share_B
            return Scores(logits_BV, native.mix(logits_BV, scores.offset_B, *spoken))
        # p_kNN of each neighbour's token: neighbours with the same token add up.
        same_BKK = token_BK[:, :, None] == token_BK[:, None, :]
        probability_BK = (same_BKK * evidence.weight_BK[:, None, :]).sum(dim=-1)
        share_B = evidence.share_B
        offset_B = scores.offset_B + torch.log1p(-share_B)
        whole_B = share_B == 1
        # On a GPU an unneeded pass is cheaper than to wait for the answer.
        if whole_B.is_cuda or bool(whole_B.any()):
            # Nothing is left to the model: log 0, which no offset can say.
            scores.logits_BV.masked_fill_(whole_B[:, None], -torch.inf)
            offset_B = offset_B.masked_fill(whole_B, 0.0)
        added_BK = torch.log(share_B[:, None] * probability_BK) - offset_B[:, None]
        spoken_BK = torch.logaddexp(scores.logits_BV.gather(1, token_BK), added_BK)
        scores.logits_BV.scatter_(1, token_BK, spoken_BK)
        return Scores(scores.logits_BV, offset_B)
