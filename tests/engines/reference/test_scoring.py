"""Equation 2 by numbers worked out by hand, and the rule for ends against a loop over rows and neighbours."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from nearmt.contracts import Evidence, Origin, Scores
from nearmt.engines.base import EndRule, Mixing, Retrieved
from nearmt.engines.reference.scoring import ReferenceScoring, apply_end_rule, evidence_of, neighbour_weights
from tests.engines.test_scoring import WHOLE, hardly_any_end, random_logits

INF = math.inf
SCORING = ReferenceScoring()

# Equation 2.


def test_equation_2_by_hand() -> None:
    # exp(-2 ln 2 / 1) : exp(-ln 2 / 1) : exp(0) = 1/4 : 1/2 : 1
    distance_BK = torch.tensor([[2.0, 1.0, 0.0]]) * math.log(2)
    torch.testing.assert_close(neighbour_weights(distance_BK, 1.0), torch.tensor([[1.0, 2.0, 4.0]]) / 7)
    # Half of T squares the ratios: 1/16 : 1/4 : 1
    torch.testing.assert_close(neighbour_weights(distance_BK, 0.5), torch.tensor([[1.0, 4.0, 16.0]]) / 21)


def test_a_neighbour_may_stand_for_several_entries() -> None:
    distance_BK, count_BK = torch.tensor([[2.0, 1.0, 0.0]]) * math.log(2), torch.tensor([[8.0, 1.0, 0.5]])
    torch.testing.assert_close(neighbour_weights(distance_BK, 1.0, count_BK), torch.tensor([[4.0, 1.0, 1.0]]) / 6)


def test_missing_neighbours_have_no_weight() -> None:
    distance_BK = torch.tensor([[0.0, math.log(3), INF], [5.0, INF, INF], [INF, INF, INF]])
    expected_BK = torch.tensor([[0.75, 0.25, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    torch.testing.assert_close(neighbour_weights(distance_BK, 1.0), expected_BK)


def test_far_neighbours_do_not_underflow_to_nothing() -> None:
    """Only differences of distances count."""
    distance_BK = torch.tensor([[1e4, 1e4 + 2 * math.log(4)]])
    torch.testing.assert_close(neighbour_weights(distance_BK, 2.0), torch.tensor([[0.8, 0.2]]), atol=2e-4, rtol=0)


distances = st.one_of(st.floats(0, 50, width=32), st.just(INF))


@given(distance_K=st.lists(distances, min_size=1, max_size=9), temperature=st.sampled_from([0.5, 1.0, 10.0, 100.0]))
def test_weights_are_a_distribution_or_nothing(distance_K: list[float], temperature: float) -> None:
    weight_K = neighbour_weights(torch.tensor([distance_K]), temperature)[0]
    assert weight_K.sum().item() == pytest.approx(1.0 if min(distance_K) < INF else 0.0, abs=1e-5)
    assert all(weight == 0 for weight, distance in zip(weight_K.tolist(), distance_K, strict=True) if distance == INF)
    # Nearer neighbours never weigh less.
    order = sorted(range(len(distance_K)), key=distance_K.__getitem__)
    ordered = [weight_K[number].item() for number in order]
    assert all(nearer >= farther - 1e-6 for nearer, farther in pairwise(ordered))


def test_searches_and_the_cache_have_weights_and_temperatures_of_their_own() -> None:
    found = Retrieved(
        torch.tensor([int(Origin.SEARCH), int(Origin.CACHE), int(Origin.SEARCH)]),
        torch.tensor([[4, 7], [4, 7], [-1, -1]]),
        torch.tensor([[0.0, math.log(2)], [0.0, math.log(2)], [INF, INF]]),
    )
    token_BK = torch.tensor([[1, 2], [1, 2], [0, 0]])
    evidence = evidence_of(found, token_BK, None, Mixing(0.6, 1.0, 0.3, 0.5))
    assert evidence.origin_B.tolist() == [int(Origin.SEARCH), int(Origin.CACHE), int(Origin.MODEL)]
    torch.testing.assert_close(evidence.share_B, torch.tensor([0.6, 0.3, 0.0]))
    torch.testing.assert_close(evidence.weight_BK, torch.tensor([[2 / 3, 1 / 3], [0.8, 0.2], [0.0, 0.0]]))
    assert torch.equal(evidence.token_BK, token_BK) and torch.equal(evidence.entry_BK, found.entry_BK)


# The rule for ends.

VOCABULARY = 7
RULE = EndRule(search=9.0, cache=3.0, likely=2.0)  # an end is never this likely
#: The origin of a row, and distance and token of each neighbour; those at infinity are padding.
Row = tuple[Origin, list[tuple[float, int]]]


def retrieved(rows: list[Row], k: int) -> Retrieved:
    """Rows of k columns, padded behind their neighbours."""
    found = Retrieved.nothing(len(rows), k, torch.device("cpu"))
    for row, (origin, neighbours) in enumerate(rows):
        found.asked_B[row] = int(origin)
        for number, (distance, _) in enumerate(neighbours):
            found.distance_BK[row, number] = distance
            found.entry_BK[row, number] = -1 if distance == INF else number
    return found


def made_evidence(rows: list[Row], found: Retrieved, temperature: float, share: float) -> Evidence:
    """As a mixer makes it; padding has the token 0, which ends sentences in these tests."""
    token_BK = torch.zeros_like(found.entry_BK)
    for row, (_, neighbours) in enumerate(rows):
        for number, (distance, token) in enumerate(neighbours):
            token_BK[row, number] = 0 if distance == INF else token
    return evidence_of(found, token_BK, None, Mixing(share, temperature, share, temperature))


def even(found: Retrieved) -> Scores:
    """A model that finds all tokens equally likely."""
    return SCORING.normalise(torch.zeros(len(found.asked_B), VOCABULARY))


def copied(evidence: Evidence) -> Evidence:
    parts = evidence.origin_B, evidence.entry_BK, evidence.token_BK, evidence.weight_BK, evidence.share_B
    return Evidence(*(part.clone() for part in parts))


def by_loop(evidence: Evidence, found: Retrieved, ends: list[int]) -> tuple[list[list[float]], list[float]]:
    """Weights and shares, neighbour by neighbour."""
    weights: list[list[float]] = []
    shares: list[float] = []
    for row, asked in enumerate(found.asked_B.tolist()):
        radius = RULE.search if asked == int(Origin.SEARCH) else RULE.cache
        kept = []
        for number, weight in enumerate(evidence.weight_BK[row].tolist()):
            is_end = int(evidence.token_BK[row, number]) in ends
            kept.append(0.0 if is_end and float(found.distance_BK[row, number]) > radius else weight)
        lost = sum(evidence.weight_BK[row].tolist()) - sum(kept)
        shares.append(float(evidence.share_B[row]) * (1.0 - lost))
        weights.append([weight / sum(kept) if sum(kept) else 0.0 for weight in kept])
    return weights, shares


K = 6
some_distances = st.one_of(st.floats(0, 12, width=32), st.just(INF))
rows_of_neighbours = st.lists(
    st.tuples(
        st.sampled_from([Origin.SEARCH, Origin.CACHE]),
        st.lists(st.tuples(some_distances, st.integers(0, VOCABULARY - 1)), max_size=K),
    ),
    min_size=1,
    max_size=5,
)
some_ends = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=3, unique=True)
shares = st.sampled_from([0.0, 0.3, 0.7, 1.0])


@given(rows=rows_of_neighbours, ends=some_ends, share=shares, temperature=st.sampled_from([0.5, 4.0]))
def test_the_rule_is_what_a_loop_says(rows: list[Row], ends: list[int], share: float, temperature: float) -> None:
    found = retrieved(rows, K)
    evidence = made_evidence(rows, found, temperature, share)
    weights, expected_shares = by_loop(evidence, found, ends)
    apply_end_rule(evidence, found, even(found), RULE, ends)
    torch.testing.assert_close(evidence.weight_BK, torch.tensor(weights), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(evidence.share_B, torch.tensor(expected_shares), rtol=1e-5, atol=1e-6)


@given(
    rows=rows_of_neighbours,
    ends=some_ends,
    share=shares,
    logits=st.lists(st.floats(-9, 9, width=32), min_size=VOCABULARY, max_size=VOCABULARY),
)
def test_the_mixture_is_a_distribution_without_far_ends(
    rows: list[Row], ends: list[int], share: float, logits: list[float]
) -> None:
    """All other neighbours have of lambda what they had before; the rest is the model's."""
    found = retrieved(rows, K)
    evidence = made_evidence(rows, found, 4.0, share)
    before = copied(evidence)
    apply_end_rule(evidence, found, even(found), RULE, ends)
    scores = SCORING.normalise(torch.tensor([logits] * len(rows)))
    model_BV = scores.log_probs().exp()
    mixed_BV = SCORING.mix(scores, evidence).log_probs().exp()
    torch.testing.assert_close(mixed_BV.sum(dim=1), torch.ones(len(rows)))
    expected_BV = (1.0 - evidence.share_B[:, None]) * model_BV
    for row, (origin, neighbours) in enumerate(rows):
        radius = RULE.search if origin == Origin.SEARCH else RULE.cache
        for number, (distance, token) in enumerate(neighbours):
            if distance <= radius or (distance < INF and token not in ends):
                expected_BV[row, token] += before.share_B[row] * before.weight_BK[row, number]
    torch.testing.assert_close(mixed_BV, expected_BV, rtol=1e-4, atol=1e-6)


