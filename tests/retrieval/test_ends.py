"""Who may end a sentence: against a loop over rows and neighbours, and what holds for all mixtures."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from nearmt.retrieval.ends import NearEnds

from nearmt.contracts import Evidence, Origin, Scores
from nearmt.engines.reference.scoring import mix, neighbour_weights
from nearmt.retrieval.retriever import Retrieved
from tests.methods.test_fused import WHOLE, hardly_any, random_logits

INF = math.inf
VOCABULARY = 7
NEAR = NearEnds(search=9.0, cache=3.0, likely=2.0)  # whatever the model thinks
#: Whom a row asked, and distance and token of each neighbour; those at infinity are not there.
Row = tuple[Origin, list[tuple[float, int]]]


def retrieved(rows: list[Row], k: int) -> Retrieved:
    """Rows of k places; behind the neighbours there are none."""
    found = Retrieved.nothing(len(rows), k, torch.device("cpu"))
    for row, (origin, neighbours) in enumerate(rows):
        found.asked_B[row] = int(origin)
        for place, (distance, _) in enumerate(neighbours):
            found.distance_BK[row, place] = distance
            found.entry_BK[row, place] = -1 if distance == INF else place
    return found


def evidence_of(rows: list[Row], found: Retrieved, temperature: float, share: float) -> Evidence:
    """As a mixer makes it; what has no neighbour stands with token 0, which ends sentences in these tests."""
    token_BK = torch.zeros_like(found.entry_BK)
    for row, (_, neighbours) in enumerate(rows):
        for place, (distance, token) in enumerate(neighbours):
            token_BK[row, place] = 0 if distance == INF else token
    share_B = torch.where(found.origin_B == int(Origin.MODEL), 0.0, torch.full((len(rows),), share))
    weight_BK = neighbour_weights(found.distance_BK, temperature)
    return Evidence(found.origin_B, found.entry_BK, token_BK, weight_BK, share_B)


def model(found: Retrieved) -> Scores:
    """One that thinks all tokens equally likely."""
    return Scores.of(torch.zeros(len(found.asked_B), VOCABULARY))


def copied(evidence: Evidence) -> Evidence:
    parts = evidence.origin_B, evidence.entry_BK, evidence.token_BK, evidence.weight_BK, evidence.share_B
    return Evidence(*(part.clone() for part in parts))


def by_loop(
    near: NearEnds, evidence: Evidence, found: Retrieved, ends: list[int]
) -> tuple[list[list[float]], list[float]]:
    """Weights and shares, neighbour by neighbour."""
    weights: list[list[float]] = []
    shares: list[float] = []
    for row, asked in enumerate(found.asked_B.tolist()):
        within = near.search if asked == int(Origin.SEARCH) else near.cache
        kept = []
        for place, weight in enumerate(evidence.weight_BK[row].tolist()):
            is_end = int(evidence.token_BK[row, place]) in ends
            kept.append(0.0 if is_end and float(found.distance_BK[row, place]) > within else weight)
        lost = sum(evidence.weight_BK[row].tolist()) - sum(kept)
        shares.append(float(evidence.share_B[row]) * (1.0 - lost))
        weights.append([weight / sum(kept) if sum(kept) else 0.0 for weight in kept])
    return weights, shares


K = 6
distances = st.one_of(st.floats(0, 12, width=32), st.just(INF))
rows_of_neighbours = st.lists(
    st.tuples(
        st.sampled_from([Origin.SEARCH, Origin.CACHE]),
        st.lists(st.tuples(distances, st.integers(0, VOCABULARY - 1)), max_size=K),
    ),
    min_size=1,
    max_size=5,
)
some_ends = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=3, unique=True)
shares = st.sampled_from([0.0, 0.3, 0.7, 1.0])


@given(rows=rows_of_neighbours, ends=some_ends, share=shares, temperature=st.sampled_from([0.5, 4.0]))
def test_it_is_what_a_loop_says(rows: list[Row], ends: list[int], share: float, temperature: float) -> None:
    found = retrieved(rows, K)
    evidence = evidence_of(rows, found, temperature, share)
    weights, expected_shares = by_loop(NEAR, evidence, found, ends)
    NEAR.leave(evidence, found, model(found), ends)
    torch.testing.assert_close(evidence.weight_BK, torch.tensor(weights), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(evidence.share_B, torch.tensor(expected_shares), rtol=1e-5, atol=1e-6)


@given(
    rows=rows_of_neighbours,
    ends=some_ends,
    share=shares,
    logits=st.lists(st.floats(-9, 9, width=32), min_size=VOCABULARY, max_size=VOCABULARY),
)
def test_the_mixture_is_a_distribution_in_which_far_ends_have_no_part(
    rows: list[Row], ends: list[int], share: float, logits: list[float]
) -> None:
    """All others have of lambda what they had; what is not theirs is the model's."""
    found = retrieved(rows, K)
    evidence = evidence_of(rows, found, 4.0, share)
    before = copied(evidence)
    NEAR.leave(evidence, found, model(found), ends)
    scores = Scores.of(torch.tensor([logits] * len(rows)))
    model_BV = scores.log_probs().exp()
    mixed_BV = mix(scores, evidence).log_probs().exp()
    torch.testing.assert_close(mixed_BV.sum(dim=1), torch.ones(len(rows)))
    expected_BV = (1.0 - evidence.share_B[:, None]) * model_BV
    for row, (origin, neighbours) in enumerate(rows):
        within = NEAR.search if origin == Origin.SEARCH else NEAR.cache
        for place, (distance, token) in enumerate(neighbours):
            if distance <= within or (distance < INF and token not in ends):
                expected_BV[row, token] += before.share_B[row] * before.weight_BK[row, place]
    torch.testing.assert_close(mixed_BV, expected_BV, rtol=1e-4, atol=1e-6)


