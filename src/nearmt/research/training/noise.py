"""Noise in retrieved neighbours, for the training of Robust kNN-MT (Jiang et al. 2022, section 4.2).

At a share of the steps, which falls with the updates u as exp(-u / beta):
- the keys of all neighbours get Gaussian noise;
- where no neighbour has the right token, the farthest becomes a neighbour that has: the query with noise as its key.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from nearmt.research.training.trace import Trace

#: Typical length of the noise, in shares of a typical distance (not squared): about that of the paper.
_LENGTH = 0.03
#: The updates after which noise is at 1 / e of the steps, in shares of all updates: 1,000 of 5,000 in the paper.
_DECAY = 0.2


def noise_rate(update: int, updates: int) -> float:
    """The share of steps that get noise."""
    return math.exp(-update / (_DECAY * updates))


def with_noise(trace: Trace, rate: float, scale: float, columns: int) -> Trace:
    """A trace of searches with noise in a share of its steps; `scale` is a typical squared distance."""
    deviation = _LENGTH * (scale / columns) ** 0.5
    noisy_X1, replaced_X = _some(trace, rate)[:, None], _some(trace, rate)
    distance_XK = torch.where(noisy_X1, _moved(trace.distance_XK, deviation, columns), trace.distance_XK)
    there_XK = ~torch.isinf(distance_XK)
    known_X = (there_XK & (trace.token_XK == trace.gold_X[:, None])).any(dim=1)
    place_X = (there_XK.sum(dim=1) - 1).clamp(min=0)  # of the farthest
    last_XK = torch.arange(distance_XK.shape[1], device=place_X.device) == place_X[:, None]
    put_XK = last_XK & (replaced_X & ~known_X)[:, None]
    distance_XK = torch.where(put_XK, _moved(torch.zeros_like(distance_XK), deviation, columns), distance_XK)
    distance_XK, order_XK = distance_XK.sort(dim=1)
    return replace(
        trace,
        distance_XK=distance_XK,
        token_XK=torch.where(put_XK, trace.gold_X[:, None], trace.token_XK).gather(1, order_XK),
        log_prob_XK=torch.where(put_XK, trace.gold_log_prob_X[:, None], trace.log_prob_XK).gather(1, order_XK),
        count_XK=torch.where(put_XK, 1.0, trace.count_XK).gather(1, order_XK),
        entry_XK=trace.entry_XK.masked_fill(put_XK, -1).gather(1, order_XK),
    )


def _some(trace: Trace, rate: float) -> Tensor:
    """Which steps get one kind of noise, [X]."""
    return torch.rand(len(trace), device=trace.gold_X.device) < rate


def _moved(distance_XK: Tensor, deviation: float, columns: int) -> Tensor:
    """|k - q + e|^2 for Gaussian noise e: along k - q it adds to the distance, across it to its square."""
    along_XK = distance_XK.sqrt() + deviation * torch.randn_like(distance_XK)
    across = deviation**2 * max(0, columns - 1)  # the mean: it hardly varies where there are many columns
    return along_XK.square() + across
