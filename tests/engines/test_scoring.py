"""Scoring of every engine against equations 2 and 3 and the rule for ends, row by row in float64."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nearmt.contracts import Evidence, Neighbours, Origin, Scores
from nearmt.engines.base import EndRule, Mixing, Retrieved
from nearmt.engines.reference.scoring import neighbour_weights
from tests.engines.every_engine import CPU, Engine, every_engine
from tests.methods.reference import equation_2, equation_3, log_softmax

INF = math.inf
#: Vocabularies around the 16 numbers that a CPU kernel reads together, and around blocks of 64.
SIZES = [1, 2, 15, 16, 17, 31, 64, 100]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def log_probs(scores: Scores) -> Tensor:
    return scores.log_probs().cpu()


# The model's own distribution.


@every_engine
@pytest.mark.parametrize("vocabulary", SIZES)
@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("size", [1e-30, 1.0, 30.0, 1e4])
def test_normalise_is_a_log_softmax(engine: Engine, vocabulary: int, rows: int, size: float) -> None:
    logits_BV = size * random(rows, vocabulary)
    for _ in range(2):
        found_BV = log_probs(engine.scoring().normalise(engine.to(logits_BV)))
        expected_BV = logits_BV.double().log_softmax(dim=1)
        torch.testing.assert_close(found_BV.double(), expected_BV, rtol=1e-6, atol=1e-6 * max(1.0, size))
        logits_BV[:, 1::2] = -INF


@every_engine
def test_normalise_many_equal_logits(engine: Engine) -> None:
    found_1V = log_probs(engine.scoring().normalise(engine.to(torch.full((1, 50_000), -7.0))))
    torch.testing.assert_close(found_1V, torch.full((1, 50_000), -math.log(50_000)), rtol=1e-6, atol=0)


@every_engine
def test_normalise_reads_rows_of_a_wider_tensor(engine: Engine) -> None:
    wide_BV = engine.to(random(4, 60))
    for part_BV in (wide_BV[:, :17], wide_BV[::2, 5:]):
        expected = engine.scoring().normalise(part_BV.contiguous()).log_probs()
        assert torch.equal(engine.scoring().normalise(part_BV).log_probs(), expected)


# Equation 3.


def evidence_of(token_BK: list[list[int]], weight_BK: list[list[float]], share_B: list[float]) -> Evidence:
    """Evidence as a method makes it; entries have no part in the mixture."""
    token = torch.tensor(token_BK)
    origin_B = torch.full((len(token),), int(Origin.SEARCH))
    return Evidence(origin_B, torch.zeros_like(token), token, torch.tensor(weight_BK), torch.tensor(share_B))


def random_evidence(rows: int, k: int, vocabulary: int) -> Evidence:
    """Few tokens, so that neighbours agree; shares from 0 to 1."""
    generator = torch.Generator().manual_seed(k)
    token_BK = torch.randint(0, min(vocabulary, 4), (rows, k), generator=generator)
    weight_BK = torch.rand(rows, k, generator=generator).softmax(dim=1)
    share_B = torch.tensor([0.0, 0.3, 1.0, 0.999, 1e-4]).repeat(rows)[:rows]
    return Evidence(torch.full((rows,), int(Origin.SEARCH)), torch.zeros_like(token_BK), token_BK, weight_BK, share_B)


def moved(engine: Engine, evidence: Evidence) -> Evidence:
    parts = evidence.origin_B, evidence.entry_BK, evidence.token_BK, evidence.weight_BK, evidence.share_B
    return Evidence(*(part.to(engine.device) for part in parts))


def mixed(engine: Engine, logits_BV: Tensor, evidence: Evidence) -> Tensor:
    """Log-probabilities of the mixture."""
    scoring = engine.scoring()
    scores = scoring.mix(scoring.normalise(engine.to(logits_BV)), moved(engine, evidence))
    return log_probs(scores)


def mixture_by_loop(logits_BV: Tensor, evidence: Evidence) -> Tensor:
    """Probabilities, neighbour by neighbour."""
    probability_BV = logits_BV.double().softmax(dim=1) * (1.0 - evidence.share_B.double()[:, None])
    for row, share in enumerate(evidence.share_B.tolist()):
        for token, weight in zip(evidence.token_BK[row].tolist(), evidence.weight_BK[row].tolist(), strict=True):
            probability_BV[row, token] += share * weight
    return probability_BV


@every_engine
def test_equation_3_by_hand(engine: Engine) -> None:
    log_prob_BV = torch.tensor([[0.5, 0.3, 0.2, 0.0]]).log()
    # Tokens 1 and 3; token 1 twice: p_kNN = 0.75 for 1, 0.25 for 3.
    evidence = evidence_of([[1, 3, 1]], [[0.5, 0.25, 0.25]], [0.4])
    expected_BV = torch.tensor([[0.30, 0.18 + 0.30, 0.12, 0.10]])
    torch.testing.assert_close(mixed(engine, log_prob_BV, evidence).exp(), expected_BV)


@every_engine
def test_every_row_has_its_own_weight(engine: Engine) -> None:
    log_prob_BV = torch.tensor([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]).log()
    evidence = evidence_of([[0], [0], [0]], [[1.0], [1.0], [1.0]], [0.0, 0.5, 1.0])
    mixed_BV = mixed(engine, log_prob_BV, evidence)
    torch.testing.assert_close(mixed_BV.exp(), torch.tensor([[0.5, 0.5], [0.75, 0.25], [1.0, 0.0]]))
    assert mixed_BV[2, 1] == -INF


@every_engine
@pytest.mark.parametrize("vocabulary", [4, 17, 64])
@pytest.mark.parametrize("k", [1, 3, 16, 40])
def test_mix_is_equation_3(engine: Engine, vocabulary: int, k: int) -> None:
    logits_BV, evidence = 5 * random(7, vocabulary), random_evidence(7, k, vocabulary)
    logits_BV[:, 1] = -INF
    found_BV = mixed(engine, logits_BV, evidence)
    torch.testing.assert_close(found_BV.logsumexp(dim=1), torch.zeros(7), rtol=0, atol=1e-5)
    expected_BV = mixture_by_loop(logits_BV, evidence).log()
    torch.testing.assert_close(found_BV.double(), expected_BV, rtol=1e-5, atol=1e-5)


distances = st.one_of(st.floats(0, 50, width=32), st.just(INF))
neighbours = st.lists(st.tuples(distances, st.integers(0, 16)), min_size=1, max_size=9)
logits = st.lists(st.one_of(st.floats(-20, 20, width=32), st.just(-INF)), min_size=16, max_size=16)
temperatures = st.sampled_from([0.5, 1.0, 10.0, 100.0])


def with_one_row(
    engine: Engine, logit_V: list[float], found: list[tuple[float, int]], temperature: float, share: float
) -> Tensor:
    """One row through both equations; a row without neighbours has no share, as methods see to."""
    weight_1K = neighbour_weights(torch.tensor([[distance for distance, _ in found]]), temperature)
    present = any(distance < INF for distance, _ in found)
    evidence = evidence_of([[token for _, token in found]], weight_1K.tolist(), [share if present else 0.0])
    return mixed(engine, torch.tensor([logit_V]), evidence)[0]


@every_engine
@settings(max_examples=50)
@given(logit_V=logits, found=neighbours, temperature=temperatures, share=st.floats(0, 1))
def test_the_mixture_is_a_distribution(
    engine: Engine, logit_V: list[float], found: list[tuple[float, int]], temperature: float, share: float
) -> None:
    logit_V = [*logit_V, 1.0]  # one token is possible
    found_V = with_one_row(engine, logit_V, found, temperature, share)
    assert found_V.logsumexp(dim=0).item() == pytest.approx(0.0, abs=1e-5)
    present = [(distance, number) for number, (distance, _) in enumerate(found) if distance < INF]
    with np.errstate(divide="ignore"):
        expected_V = log_softmax(np.array(logit_V))
        if present:
            p_knn = equation_2(present, [token for _, token in found], temperature)
            expected_V = equation_3(expected_V, p_knn, share)
    np.testing.assert_allclose(np.exp(found_V.numpy()), np.exp(expected_V), rtol=0, atol=1e-5)


@every_engine
@settings(max_examples=30)
@given(logit_V=logits, found=neighbours, temperature=temperatures)
def test_weight_1_leaves_only_the_tokens_of_neighbours(
    engine: Engine, logit_V: list[float], found: list[tuple[float, int]], temperature: float
) -> None:
    found = [(0.0, 3), *found]
    possible = {token for distance, token in found if distance < INF}
    found_V = with_one_row(engine, [*logit_V, 1.0], found, temperature, 1.0)
    assert not found_V.isnan().any()
    assert all(found_V[token] == -INF for token in range(17) if token not in possible)
    assert found_V.exp().sum().item() == pytest.approx(1.0, abs=1e-5)


@every_engine
@settings(max_examples=30)
@given(logit_V=logits, found=neighbours, temperature=temperatures, missing=st.booleans())
def test_weight_0_and_missing_neighbours_leave_every_bit(
    engine: Engine, logit_V: list[float], found: list[tuple[float, int]], temperature: float, missing: bool
) -> None:
    logit_V = [*logit_V, 1.0]
    found = [(INF, token) for _, token in found] if missing else found
    expected_1V = log_probs(engine.scoring().normalise(engine.to(torch.tensor([logit_V]))))
    assert torch.equal(with_one_row(engine, logit_V, found, temperature, 0.7 if missing else 0.0), expected_1V[0])


@every_engine
def test_rows_without_a_share_keep_every_bit(engine: Engine) -> None:
    logits_BV, evidence, offset_B = random(5, 33), random_evidence(5, 8, 33), engine.to(random(5, seed=1))
    evidence.share_B = torch.tensor([0.0, 0.5, 0.0, 1.0, 0.0])
    given_BV = engine.to(logits_BV)
    found = engine.scoring().mix(Scores(given_BV, offset_B), moved(engine, evidence))
    still_B = evidence.share_B == 0
    assert torch.equal(found.logits_BV.cpu()[still_B], logits_BV[still_B])
    assert torch.equal(found.offset_B.cpu()[still_B], offset_B.cpu()[still_B])
    assert not torch.equal(found.logits_BV[1].cpu(), logits_BV[1]) and found.offset_B[1] != offset_B[1]


@every_engine
def test_logits_change_in_place_at_the_tokens_of_neighbours_alone(engine: Engine) -> None:
    scores = Scores(engine.to(random(2, 20)), engine.to(random(2, seed=1)))
    before_BV, before_B = scores.logits_BV.clone(), scores.offset_B.clone()
    evidence = evidence_of([[3, 5], [0, 0]], [[0.5, 0.5], [1.0, 0.0]], [0.5, 0.25])
    found = engine.scoring().mix(scores, moved(engine, evidence))
    assert found.logits_BV is scores.logits_BV
    assert (found.logits_BV != before_BV).nonzero().tolist() == [[0, 3], [0, 5], [1, 0]]
    assert torch.equal(scores.offset_B, before_B)


@every_engine
def test_a_share_of_1_leaves_nothing_to_the_model(engine: Engine) -> None:
    found_1V = mixed(engine, random(1, 20), evidence_of([[7, 2, 7]], [[0.25, 0.5, 0.25]], [1.0]))
    assert found_1V.isfinite().nonzero().tolist() == [[0, 2], [0, 7]]
    torch.testing.assert_close(found_1V[0, [2, 7]].exp(), torch.tensor([0.5, 0.5]))


@every_engine
def test_neighbours_with_the_same_token_add_up(engine: Engine) -> None:
    apart = mixed(engine, random(1, 20), evidence_of([[9, 4, 9, 9]], [[0.1, 0.4, 0.2, 0.3]], [0.4]))
    joined = mixed(engine, random(1, 20), evidence_of([[4, 9]], [[0.4, 0.6]], [0.4]))
    torch.testing.assert_close(apart, joined)


@every_engine
def test_the_token_of_padding_has_no_part(engine: Engine) -> None:
    """Whether another neighbour has the same token, or the model rules it out."""
    logits_BV = torch.tensor([[-INF, 1.0, 2.0], [0.0, 1.0, 2.0]])
    found_BV = mixed(engine, logits_BV, evidence_of([[1, 0], [0, 0]], [[1.0, 0.0]] * 2, [0.5] * 2))
    alone_BV = mixed(engine, logits_BV, evidence_of([[1], [0]], [[1.0]] * 2, [0.5] * 2))
    assert found_BV[0, 0] == -INF
    assert torch.equal(found_BV, alone_BV)


@every_engine
def test_evidence_may_have_any_strides(engine: Engine) -> None:
    """Copies that are made for a kernel live until it has finished."""
    logits_BV, evidence = random(300, 20), random_evidence(300, 40, 20)
    expected_BV = mixed(engine, logits_BV, evidence)
    token_BK, weight_BK = evidence.token_BK.T.contiguous().T, evidence.weight_BK.T.contiguous().T
    assert not token_BK.is_contiguous() and not weight_BK.is_contiguous()
    share_B = evidence.share_B.repeat_interleave(2)[::2]
    scattered = Evidence(evidence.origin_B, evidence.entry_BK, token_BK, weight_BK, share_B)
    torch.testing.assert_close(mixed(engine, logits_BV, scattered), expected_BV)
    wide_BV = engine.to(random(300, 50))
    wide_BV[:, :20] = engine.to(logits_BV)
    scoring = engine.scoring()
    offset_B = -wide_BV[:, :20].logsumexp(dim=1)
    found = scoring.mix(Scores(wide_BV[:, :20], offset_B), moved(engine, evidence))
    torch.testing.assert_close(log_probs(found), expected_BV, rtol=1e-5, atol=1e-5)
    assert found.logits_BV.data_ptr() == wide_BV.data_ptr()


# Equations 2 and 3 and the rule for ends at once.

VOCABULARY, ROWS, K = 40, 6, 5
MIXING = Mixing(weight=0.6, temperature=4.0, cache_weight=0.3, cache_temperature=0.7)
WHOLE = Mixing(weight=1.0, temperature=4.0, cache_weight=1.0, cache_temperature=0.7)
#: An end is never this likely: the radii decide.
NEVER = 2.0
#: Rules for neighbours at distances between 0 and 9, and the token that ends sentences: radii that let some neighbours
#: end a sentence, none, all, only some of a search, only some of the cache; and a token that no neighbour has.
RULES = {
    "some": (EndRule(3.0, 5.0, NEVER), 0),
    "none": (EndRule(0.0, 0.0, NEVER), 0),
    "all": (EndRule(9.0, 9.0, NEVER), 0),
    "searched": (EndRule(3.0, 0.0, NEVER), 0),
    "recalled": (EndRule(0.0, 5.0, NEVER), 0),
    "another token": (EndRule(0.0, 0.0, NEVER), VOCABULARY - 1),
    # Some, and all where the model finds the end likely.
    "likely": (EndRule(3.0, 5.0, 0.02), 0),
}
TRUST = [0.0, 1.0, 0.5, 0.25, 1e-3, 0.5]
every_rule = pytest.mark.parametrize("name", RULES)
#: Of neighbours that rules drop: see `test_the_rules_drop_no_neighbour_some_and_all`.
SEEDS = [0, 2]


def random_found(seed: int) -> Retrieved:
    """Rows of searches and of the cache with all neighbours, with some, and (the last) with none."""
    generator = torch.Generator().manual_seed(seed)
    found = Retrieved.nothing(ROWS, K, CPU)
    for row in range(ROWS):
        there = [K, K, 2, 1, K, 0][row]
        entry = torch.randperm(30, generator=generator)[None, :there]
        distance = torch.rand(1, there, generator=generator).mul(9).sort(dim=1).values
        found.put(torch.tensor([row]), (Origin.SEARCH, Origin.CACHE)[row % 2], Neighbours(entry, distance))
    return found


def random_tokens(found: Retrieved, tokens: int = VOCABULARY) -> Tensor:
    """A token for each entry; padding has the token 0, which ends sentences in these tests."""
    token_N = torch.randint(0, tokens, (30,), generator=torch.Generator().manual_seed(3))
    return token_N[found.entry_BK.clamp(min=0)].masked_fill(found.entry_BK < 0, 0)


def random_counts(found: Retrieved) -> Tensor:
    """How much each entry counts."""
    count_N = torch.randint(1, 8, (30,), generator=torch.Generator().manual_seed(4)).float() / 2
    return count_N[found.entry_BK.clamp(min=0)].masked_fill(found.entry_BK < 0, 1.0)


def random_logits(seed: int, rows: int = ROWS) -> Tensor:
    return 4 * torch.randn(rows, VOCABULARY, generator=torch.Generator().manual_seed(seed))


def dropped(found: Retrieved, token_BK: Tensor, rule: EndRule, end: int) -> Tensor:
    """Neighbours that end the sentence and are too far, [B, K]."""
    radius = {int(Origin.SEARCH): rule.search, int(Origin.CACHE): rule.cache}
    radius_B1 = torch.tensor([radius.get(asked, INF) for asked in found.asked_B.tolist()])[:, None]
    return (found.entry_BK >= 0) & (token_BK == end) & (found.distance_BK > radius_B1)


def by_loop(
    logits_BV: Tensor,
    found: Retrieved,
    token_BK: Tensor,
    count_BK: Tensor | None,
    mixing: Mixing,
    trust_B: Tensor | None,
    rule: EndRule | None,
    ends: Sequence[int],
) -> Tensor:
    """Probabilities in float64, row by row and neighbour by neighbour."""
    probability_BV = logits_BV.double().softmax(dim=1)
    for row, p_V in enumerate(probability_BV):
        searched = int(found.asked_B[row]) == int(Origin.SEARCH)
        weight, temperature = mixing.cache_weight, mixing.cache_temperature
        if searched:
            weight, temperature = mixing.weight, mixing.temperature
        there = [
            (float(distance), int(token_BK[row, number]), 1.0 if count_BK is None else float(count_BK[row, number]))
            for number, distance in enumerate(found.distance_BK[row])
            if distance < INF
        ]
        if not there:
            continue
        weight *= 1.0 if trust_B is None else float(trust_B[row])
        nearest = min(distance for distance, _, _ in there)
        shares = [count * math.exp((nearest - distance) / temperature) for distance, _, count in there]
        likely = rule is None or float(p_V[list(ends)].sum()) >= rule.likely
        radius = INF if rule is None or likely else rule.search if searched else rule.cache
        kept = [
            (token, share / sum(shares))
            for (distance, token, _), share in zip(there, shares, strict=True)
            if token not in ends or distance <= radius
        ]
        p_V.mul_(1.0 - weight * sum(share for _, share in kept))
        for token, share in kept:
            p_V[token] += weight * share
    return probability_BV


def mixed_neighbours(
    engine: Engine,
    logits_BV: Tensor,
    found: Retrieved,
    token_BK: Tensor,
    count_BK: Tensor | None = None,
    mixing: Mixing = MIXING,
    trust_B: Tensor | None = None,
    rule: EndRule | None = None,
    ends: Sequence[int] = (),
    rtol: float = 1e-4,
) -> Tensor:
    """Log-probabilities, which are those of the loop."""
    counts, trust = (None if part is None else part.to(engine.device) for part in (count_BK, trust_B))
    there = found.to(engine.device)
    given = engine.to(logits_BV), there, token_BK.to(engine.device), counts, mixing, trust, rule, ends
    found_BV = log_probs(engine.scoring().mix_neighbours(*given))
    expected_BV = by_loop(logits_BV, found, token_BK, count_BK, mixing, trust_B, rule, ends)
    torch.testing.assert_close(found_BV.exp().double(), expected_BV, rtol=rtol, atol=rtol / 100)
    torch.testing.assert_close(found_BV.exp().sum(dim=1), torch.ones(len(found_BV)))
    return found_BV


@every_engine
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("tokens", [1, 3, VOCABULARY])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("trusted", [False, True])
def test_neighbours_are_weighed_and_mixed(
    engine: Engine, seed: int, tokens: int, weighted: bool, trusted: bool
) -> None:
    logits_BV, found = random_logits(seed), random_found(seed)
    count_BK, trust_B = random_counts(found) if weighted else None, torch.tensor(TRUST) if trusted else None
    found_BV = mixed_neighbours(engine, logits_BV, found, random_tokens(found, tokens), count_BK, MIXING, trust_B)
    alone_BV = logits_BV.log_softmax(dim=1)
    untouched = [bool((found_BV[row] - alone_BV[row]).abs().max() < 1e-5) for row in range(ROWS)]
    assert untouched == [trusted, False, False, False, False, True]


@every_engine
@every_rule
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("tokens", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("trusted", [False, True])
def test_far_ends_give_their_share_to_the_model(
    engine: Engine, name: str, seed: int, tokens: int, weighted: bool, trusted: bool
) -> None:
    (rule, end), logits_BV, found = RULES[name], random_logits(seed), random_found(seed)
    count_BK, trust_B = random_counts(found) if weighted else None, torch.tensor(TRUST) if trusted else None
    for mixing in (MIXING, WHOLE):
        given = random_tokens(found, tokens), count_BK, mixing, trust_B, rule, [end]
        mixed_neighbours(engine, logits_BV, found, *given)


def test_the_rules_drop_no_neighbour_some_and_all() -> None:
    """Otherwise the tests that use them would prove less than they say."""
    seen = set()
    for seed, tokens, name in product(SEEDS, (1, 3), ("some", "none")):
        found = random_found(seed)
        dropped_B = dropped(found, random_tokens(found, tokens), *RULES[name]).sum(dim=1)
        there_B = (found.entry_BK >= 0).sum(dim=1)
        for asked, gone, there in zip(found.asked_B.tolist(), dropped_B.tolist(), there_B.tolist(), strict=True):
            seen.add((Origin(asked), "none" if gone == 0 else "all" if gone == there else "some"))
    assert seen == set(product((Origin.SEARCH, Origin.CACHE), ("none", "some", "all")))
    likely_B = random_logits(0).softmax(dim=1)[:, 0] >= RULES["likely"][0].likely
    assert likely_B.any() and not likely_B.all()


@every_engine
@pytest.mark.parametrize("ends", [[0], [0, 1], [0, 1, 2], [VOCABULARY - 1], []])
@pytest.mark.parametrize("mixing", [MIXING, WHOLE], ids=["share", "whole"])
@pytest.mark.parametrize("weighted", [False, True])
def test_several_tokens_may_end_sentences(engine: Engine, ends: list[int], mixing: Mixing, weighted: bool) -> None:
    logits_BV, found = random_logits(2), random_found(2)
    token_BK, count_BK = random_tokens(found, 3), random_counts(found) if weighted else None
    given = token_BK, count_BK, mixing, None
    found_BV = mixed_neighbours(engine, logits_BV, found, *given, EndRule(3.0, 5.0, NEVER), ends)
    # Without a rule all neighbours count, whatever ends a sentence.
    plain_BV = mixed_neighbours(engine, logits_BV, found, *given, None, ends)
    assert torch.allclose(found_BV, plain_BV, atol=1e-5) == (not set(ends) & {0, 1, 2})


@every_engine
@pytest.mark.parametrize(("ends", "likely"), [([0], False), ([0, 1], True)])
def test_the_probabilities_of_all_ends_add_up(engine: Engine, ends: list[int], likely: bool) -> None:
    """One seventh for one token, two for both; an end is likely from 0.2 on."""
    found = Retrieved(torch.tensor([int(Origin.SEARCH)]), torch.tensor([[0, 1]]), torch.tensor([[20.0, 20.0]]))
    rule, mixing = EndRule(9.0, 3.0, 0.2), Mixing(0.6, 1.0, 0.6, 1.0)
    given = torch.zeros(1, 7), found, torch.tensor([[0, 5]]), None, mixing, None, rule, ends
    probability_V = mixed_neighbours(engine, *given)[0].exp()
    assert float(probability_V[5]) == pytest.approx((0.4 / 7 + 0.3) if likely else (0.7 / 7 + 0.3), abs=1e-5)
    assert float(probability_V[0]) == pytest.approx((0.4 / 7 + 0.3) if likely else 0.7 / 7, abs=1e-5)


@every_engine
def test_rows_without_neighbours_or_trust_are_the_models(engine: Engine) -> None:
    """Bit by bit, whatever other rows have."""
    logits_BV, found = random_logits(0), random_found(0)
    trust_B = torch.tensor([0.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    found_BV = mixed_neighbours(engine, logits_BV, found, random_tokens(found), None, MIXING, trust_B)
    nothing = Retrieved.nothing(ROWS, K, CPU)
    model_BV = mixed_neighbours(engine, logits_BV, nothing, torch.zeros_like(nothing.entry_BK))
    assert (found_BV == model_BV).all(dim=1).tolist() == [True, False, False, False, False, True]
    if engine.name != "cuda":  # its kernels sum in another order than torch
        assert torch.equal(model_BV, log_probs(engine.scoring().normalise(engine.to(logits_BV))))


@every_engine
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("mixing", [MIXING, WHOLE], ids=["share", "whole"])
def test_where_all_neighbours_are_dropped_the_model_keeps_every_bit(
    engine: Engine, weighted: bool, mixing: Mixing
) -> None:
    logits_BV, found, (rule, end) = random_logits(3), random_found(3), RULES["none"]
    token_BK, count_BK = random_tokens(found, 1), random_counts(found) if weighted else None
    nothing = Retrieved.nothing(ROWS, K, CPU)
    alone_BV = mixed_neighbours(engine, logits_BV, nothing, torch.zeros_like(token_BK), None, mixing)
    found_BV = mixed_neighbours(engine, logits_BV, found, token_BK, count_BK, mixing, None, rule, [end])
    assert torch.equal(found_BV, alone_BV)
    assert not torch.equal(mixed_neighbours(engine, logits_BV, found, token_BK, count_BK, mixing), alone_BV)


@every_engine
@pytest.mark.parametrize("mixing", [MIXING, WHOLE], ids=["share", "whole"])
@pytest.mark.parametrize("name", ["some", "none", "all", "another token"])
def test_rows_without_dropped_neighbours_keep_every_bit(engine: Engine, name: str, mixing: Mixing) -> None:
    logits_BV, found, (rule, end) = random_logits(1), random_found(1), RULES[name]
    token_BK = random_tokens(found, 3)
    found_BV = mixed_neighbours(engine, logits_BV, found, token_BK, None, mixing, None, rule, [end])
    same_B = (found_BV == mixed_neighbours(engine, logits_BV, found, token_BK, None, mixing)).all(dim=1)
    assert same_B.tolist() == (~dropped(found, token_BK, rule, end).any(dim=1)).tolist()
    assert bool(same_B.all()) == (name in ("all", "another token"))


@every_engine
@every_rule
@pytest.mark.parametrize("seed", range(3))
def test_a_whole_weight_leaves_the_model_the_share_of_dropped_neighbours(engine: Engine, name: str, seed: int) -> None:
    logits_BV, found, (rule, end) = random_logits(seed), random_found(seed), RULES[name]
    token_BK = random_tokens(found, 3)
    found_BV = mixed_neighbours(engine, logits_BV, found, token_BK, None, WHOLE, None, rule, [end])
    if name != "likely":
        # All tokens are possible where some neighbours are dropped or there are none.
        possible_B = dropped(found, token_BK, rule, end).any(dim=1) | (found.entry_BK < 0).all(dim=1)
        assert torch.equal(found_BV.isfinite().all(dim=1), possible_B)


@every_engine
@pytest.mark.parametrize("whole", [1.0, 1])
def test_a_whole_weight_of_searches_or_of_the_cache_alone(engine: Engine, whole: float) -> None:
    logits_BV, found = random_logits(0), random_found(0)
    token_BK = random_tokens(found)
    searched_BV = mixed_neighbours(engine, logits_BV, found, token_BK, None, Mixing(whole, 4.0, 0.3, 0.7))
    assert set(searched_BV[0].isfinite().nonzero()[:, 0].tolist()) == set(token_BK[0].tolist())
    assert searched_BV[1].isfinite().all()
    recalled_BV = mixed_neighbours(engine, logits_BV, found, token_BK, None, Mixing(0.6, 4.0, whole, 0.7))
    assert recalled_BV[0].isfinite().all() and not recalled_BV[1].isfinite().all()
    # A row without neighbours is the model's all the same, and trust takes some of the weight back.
    assert recalled_BV[5].isfinite().all()
    trust_B = torch.tensor([1.0, 1.0, 0.5, 0.5, 0.0, 1.0])
    mixed_neighbours(engine, logits_BV, found, token_BK, None, Mixing(whole, 4.0, whole, 0.7), trust_B)


@every_engine
def test_a_weight_of_0_is_the_model_alone(engine: Engine) -> None:
    logits_BV, found = random_logits(0), random_found(0)
    found_BV = mixed_neighbours(engine, logits_BV, found, random_tokens(found), None, Mixing(0.0, 4.0, 0.0, 0.7))
    torch.testing.assert_close(found_BV, logits_BV.log_softmax(dim=1))


@every_engine
@pytest.mark.parametrize("weighted", [False, True])
def test_weighed_neighbours_with_the_same_token_add_up(engine: Engine, weighted: bool) -> None:
    found = random_found(2)
    count_BK = random_counts(found) if weighted else None
    found_BV = mixed_neighbours(engine, random_logits(2), found, random_tokens(found, 2), count_BK)
    assert float(found_BV[0, :2].exp().sum()) > 0.6


@every_engine
def test_neighbours_may_have_tokens_that_the_model_rules_out(engine: Engine) -> None:
    found, logits_BV = random_found(4), random_logits(4)
    token_BK = random_tokens(found)
    logits_BV[:, : VOCABULARY // 2] = -INF
    logits_BV[0, token_BK[0, 0]] = -INF
    found_BV = mixed_neighbours(engine, logits_BV, found, token_BK)
    assert found_BV[0, token_BK[0, 0]] > -INF
    assert torch.equal(found_BV[5].isinf(), logits_BV[5].isinf())


@every_engine
def test_logits_may_be_rows_of_a_wider_tensor(engine: Engine) -> None:
    found, wide_BV = random_found(5).to(engine.device), torch.zeros(ROWS, VOCABULARY + 7, device=engine.device)
    wide_BV[:, :VOCABULARY] = random_logits(5).to(engine.device)
    token_BK = random_tokens(random_found(5))
    scores = engine.scoring().mix_neighbours(
        wide_BV[:, :VOCABULARY], found, token_BK.to(engine.device), None, MIXING, None, None, ()
    )
    expected_BV = mixed_neighbours(engine, random_logits(5), random_found(5), token_BK)
    torch.testing.assert_close(log_probs(scores), expected_BV)
    assert not wide_BV[:, VOCABULARY:].any()


@every_engine
def test_distances_and_tokens_may_have_any_strides(engine: Engine) -> None:
    found = random_found(5)
    token_BK = random_tokens(found)
    expected_BV = mixed_neighbours(engine, random_logits(5), found, token_BK)
    scattered = Retrieved(found.asked_B, found.entry_BK, found.distance_BK.T.contiguous().T)
    found_BV = mixed_neighbours(engine, random_logits(5), scattered, token_BK.T.contiguous().T)
    torch.testing.assert_close(found_BV, expected_BV)


@every_engine
def test_far_neighbours_count_by_their_differences(engine: Engine) -> None:
    """exp(-d / T) alone would be 0 for all of them."""
    found = random_found(6)
    found.distance_BK += 1e4
    mixed_neighbours(engine, random_logits(6), found, random_tokens(found), rtol=2e-3)
    two = torch.tensor([[1e4, 1e4 + 4 * math.log(4)]])
    found = Retrieved(torch.tensor([int(Origin.SEARCH)]), torch.tensor([[0, 1]]), two)
    probability_V = mixed_neighbours(engine, torch.zeros(1, 4), found, torch.tensor([[2, 3]]), rtol=2e-3)[0].exp()
    expected_V = 0.4 / 4 + 0.6 * torch.tensor([0.0, 0.0, 0.8, 0.2])
    torch.testing.assert_close(probability_V, expected_V, atol=2e-4, rtol=0)


@every_engine
def test_a_far_end_by_hand(engine: Engine) -> None:
    """One half ends the sentence, two quarters do not: with a weight of 1 the model has that half."""
    mixing = Mixing(weight=1.0, temperature=1.0, cache_weight=1.0, cache_temperature=1.0)
    distance_BK = torch.tensor([[4.0, *[4 + math.log(2)] * 2]])
    found = Retrieved(torch.tensor([int(Origin.SEARCH)]), torch.tensor([[0, 1, 2]]), distance_BK)

    def probabilities(rule: EndRule, trust: float = 1.0) -> Tensor:
        given = torch.tensor([[0, 2, 3]]), None, mixing, torch.tensor([trust]), rule, [0]
        return mixed_neighbours(engine, torch.zeros(1, 4), found, *given)[0].exp()

    far = EndRule(3.99, 9.0, NEVER)
    torch.testing.assert_close(probabilities(far), torch.tensor([0.125, 0.125, 0.375, 0.375]))
    # With half of the trust neighbours have half as much; a neighbour at the radius may end the sentence.
    torch.testing.assert_close(probabilities(far, trust=0.5), torch.tensor([0.1875, 0.1875, 0.3125, 0.3125]))
    near_V = probabilities(EndRule(4.0, 0.0, NEVER))
    torch.testing.assert_close(near_V, torch.tensor([0.5, 0.0, 0.25, 0.25]))
    # The model gives the end a quarter: where that is likely, far neighbours count, too.
    torch.testing.assert_close(probabilities(EndRule(3.99, 9.0, 0.25)), near_V)


def hardly_any_end(rows: int, k: int) -> tuple[Retrieved, Tensor]:
    """Neighbours and tokens: the last ends the sentence and is so far that the others add up to 1, rounded."""
    generator = torch.Generator().manual_seed(0)
    distance_BK = 9 * torch.rand(rows, k, generator=generator)
    distance_BK[:, -1] += 72
    token_BK = torch.randint(1, VOCABULARY, (rows, k), generator=generator)
    token_BK[:, -1] = 0
    asked_B = torch.full((rows,), int(Origin.SEARCH))
    return Retrieved(asked_B, torch.arange(rows * k).view(rows, k), distance_BK), token_BK


@every_engine
@pytest.mark.parametrize("k", [2, 8, 12, 16])
def test_shares_do_not_grow_by_rounding(engine: Engine, k: int) -> None:
    """With a share above 1 the model would have less than nothing."""
    rows = 40 if engine.name == "cuda" and engine.device == CPU else 200  # an interpreter is slow
    found, token_BK = hardly_any_end(rows, k)
    logits_BV = random_logits(1, len(found.asked_B))
    mixed_neighbours(engine, logits_BV, found, token_BK, None, WHOLE, None, RULES["some"][0], [0])


@every_engine
def test_no_neighbours_at_all(engine: Engine) -> None:
    found, logits_BV = Retrieved.nothing(ROWS, 0, CPU), random_logits(0)
    found_BV = mixed_neighbours(engine, logits_BV, found, torch.zeros(ROWS, 0, dtype=torch.long))
    torch.testing.assert_close(found_BV, logits_BV.log_softmax(dim=1), rtol=1e-5, atol=1e-5)


# The best continuations.

COUNT = 10


def numbers_of(slots: int, each: int, vocabulary: int, seed: int, levels: int | None = None) -> tuple[Scores, Tensor]:
    """Random scores; with `levels`, only this number of distinct values, so that many are equal."""
    generator = torch.Generator().manual_seed(seed)
    rows = slots * each

    def numbers(*shape: int) -> Tensor:
        if levels is None:
            return 3 * torch.randn(*shape, generator=generator)
        return torch.randint(levels, shape, generator=generator).float()

    return Scores(numbers(rows, vocabulary), numbers(rows)), numbers(rows)


def best(engine: Engine, scores: Scores, score_B: Tensor, slots: int, count: int = COUNT) -> tuple[Tensor, ...]:
    """Scores, rows and tokens; a score is the largest left, at the row and token that it names, each named once."""
    moved_scores = Scores(scores.logits_BV.to(engine.device), scores.offset_B.to(engine.device))
    found_S3K = engine.scoring().best(moved_scores, score_B.to(engine.device), slots, count).cpu()
    score_SK, row_SK, token_SK = found_S3K[:, 0].float(), found_S3K[:, 1].long(), found_S3K[:, 2].long()
    total_BV = scores.logits_BV + (scores.offset_B + score_B)[:, None]
    rows, vocabulary = total_BV.shape
    expected_SK = total_BV.view(slots, -1).sort(dim=1, descending=True).values[:, :count]
    assert torch.equal(score_SK, expected_SK)
    assert torch.equal(total_BV[row_SK, token_SK], score_SK)
    assert bool((row_SK // (rows // slots) == torch.arange(slots)[:, None]).all())
    for positions in (row_SK * vocabulary + token_SK).tolist():
        assert len(set(positions)) == len(positions)
    return score_SK, row_SK, token_SK


@every_engine
@pytest.mark.parametrize("vocabulary", [1, 3, 63, 64, 65, 700, 1024, 2050])
@pytest.mark.parametrize(("slots", "each"), [(1, 1), (1, 5), (3, 1), (3, 5)])
def test_the_best_continuations_of_all_sizes(engine: Engine, vocabulary: int, slots: int, each: int) -> None:
    found = best(engine, *numbers_of(slots, each, vocabulary, seed=vocabulary), slots)
    assert found[0].shape == (slots, min(COUNT, each * vocabulary))


@every_engine
@settings(max_examples=40)
@given(
    vocabulary=st.integers(1, 3000),
    slots=st.integers(1, 4),
    each=st.integers(1, 6),
    levels=st.sampled_from([1, 2, 5, None]),
    count=st.integers(1, 12),
    seed=st.integers(0, 1000),
)
def test_the_best_continuations_of_any_size_with_ties(
    engine: Engine, vocabulary: int, slots: int, each: int, levels: int | None, count: int, seed: int
) -> None:
    best(engine, *numbers_of(slots, each, vocabulary, seed, levels), slots, count)


@every_engine
def test_impossible_tokens_and_rows(engine: Engine) -> None:
    """A row of which one token is possible, and a slot of such rows only."""
    scores, score_B = numbers_of(2, 3, 1000, seed=0)
    scores.logits_BV[0] = -torch.inf
    scores.logits_BV[0, 7] = 99.0
    scores.logits_BV[3:] = -torch.inf
    scores.logits_BV[3:, 999] = 0.0
    score_SK, row_SK, token_SK = best(engine, scores, score_B, 2)
    assert (int(row_SK[0, 0]), int(token_SK[0, 0])) == (0, 7)
    assert sorted(row_SK[1, :3].tolist()) == [3, 4, 5] and token_SK[1, :3].tolist() == [999] * 3
    assert torch.isinf(score_SK[1, 3:]).all()


@every_engine
def test_all_continuations(engine: Engine) -> None:
    """Also where more are asked for than there are."""
    scores, score_B = numbers_of(2, 2, 19, seed=3)
    for count in (38, 50):
        assert best(engine, scores, score_B, 2, count)[0].shape == (2, 38)


@every_engine
def test_a_slot_does_not_depend_on_others(engine: Engine) -> None:
    """Not even in the order of equal continuations."""
    scores, score_B = numbers_of(4, 5, 1500, seed=1, levels=2)
    together = best(engine, scores, score_B, 4)
    for slot in range(4):
        rows = slice(5 * slot, 5 * slot + 5)
        own = Scores(scores.logits_BV[rows], scores.offset_B[rows])
        value, row, token = best(engine, own, score_B[rows], 1)
        assert torch.equal(together[0][slot], value[0])
        assert torch.equal(together[1][slot] - 5 * slot, row[0]) and torch.equal(together[2][slot], token[0])


@every_engine
def test_the_best_of_rows_of_a_wider_tensor(engine: Engine) -> None:
    wide_BV, score_B = random(6, 300), random(6, seed=1)
    best(engine, Scores(wide_BV[:, 20:170], torch.zeros(6)), score_B, 2, 8)
