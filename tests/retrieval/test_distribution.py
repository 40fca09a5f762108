"""Equations 2 and 3 by numbers worked out by hand, and what holds for all of them."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nearmt.contracts import Evidence, Origin, Scores
from nearmt.engines.reference.scoring import neighbour_weights
from nearmt.retrieval import distribution
from tests.methods.reference import equation_2, equation_3

INF = math.inf


def evidence_of(token_BK: list[list[int]], weight_BK: Tensor, share_B: list[float]) -> Evidence:
    """Evidence as a method makes it; entries play no part in the mixture."""
    token = torch.tensor(token_BK)
    origin_B = torch.full((len(token),), int(Origin.SEARCH))
    return Evidence(origin_B, torch.zeros_like(token), token, weight_BK, torch.tensor(share_B))


def mix(logits_BV: Tensor, evidence: Evidence) -> Tensor:
    """The mixture as log-probabilities."""
    return distribution.mix(Scores.of(logits_BV), evidence).log_probs()


def test_equation_2_by_hand() -> None:
    # exp(-2 ln 2 / 1) : exp(-ln 2 / 1) : exp(0) = 1/4 : 1/2 : 1
    distance_BK = torch.tensor([[2.0, 1.0, 0.0]]) * math.log(2)
    torch.testing.assert_close(neighbour_weights(distance_BK, 1.0), torch.tensor([[1.0, 2.0, 4.0]]) / 7)
    # Half of T squares the ratios: 1/16 : 1/4 : 1
    torch.testing.assert_close(neighbour_weights(distance_BK, 0.5), torch.tensor([[1.0, 4.0, 16.0]]) / 21)


def test_missing_neighbours_have_no_weight() -> None:
    distance_BK = torch.tensor([[0.0, math.log(3), INF], [5.0, INF, INF], [INF, INF, INF]])
    expected_BK = torch.tensor([[0.75, 0.25, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    torch.testing.assert_close(neighbour_weights(distance_BK, 1.0), expected_BK)


def test_far_neighbours_do_not_underflow_to_nothing() -> None:
    """Only differences of distances count."""
    distance_BK = torch.tensor([[1e4, 1e4 + 2 * math.log(4)]])
    torch.testing.assert_close(neighbour_weights(distance_BK, 2.0), torch.tensor([[0.8, 0.2]]), atol=2e-4, rtol=0)


def test_equation_3_by_hand() -> None:
    log_prob_BV = torch.tensor([[0.5, 0.3, 0.2, 0.0]]).log()
    # Tokens 1 and 3; token 1 twice: p_kNN = 0.75 for 1, 0.25 for 3.
    evidence = evidence_of([[1, 3, 1]], torch.tensor([[0.5, 0.25, 0.25]]), [0.4])
    expected_BV = torch.tensor([[0.30, 0.18 + 0.30, 0.12, 0.10]])
    torch.testing.assert_close(mix(log_prob_BV, evidence).exp(), expected_BV)


def test_every_row_has_its_own_weight() -> None:
    log_prob_BV = torch.tensor([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]).log()
    evidence = evidence_of([[0], [0], [0]], torch.tensor([[1.0], [1.0], [1.0]]), [0.0, 0.5, 1.0])
    mixed_BV = mix(log_prob_BV, evidence)
    torch.testing.assert_close(mixed_BV.exp(), torch.tensor([[0.5, 0.5], [0.75, 0.25], [1.0, 0.0]]))
    assert mixed_BV[2, 1] == -INF


def test_a_missing_neighbour_does_not_take_its_placeholder_token_away() -> None:
    """The second neighbour is missing and stands with token 0, for which the first one speaks."""
    log_prob_BV = torch.tensor([[0.2, 0.8]]).log()
    weight_BK = neighbour_weights(torch.tensor([[1.0, INF]]), 1.0)
    mixed_BV = mix(log_prob_BV, evidence_of([[0, 0]], weight_BK, [0.5]))
    torch.testing.assert_close(mixed_BV.exp(), torch.tensor([[0.6, 0.4]]))


def test_only_the_spoken_tokens_of_the_logits_change() -> None:
    scores = Scores.of(torch.randn(2, 9, generator=torch.Generator().manual_seed(0)))
    before_BV = scores.logits_BV.clone()
    evidence = evidence_of([[3, 5], [0, 0]], torch.tensor([[0.5, 0.5], [1.0, 0.0]]), [0.5, 0.25])
    mixed = distribution.mix(scores, evidence)
    assert mixed.logits_BV is scores.logits_BV
    assert (mixed.logits_BV != before_BV).nonzero().tolist() == [[0, 3], [0, 5], [1, 0]]


VOCABULARY = 7
distances = st.one_of(st.floats(0, 50, width=32), st.just(INF))
neighbours = st.lists(st.tuples(distances, st.integers(0, VOCABULARY - 1)), min_size=1, max_size=9)
logits = st.lists(st.floats(-20, 20, width=32), min_size=VOCABULARY, max_size=VOCABULARY)
temperatures = st.sampled_from([0.5, 1.0, 10.0, 100.0])
weights = st.floats(0, 1)


def mixed(logits_V: list[float], found: list[tuple[float, int]], temperature: float, weight: float) -> Tensor:
    """One row through both equations; a row without neighbours has no weight, as methods see to."""
    weight_BK = neighbour_weights(torch.tensor([[distance for distance, _ in found]]), temperature)
    present = any(distance < INF for distance, _ in found)
    evidence = evidence_of([[token for _, token in found]], weight_BK, [weight if present else 0.0])
    return mix(torch.tensor([logits_V]), evidence)[0]


@settings(deadline=None)
@given(found=neighbours, temperature=temperatures)
def test_weights_are_a_distribution_or_nothing(found: list[tuple[float, int]], temperature: float) -> None:
    distance_K = [distance for distance, _ in found]
    weight_K = neighbour_weights(torch.tensor([distance_K]), temperature)[0]
    assert weight_K.sum().item() == pytest.approx(1.0 if min(distance_K) < INF else 0.0, abs=1e-5)
    assert all(weight == 0 for weight, distance in zip(weight_K.tolist(), distance_K, strict=True) if distance == INF)
    # Nearer neighbours never weigh less.
    order = sorted(range(len(distance_K)), key=distance_K.__getitem__)
    ordered = [weight_K[place].item() for place in order]
    assert all(nearer >= farther - 1e-6 for nearer, farther in pairwise(ordered))


@settings(deadline=None)
@given(logits_V=logits, found=neighbours, temperature=temperatures, weight=weights)
def test_the_mixture_sums_to_one_and_is_what_the_reference_says(
    logits_V: list[float], found: list[tuple[float, int]], temperature: float, weight: float
) -> None:
    mixed_V = mixed(logits_V, found, temperature, weight).double().numpy()
    assert np.exp(mixed_V).sum() == pytest.approx(1.0, abs=1e-5)
    present = [(distance, place) for place, (distance, _) in enumerate(found) if distance < INF]
    model_V = torch.log_softmax(torch.tensor(logits_V, dtype=torch.float64), dim=-1).tolist()
    if present:
        model_V = equation_3(model_V, equation_2(present, [token for _, token in found], temperature), weight)
    np.testing.assert_allclose(np.exp(mixed_V), np.exp(model_V), rtol=0, atol=1e-5)


@settings(deadline=None)
@given(logits_V=logits, found=neighbours, temperature=temperatures)
def test_weight_0_leaves_every_bit(logits_V: list[float], found: list[tuple[float, int]], temperature: float) -> None:
    expected_V = Scores.of(torch.tensor([logits_V])).log_probs()[0]
    assert torch.equal(mixed(logits_V, found, temperature, 0.0), expected_V)


@settings(deadline=None)
@given(logits_V=logits, found=neighbours, temperature=temperatures)
def test_weight_1_leaves_only_the_neighbours_tokens(
    logits_V: list[float], found: list[tuple[float, int]], temperature: float
) -> None:
    found = [(0.0, 3), *found]
    spoken = {token for distance, token in found if distance < INF}
    mixed_V = mixed(logits_V, found, temperature, 1.0)
    assert not mixed_V.isnan().any()
    assert all(mixed_V[token] == -INF for token in range(VOCABULARY) if token not in spoken)
    assert mixed_V.exp().sum().item() == pytest.approx(1.0, abs=1e-5)


@settings(deadline=None)
@given(logits_V=logits, missing=st.integers(1, 5))
def test_a_row_without_neighbours_is_the_model(logits_V: list[float], missing: int) -> None:
    expected_V = Scores.of(torch.tensor([logits_V])).log_probs()[0]
    assert torch.equal(mixed(logits_V, [(INF, 2)] * missing, 1.0, 0.7), expected_V)
