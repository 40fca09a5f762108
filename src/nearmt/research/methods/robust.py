"""Robust kNN-MT (Jiang et al. 2022): the model's confidence corrects neighbours and their weight; trained with noise.

Section 4.1, with d_i the distances, r_i the number of different tokens among the first i neighbours, and p the model's:

p_kNN(y) = sum_i w_i [v_i = y], w_i proportional to exp(-d_i / T + c_i)
c_i = W_3 tanh(W_4 log p(v_i))                                    (distribution calibration)
lambda = exp(s_kNN) / (exp(s_kNN) + exp(s_NMT))                   (weight prediction)
s_kNN = W_1 h, 1 / T = sigmoid(W_5 h), h = tanh(W_2 [d; r])
s_NMT = W_6 [log p of its 8 likeliest tokens; log p(v_1), ..., log p(v_K)]

The paper gives W_4 and W_6 the model's probability of v_i at the stored state of the neighbour as well. A nearmt
datastore has reduced states, of which that is not known, so it is left out. 1 / T is at most 4 a typical distance.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from nearmt.methods.adaptive import FARTHEST, UNLIKELIEST, HeadShape, distinct_counts
from nearmt.methods.networks import Network, Seen

#: Sizes of the hidden layers, as in the paper.
_HIDDEN, _CALIBRATION = 32, 4
#: The highest 1 / T, in units of a typical distance.
_STEEPEST = 4.0


class RobustHead(Network):
    """W_1 to W_6 with their biases."""

    likeliest: ClassVar[int] = 8

    def __init__(self, shape: HeadShape, temperature: float) -> None:
        super().__init__()
        self.shape = shape
        self.hidden = nn.Linear(2 * shape.k, _HIDDEN)  # W_2
        self.output = nn.Linear(_HIDDEN, 2)  # W_1 and W_5
        self.calibration = nn.Sequential(nn.Linear(1, _CALIBRATION), nn.Tanh(), nn.Linear(_CALIBRATION, 1))  # W_4, W_3
        self.confidence = nn.Linear(self.likeliest + shape.k, 1)  # W_6

    def weigh(self, seen: Seen) -> tuple[Tensor, Tensor]:
        k, columns = self.shape.k, seen.distance_BK.shape[1]
        distance_BK, missing_BK = seen.distance_BK[:, :k], torch.isinf(seen.distance_BK[:, :k])
        near_BK = (distance_BK / self.shape.scale).clamp(max=FARTHEST)
        spoken_BK = torch.where(missing_BK, UNLIKELIEST, seen.spoken_BK[:, :k]).clamp(min=UNLIKELIEST) / -UNLIKELIEST
        likeliest_BR = seen.likeliest_BR[:, : self.likeliest].clamp(min=UNLIKELIEST) / -UNLIKELIEST
        # A vocabulary may have fewer tokens.
        likeliest_BR = nn.functional.pad(likeliest_BR, (0, self.likeliest - likeliest_BR.shape[1]), value=-1.0)
        counts_BK = distinct_counts(seen.token_BK[:, :k], ~missing_BK) / k
        said_B2 = self.output(torch.tanh(self.hidden(torch.cat([near_BK, counts_BK], dim=1))))
        trusted_B1 = self.confidence(torch.cat([likeliest_BR, spoken_BK], dim=1))
        share_B1 = torch.sigmoid(said_B2[:, :1] - trusted_B1)
        score_BK = self.calibration(spoken_BK[:, :, None])[:, :, 0]
        near_BK = distance_BK.masked_fill(missing_BK, 0.0) / self.shape.scale
        score_BK = score_BK - near_BK * _STEEPEST * torch.sigmoid(said_B2[:, 1:])
        if seen.count_BK is not None:
            score_BK = score_BK + seen.count_BK[:, :k].log()
        weight_BK = torch.softmax(score_BK.masked_fill(missing_BK, torch.finfo(score_BK.dtype).min), dim=1)
        return 1 - share_B1[:, 0], nn.functional.pad(share_B1 * weight_BK, (0, columns - k))

    def quick(self) -> list[nn.Parameter]:
        return []

    def temperature(self) -> float:
        """T where distances and tokens say nothing."""
        steepness = _STEEPEST * torch.sigmoid(self.output.bias.detach()[1])
        return float(self.shape.scale / steepness)
