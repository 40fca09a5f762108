"""The network of Adaptive kNN-MT, slow and obvious: plain loops in float64, written from its description.

From the distances of K neighbours and the number of different tokens among the first 1..K a hidden layer gives
a distribution over r in {0, 1, 2, 4, ..., K}; p = w_0 p_NMT + sum of w_r p_kNN(r), the latter over the r nearest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nearmt.methods.adaptive import Head

#: Where inputs stop to differ: 8 typical distances, e^-12.
FARTHEST, UNLIKELIEST = 8.0, -12.0


@dataclass(frozen=True)
class Neighbour:
    distance: float
    token: int
    count: float = 1.0


def sizes_of(k: int) -> list[int]:
    return sorted({0, k, *(2**power for power in range(20) if 2**power <= k)})


def inputs_of(neighbours: list[Neighbour], k: int, scale: float, log_prob_V: np.ndarray | None) -> list[float]:
    """Distances, counts of different tokens and, with confidence, what the model says of tokens and of its best."""
    missing = k - len(neighbours)
    distances = [min(n.distance / scale, FARTHEST) for n in neighbours] + [FARTHEST] * missing
    counts = [len({n.token for n in neighbours[: r + 1]}) / k for r in range(k)]
    if log_prob_V is None:
        return distances + counts
    spoken = [max(float(log_prob_V[n.token]), UNLIKELIEST) / -UNLIKELIEST for n in neighbours] + [-1.0] * missing
    return [*distances, *counts, *spoken, max(float(log_prob_V.max()), UNLIKELIEST) / -UNLIKELIEST]


def weights_of(head: Head, inputs: list[float]) -> list[float]:
    """w over the subset sizes: softmax(W2 tanh(W1 x + b1) + b2)."""
    parameters = {name: value.detach().double().numpy() for name, value in head.state_dict().items()}
    hidden = np.tanh(parameters["hidden.weight"] @ np.array(inputs) + parameters["hidden.bias"])
    score = parameters["output.weight"] @ hidden + parameters["output.bias"]
    share = np.exp(score - score.max())
    return list(share / share.sum())


def knn(neighbours: list[Neighbour], temperature: float, vocabulary: int) -> np.ndarray:
    """Equation 2; a neighbour that stands for several entries counts as often."""
    probability_V = np.zeros(vocabulary)
    nearest = min(n.distance for n in neighbours)
    for n in neighbours:
        probability_V[n.token] += n.count * math.exp(-(n.distance - nearest) / temperature)
    return np.asarray(probability_V / probability_V.sum())


def mixture(head: Head, neighbours: list[Neighbour], log_prob_V: np.ndarray, boost: float = 0.0) -> np.ndarray:
    """p(y) of one row; without neighbours, the model's."""
    probability_V = np.asarray(np.exp(log_prob_V))
    if not neighbours:
        return probability_V
    shape = head.shape
    inputs = inputs_of(neighbours, shape.k, shape.scale, log_prob_V if shape.confidence else None)
    weights = weights_of(head, inputs)
    temperature = math.exp(float(head.log_temperature))
    by_neighbours_V = np.zeros_like(probability_V)
    for size, weight in list(zip(sizes_of(shape.k), weights, strict=True))[1:]:
        by_neighbours_V += weight * knn(neighbours[:size], temperature, len(probability_V))
    odds = math.exp(boost) * (1 - weights[0]) / weights[0]
    return np.asarray((probability_V + odds * by_neighbours_V / (1 - weights[0])) / (1 + odds))