def test_by_hand() -> None:
    """A half and a quarter end the sentence; the nearer one may, as near as a search allows."""
    two = math.log(2)
    rows: list[Row] = [(Origin.SEARCH, [(9.0, 0), (9.0 + two, 5)]), (Origin.SEARCH, [(9.5, 0), (9.5 + two, 5)])]
    rows.append((Origin.CACHE, [(3.0, 0), (3.0 + two, 0), (3.0 + two, 5)]))
    found = retrieved(rows, 3)
    evidence = evidence_of(rows, found, 1.0, 0.6)
    NEAR.leave(evidence, found, model(found), [0])
    expected_BK = torch.tensor([[2 / 3, 1 / 3, 0.0], [0.0, 1.0, 0.0], [2 / 3, 0.0, 1 / 3]])
    torch.testing.assert_close(evidence.weight_BK, expected_BK)
    torch.testing.assert_close(evidence.share_B, torch.tensor([0.6, 0.2, 0.45]))


@pytest.mark.parametrize("origin", [Origin.SEARCH, Origin.CACHE])
def test_searches_and_the_cache_measure_distances_differently(origin: Origin) -> None:
    rows: list[Row] = [(origin, [(5.0, 0), (5.0, 1)])]
    found = retrieved(rows, 2)
    evidence = evidence_of(rows, found, 1.0, 1.0)
    NEAR.leave(evidence, found, model(found), [0])
    assert evidence.share_B.tolist() == [1.0 if origin == Origin.SEARCH else 0.5]
    assert evidence.weight_BK.tolist() == [[0.5, 0.5] if origin == Origin.SEARCH else [0.0, 1.0]]


@pytest.mark.parametrize(("ends", "likely"), [([0], False), ([0, 1], True)])
def test_where_the_model_thinks_an_end_likely_all_may_speak(ends: list[int], likely: bool) -> None:
    """A seventh for one token, two for both."""
    rows: list[Row] = [(Origin.SEARCH, [(20.0, 0), (20.0, 5)])]
    found = retrieved(rows, 2)
    evidence = evidence_of(rows, found, 1.0, 0.6)
    NearEnds(search=9.0, cache=3.0, likely=0.2).leave(evidence, found, model(found), ends)
    assert evidence.share_B.tolist() == pytest.approx([0.6 if likely else 0.3])
    assert evidence.weight_BK.tolist() == [[0.5, 0.5] if likely else [0.0, 1.0]]


@given(rows=rows_of_neighbours, share=shares)
def test_rows_in_which_nobody_leaves_keep_every_bit(rows: list[Row], share: float) -> None:
    """Also where others do, and where the token of those that are not there ends sentences."""
    found = retrieved(rows, K)
    evidence = evidence_of(rows, found, 4.0, share)
    before = copied(evidence)
    NEAR.leave(evidence, found, model(found), [0])
    for row, (origin, neighbours) in enumerate(rows):
        within = NEAR.search if origin == Origin.SEARCH else NEAR.cache
        if not any(token == 0 and within < distance < INF for distance, token in neighbours):
            assert torch.equal(evidence.weight_BK[row], before.weight_BK[row])
            assert torch.equal(evidence.share_B[row], before.share_B[row])
    assert torch.equal(evidence.token_BK, before.token_BK) and torch.equal(evidence.origin_B, before.origin_B)


@pytest.mark.parametrize("share", [0.3, 1.0])
@pytest.mark.parametrize("ends", [[2], [2, 4]])
def test_where_all_leave_the_model_keeps_every_bit(share: float, ends: list[int]) -> None:
    rows: list[Row] = [(Origin.SEARCH, [(20.0 + place, ends[place % len(ends)]) for place in range(K)])] * 3
    found = retrieved(rows, K)
    evidence = evidence_of(rows, found, 4.0, share)
    NEAR.leave(evidence, found, model(found), ends)
    assert evidence.share_B.tolist() == [0.0] * 3 and not evidence.weight_BK.any()
    logits_BV = torch.randn(3, VOCABULARY, generator=torch.Generator().manual_seed(0))
    alone = Scores.of(logits_BV.clone()).log_probs()
    assert torch.equal(mix(Scores.of(logits_BV.clone()), evidence).log_probs(), alone)


@pytest.mark.parametrize("k", [2, 8, 16])
def test_shares_do_not_grow_by_rounding(k: int) -> None:
    """A lambda above 1 would leave the model less than nothing."""
    found, store = hardly_any(500, k)
    scores = Scores.of(random_logits(1, 500))
    evidence = WHOLE.evidence(found, store, scores)
    assert (evidence.weight_BK[:, -1] > 0).all()
    NEAR.leave(evidence, found, model(found), [0])
    assert not evidence.weight_BK[:, -1].any()
    assert float(evidence.share_B.max()) <= 1.0
    torch.testing.assert_close(mix(scores, evidence).log_probs().exp().sum(dim=1), torch.ones(500))
