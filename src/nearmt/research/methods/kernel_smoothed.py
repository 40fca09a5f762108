"""Kernel-smoothed kNN-MT, KSTER (Jiang et al. 2021): a learned bandwidth and mixing weight for every step.

Section 3.1, with q the query, k_j the keys of the neighbours, and the Laplacian kernel, the better of the paper's two:

p_kNN(y) = sum_j w_j [v_j = y], w_j proportional to exp(-|q - k_j| / h)
h = exp(W_1 [q; mean_j k_j] + b_1)
lambda = sigmoid(W_3 ReLU(W_2 [q; sum_j w_j k_j] + b_2) + b_3)

Queries and keys are those of the store, reduced by PCA, in units of a typical distance. The paper trains on the
datastore's own pairs and leaves out the nearest neighbour (retrieval dropout); here the pairs to learn from are not in
the datastore.
"""

from __future__ import annotations

from math import log
from typing import ClassVar

import torch
from torch import Tensor, nn

from nearmt.methods.adaptive import HeadShape
from nearmt.methods.networks import Network, Seen

#: The bandwidth of a fresh network, in units of a typical distance.
_BANDWIDTH = 0.3


class KernelHead(Network):
    """W_1 to W_3 and b_1 to b_3."""

    sees_keys: ClassVar[bool] = True

    def __init__(self, shape: HeadShape, temperature: float) -> None:
        super().__init__()
        self.shape = shape
        self.bandwidth = nn.Linear(2 * shape.columns, 1)
        self.hidden = nn.Linear(2 * shape.columns, shape.columns)
        self.output = nn.Linear(shape.columns, 1)
        with torch.no_grad():
            self.bandwidth.weight.zero_()
            self.bandwidth.bias.fill_(log(_BANDWIDTH))

    def weigh(self, seen: Seen) -> tuple[Tensor, Tensor]:
        assert seen.query_BD is not None and seen.key_BKD is not None
        unit, missing_BK = self.shape.scale**0.5, torch.isinf(seen.distance_BK)
        query_BD = seen.query_BD / unit
        key_BKD = (seen.key_BKD / unit).masked_fill(missing_BK[:, :, None], 0.0)
        mean_BD = key_BKD.sum(dim=1) / (~missing_BK).sum(dim=1, keepdim=True).clamp(min=1)
        bandwidth_B1 = self.bandwidth(torch.cat([query_BD, mean_BD], dim=1)).exp()
        score_BK = -seen.distance_BK.masked_fill(missing_BK, 0.0).sqrt() / unit / bandwidth_B1
        if seen.count_BK is not None:
            score_BK = score_BK + seen.count_BK.log()
        weight_BK = torch.softmax(score_BK.masked_fill(missing_BK, torch.finfo(score_BK.dtype).min), dim=1)
        smooth_BD = (weight_BK[:, :, None] * key_BKD).sum(dim=1)
        hidden_BD = torch.relu(self.hidden(torch.cat([query_BD, smooth_BD], dim=1)))
        share_B1 = torch.sigmoid(self.output(hidden_BD))
        return 1 - share_B1[:, 0], share_B1 * weight_BK

    def quick(self) -> list[nn.Parameter]:
        return [self.bandwidth.bias]

    def temperature(self) -> float:
        """The bandwidth where keys say nothing, on distances that are not squared."""
        return float(self.bandwidth.bias.detach().exp() * self.shape.scale**0.5)