def test_the_rule_by_hand() -> None:
    """A half and a quarter end the sentence; the nearer one may, at the radius of a search."""
    two = math.log(2)
    rows: list[Row] = [(Origin.SEARCH, [(9.0, 0), (9.0 + two, 5)]), (Origin.SEARCH, [(9.5, 0), (9.5 + two, 5)])]
    rows.append((Origin.CACHE, [(3.0, 0), (3.0 + two, 0), (3.0 + two, 5)]))
    found = retrieved(rows, 3)
    evidence = made_evidence(rows, found, 1.0, 0.6)
    apply_end_rule(evidence, found, even(found), RULE, [0])
    expected_BK = torch.tensor([[2 / 3, 1 / 3, 0.0], [0.0, 1.0, 0.0], [2 / 3, 0.0, 1 / 3]])
    torch.testing.assert_close(evidence.weight_BK, expected_BK)
    torch.testing.assert_close(evidence.share_B, torch.tensor([0.6, 0.2, 0.45]))


@pytest.mark.parametrize("origin", [Origin.SEARCH, Origin.CACHE])
def test_searches_and_the_cache_have_radii_of_their_own(origin: Origin) -> None:
    rows: list[Row] = [(origin, [(5.0, 0), (5.0, 1)])]
    found = retrieved(rows, 2)
    evidence = made_evidence(rows, found, 1.0, 1.0)
    apply_end_rule(evidence, found, even(found), RULE, [0])
    assert evidence.share_B.tolist() == [1.0 if origin == Origin.SEARCH else 0.5]
    assert evidence.weight_BK.tolist() == [[0.5, 0.5] if origin == Origin.SEARCH else [0.0, 1.0]]


@pytest.mark.parametrize(("ends", "likely"), [([0], False), ([0, 1], True)])
def test_where_the_model_finds_an_end_likely_all_neighbours_count(ends: list[int], likely: bool) -> None:
    """One seventh for one token, two for both."""
    rows: list[Row] = [(Origin.SEARCH, [(20.0, 0), (20.0, 5)])]
    found = retrieved(rows, 2)
    evidence = made_evidence(rows, found, 1.0, 0.6)
    apply_end_rule(evidence, found, even(found), EndRule(search=9.0, cache=3.0, likely=0.2), ends)
    assert evidence.share_B.tolist() == pytest.approx([0.6 if likely else 0.3])
    assert evidence.weight_BK.tolist() == [[0.5, 0.5] if likely else [0.0, 1.0]]


@given(rows=rows_of_neighbours, share=shares)
def test_rows_without_dropped_neighbours_keep_every_bit(rows: list[Row], share: float) -> None:
    """Also where other rows lose some, and where the token of padding ends sentences."""
    found = retrieved(rows, K)
    evidence = made_evidence(rows, found, 4.0, share)
    before = copied(evidence)
    apply_end_rule(evidence, found, even(found), RULE, [0])
    for row, (origin, neighbours) in enumerate(rows):
        radius = RULE.search if origin == Origin.SEARCH else RULE.cache
        if not any(token == 0 and radius < distance < INF for distance, token in neighbours):
            assert torch.equal(evidence.weight_BK[row], before.weight_BK[row])
            assert torch.equal(evidence.share_B[row], before.share_B[row])
    assert torch.equal(evidence.token_BK, before.token_BK) and torch.equal(evidence.origin_B, before.origin_B)


def log_probs_of(logits_BV: Tensor, evidence: Evidence) -> Tensor:
    return SCORING.mix(SCORING.normalise(logits_BV), evidence).log_probs()


@pytest.mark.parametrize("share", [0.3, 1.0])
@pytest.mark.parametrize("ends", [[2], [2, 4]])
def test_where_all_neighbours_are_dropped_the_model_keeps_every_bit(share: float, ends: list[int]) -> None:
    rows: list[Row] = [(Origin.SEARCH, [(20.0 + number, ends[number % len(ends)]) for number in range(K)])] * 3
    found = retrieved(rows, K)
    evidence = made_evidence(rows, found, 4.0, share)
    apply_end_rule(evidence, found, even(found), RULE, ends)
    assert evidence.share_B.tolist() == [0.0] * 3 and not evidence.weight_BK.any()
    logits_BV = torch.randn(3, VOCABULARY, generator=torch.Generator().manual_seed(0))
    assert torch.equal(log_probs_of(logits_BV, evidence), logits_BV.log_softmax(dim=1))


@pytest.mark.parametrize("k", [2, 8, 16])
def test_shares_do_not_grow_by_rounding(k: int) -> None:
    """With a lambda above 1 the model would have less than nothing."""
    found, token_BK = hardly_any_end(500, k)
    evidence = evidence_of(found, token_BK, None, WHOLE)
    assert (evidence.weight_BK[:, -1] > 0).all()
    apply_end_rule(evidence, found, even(found), RULE, [0])
    assert not evidence.weight_BK[:, -1].any()
    assert float(evidence.share_B.max()) <= 1.0
    torch.testing.assert_close(log_probs_of(random_logits(1, 500), evidence).exp().sum(dim=1), torch.ones(500))
