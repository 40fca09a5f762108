"""From logits to candidates by kernels: what torch says, and equations 2 and 3 as they are written."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nearmt.contracts import Evidence, Origin, Scores
from nearmt.engines.cpu import scores
from nearmt.engines.cpu.library import Mixing
from nearmt.methods.fused import NO_RULE, EndRule
from nearmt.methods.mixing import FixedMixer
from nearmt.retrieval import distribution
from nearmt.retrieval.retriever import Retrieved
from tests.kernels import needs_kernels
from tests.methods.reference import equation_2, equation_3, log_softmax
from tests.methods.test_fused import (
    ANYHOW,
    LIKELY,
    MIXER,
    RULES,
    WHOLE,
    by_torch,
    hardly_any,
    leaving,
    made_store,
    random_found,
    random_logits,
)

pytestmark = needs_kernels

INF = math.inf
#: Sizes around the 16 that are read together.
SIZES = [1, 2, 15, 16, 17, 31, 64, 100]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# What a row adds up to.


def assert_adds_up(logits_BV: Tensor) -> None:
    found_B = scores.log_of_sum(logits_BV)
    torch.testing.assert_close(found_B.double(), logits_BV.double().logsumexp(dim=1), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("vocabulary", SIZES)
@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("size", [1e-30, 1.0, 30.0, 1e4, 1e30])
def test_the_logarithm_of_the_sum_is_that_of_torch(vocabulary: int, rows: int, size: float) -> None:
    logits_BV = size * random(rows, vocabulary)
    assert_adds_up(logits_BV)
    logits_BV[:, 1::2] = -INF
    assert_adds_up(logits_BV)


@given(
    logit_V=st.lists(st.one_of(st.floats(-(2.0**127), 2.0**127, width=32), st.floats(-90, 90, width=32)), min_size=1)
)
def test_any_row_adds_up(logit_V: list[float]) -> None:
    assert_adds_up(torch.tensor([logit_V]))


def test_rows_without_an_end_add_up() -> None:
    row_BV = torch.tensor([[-INF] * 20, [INF] + [1.0] * 19, [1.0] * 18 + [-INF, INF]])
    assert scores.log_of_sum(row_BV).tolist() == [-INF, INF, INF]


def test_many_equal_logits() -> None:
    assert scores.log_of_sum(torch.full((1, 50_000), -7.0)).item() == pytest.approx(math.log(50_000) - 7, rel=1e-6)


def test_rows_may_stand_apart() -> None:
    wide_BV = random(4, 60)
    assert torch.equal(scores.log_of_sum(wide_BV[:, :17]), scores.log_of_sum(wide_BV[:, :17].contiguous()))
    assert torch.equal(scores.log_of_sum(wide_BV[::2, 5:]), scores.log_of_sum(wide_BV[::2, 5:].contiguous()))


def test_what_kernels_read(request: pytest.FixtureRequest) -> None:
    logits_BV = random(3, 20)
    assert scores.serves(logits_BV) and scores.serves(logits_BV[:, 3:9])
    assert not scores.serves(logits_BV.double())
    assert not scores.serves(logits_BV.half())
    assert not scores.serves(logits_BV.T)
    assert not scores.serves(logits_BV.to("meta"))
    request.getfixturevalue("no_kernels")
    assert not scores.serves(logits_BV)


# Equation 3.


def mixed(logits_BV: Tensor, token_BK: Tensor, weight_BK: Tensor, share_B: Tensor) -> Tensor:
    """Log-probabilities."""
    logits_BV = logits_BV.clone()
    offset_B = scores.mix(logits_BV, -scores.log_of_sum(logits_BV), token_BK, weight_BK, share_B)
    return logits_BV + offset_B[:, None]


def made_evidence(rows: int, k: int, vocabulary: int) -> Evidence:
    """Few tokens, so that neighbours agree; shares from none to all."""
    generator = torch.Generator().manual_seed(k)
    token_BK = torch.randint(0, min(vocabulary, 4), (rows, k), generator=generator)
    weight_BK = torch.rand(rows, k, generator=generator).softmax(dim=1)
    share_B = torch.tensor([0.0, 0.3, 1.0, 0.999, 1e-4]).repeat(rows)[:rows]
    return Evidence(torch.full((rows,), int(Origin.SEARCH)), torch.zeros_like(token_BK), token_BK, weight_BK, share_B)


@pytest.mark.parametrize("vocabulary", [4, 17, 64])
@pytest.mark.parametrize("k", [1, 3, 16, 40])
def test_the_mixture_is_that_of_torch(vocabulary: int, k: int, request: pytest.FixtureRequest) -> None:
    logits_BV, evidence = 5 * random(7, vocabulary), made_evidence(7, k, vocabulary)
    logits_BV[:, 1] = -INF
    found_BV = mixed(logits_BV, evidence.token_BK, evidence.weight_BK, evidence.share_B)
    torch.testing.assert_close(found_BV.logsumexp(dim=1), torch.zeros(7), rtol=0, atol=1e-5)
    request.getfixturevalue("no_kernels")
    expected = distribution.mix(Scores.of(logits_BV.clone()), evidence)
    torch.testing.assert_close(found_BV, expected.log_probs(), rtol=1e-5, atol=1e-5)


distances = st.one_of(st.floats(0, 50, width=32), st.just(INF))
neighbours = st.lists(st.tuples(distances, st.integers(0, 16)), min_size=1, max_size=9)
logits = st.lists(st.one_of(st.floats(-20, 20, width=32), st.just(-INF)), min_size=16, max_size=16)


@given(logit_V=logits, found=neighbours, temperature=st.sampled_from([0.5, 1.0, 100.0]), share=st.floats(0, 1))
def test_the_mixture_is_the_equations(
    logit_V: list[float], found: list[tuple[float, int]], temperature: float, share: float
) -> None:
    logit_V = [*logit_V, 1.0]  # one of them is possible
    there = [(distance, place) for place, (distance, _) in enumerate(found) if distance < INF]
    distance_1K, token_1K = torch.tensor([[d for d, _ in found]]), torch.tensor([[token for _, token in found]])
    weight_1K = distribution.neighbour_weights(distance_1K, temperature)
    share_1 = torch.tensor([share if there else 0.0])
    found_V = mixed(torch.tensor([logit_V]), token_1K, weight_1K, share_1)[0]
    assert found_V.logsumexp(dim=0).item() == pytest.approx(0.0, abs=1e-5)
    with np.errstate(divide="ignore"):
        expected_V = log_softmax(np.array(logit_V))
        if there:
            speak = equation_2(there, token_1K[0].tolist(), temperature)
            expected_V = equation_3(expected_V, speak, float(share_1))
    np.testing.assert_allclose(np.exp(found_V.numpy()), np.exp(expected_V), rtol=0, atol=1e-5)


def test_a_share_of_nothing_leaves_every_bit() -> None:
    logits_BV, evidence = random(5, 33), made_evidence(5, 8, 33)
    before_BV, offset_B = logits_BV.clone(), random(5, seed=1)
    share_B = torch.tensor([0.0, 0.5, 0.0, 1.0, 0.0])
    found_B = scores.mix(logits_BV, offset_B, evidence.token_BK, evidence.weight_BK, share_B)
    still_B = share_B == 0
    assert torch.equal(logits_BV[still_B], before_BV[still_B]) and torch.equal(found_B[still_B], offset_B[still_B])
    assert not torch.equal(logits_BV[1], before_BV[1]) and found_B[1] != offset_B[1]


def test_only_spoken_tokens_change_and_the_offset_is_a_new_one() -> None:
    logits_BV, offset_B = random(2, 20), random(2, seed=1)
    before_BV, before_B = logits_BV.clone(), offset_B.clone()
    token_BK, weight_BK = torch.tensor([[3, 5], [0, 0]]), torch.tensor([[0.5, 0.5], [1.0, 0.0]])
    scores.mix(logits_BV, offset_B, token_BK, weight_BK, torch.tensor([0.5, 0.25]))
    assert (logits_BV != before_BV).nonzero().tolist() == [[0, 3], [0, 5], [1, 0]]
    assert torch.equal(offset_B, before_B)


def test_a_share_of_everything_leaves_nothing_to_the_model() -> None:
    found_1V = mixed(random(1, 20), torch.tensor([[7, 2, 7]]), torch.tensor([[0.25, 0.5, 0.25]]), torch.ones(1))
    assert found_1V.isfinite().nonzero().tolist() == [[0, 2], [0, 7]]
    torch.testing.assert_close(found_1V[0, [2, 7]].exp(), torch.tensor([0.5, 0.5]))


def test_neighbours_with_the_same_token_add_up() -> None:
    logits_BV, share_B = random(1, 20), torch.tensor([0.4])
    apart = mixed(logits_BV, torch.tensor([[9, 4, 9, 9]]), torch.tensor([[0.1, 0.4, 0.2, 0.3]]), share_B)
    joined = mixed(logits_BV, torch.tensor([[4, 9]]), torch.tensor([[0.4, 0.6]]), share_B)
    torch.testing.assert_close(apart, joined)


def test_a_neighbour_that_is_not_there_speaks_for_nobody() -> None:
    """Its token stands for nothing, whether another neighbour speaks for that token or the model rules it out."""
    logits_BV = torch.tensor([[-INF, 1.0, 2.0], [0.0, 1.0, 2.0]])
    found_BV = mixed(logits_BV, torch.tensor([[1, 0], [0, 0]]), torch.tensor([[1.0, 0.0]] * 2), torch.tensor([0.5] * 2))
    alone_BV = mixed(logits_BV, torch.tensor([[1], [0]]), torch.ones(2, 1), torch.tensor([0.5] * 2))
    assert found_BV[0, 0] == -INF
    assert torch.equal(found_BV, alone_BV)


def test_evidence_may_lie_anywhere() -> None:
    """What a kernel reads has to live until it is done: also copies that are made for it."""
    logits_BV, evidence = random(300, 20), made_evidence(300, 40, 20)
    parts = evidence.token_BK, evidence.weight_BK, evidence.share_B
    expected_BV = mixed(logits_BV, *parts)
    token_BK, weight_BK = parts[0].T.contiguous().T, parts[1].T.contiguous().T
    assert not token_BK.is_contiguous() and not weight_BK.is_contiguous()
    for share_B in (parts[2].double(), parts[2].repeat_interleave(2)[::2]):
        assert torch.equal(mixed(logits_BV, token_BK, weight_BK, share_B), expected_BV)
    wide_BV = random(300, 50)
    wide_BV[:, :20] = logits_BV
    offset_B = scores.mix(wide_BV[:, :20], -scores.log_of_sum(logits_BV), *parts)
    assert torch.equal(wide_BV[:, :20] + offset_B[:, None], expected_BV)


# Equations 2 and 3 at once.


def mixed_neighbours(
    logits_BV: Tensor,
    found: Retrieved,
    token_N: Tensor,
    trust_B: Tensor | None,
    rule: EndRule = NO_RULE,
    mixer: FixedMixer = MIXER,
) -> Tensor:
    """Log-probabilities."""
    logits_BV = logits_BV.clone()
    weights = mixer.weight, mixer.temperature, mixer.cache_weight, mixer.cache_temperature
    retrieved = found.entry_BK, found.distance_BK, found.asked_B
    mixing = Mixing(*weights, int(Origin.SEARCH), *rule)
    offset_B = scores.mix_neighbours(mixing, logits_BV, *retrieved, token_N, trust_B)
    return logits_BV + offset_B[:, None]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tokens", [1, 3, 40])
@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("rule", [NO_RULE, LIKELY, *RULES.values()], ids=["no rule", "likely", *RULES])
def test_neighbours_are_weighed_and_mixed_as_torch_does(
    seed: int, tokens: int, guarded: bool, rule: EndRule, request: pytest.FixtureRequest
) -> None:
    logits_BV, found, store = random_logits(seed), random_found(seed), made_store(tokens=tokens)
    assert (found.entry_BK < 0).all(dim=1).any()
    trust_B = torch.tensor([1.0, 0.5, 0.0, 0.9, 1e-3, 1.0]) if guarded else None
    found_BV = mixed_neighbours(logits_BV, found, store.token_N.int(), trust_B, rule)
    torch.testing.assert_close(found_BV.logsumexp(dim=1), torch.zeros(len(found_BV)), rtol=0, atol=1e-5)
    request.getfixturevalue("no_kernels")
    expected = by_torch(logits_BV, found, store, MIXER, trust_B, rule)
    torch.testing.assert_close(found_BV, expected.log_probs(), rtol=1e-5, atol=1e-5)


def test_rows_without_neighbours_or_trust_keep_every_bit() -> None:
    logits_BV, found = random_logits(0), random_found(0)
    trust_B = torch.tensor([0.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    found_BV = mixed_neighbours(logits_BV, found, made_store().token_N.int(), trust_B)
    model_BV = logits_BV - scores.log_of_sum(logits_BV)[:, None]
    same_B = (found_BV == model_BV).all(dim=1)
    assert same_B.tolist() == [True, False, False, False, False, True]


@pytest.mark.parametrize("mixer", [MIXER, WHOLE], ids=["share", "whole"])
def test_where_all_neighbours_leave_the_model_keeps_every_bit(mixer: FixedMixer) -> None:
    logits_BV, found, token_N = random_logits(0), random_found(0), made_store(tokens=1).token_N.int()
    found_BV = mixed_neighbours(logits_BV, found, token_N, None, RULES["none"], mixer)
    assert torch.equal(found_BV, logits_BV - scores.log_of_sum(logits_BV)[:, None])
    assert not torch.equal(found_BV, mixed_neighbours(logits_BV, found, token_N, None, NO_RULE, mixer))


@pytest.mark.parametrize("mixer", [MIXER, WHOLE], ids=["share", "whole"])
@pytest.mark.parametrize("name", ["some", "none", "all", "unspoken"])
def test_where_nobody_leaves_rows_keep_every_bit(name: str, mixer: FixedMixer) -> None:
    logits_BV, found, store = random_logits(1), random_found(1), made_store(tokens=3)
    found_BV = mixed_neighbours(logits_BV, found, store.token_N.int(), None, RULES[name], mixer)
    without_BV = mixed_neighbours(logits_BV, found, store.token_N.int(), None, NO_RULE, mixer)
    same_B = (found_BV == without_BV).all(dim=1)
    assert same_B.tolist() == (~leaving(found, store, RULES[name]).any(dim=1)).tolist()
    assert same_B.all() == (name in ("all", "unspoken"))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_share_of_all_leaves_the_model_what_ends_had(
    seed: int, rule: EndRule, request: pytest.FixtureRequest
) -> None:
    logits_BV, found, store = random_logits(seed), random_found(seed), made_store(tokens=3)
    found_BV = mixed_neighbours(logits_BV, found, store.token_N.int(), None, rule, WHOLE)
    # Where some leave or nobody is there, the model speaks.
    modelled_B = leaving(found, store, rule).any(dim=1) | (found.entry_BK < 0).all(dim=1)
    assert torch.equal(found_BV.isfinite().all(dim=1), modelled_B)
    request.getfixturevalue("no_kernels")
    expected_BV = by_torch(logits_BV, found, store, WHOLE, None, rule).log_probs()
    torch.testing.assert_close(found_BV.exp(), expected_BV.exp(), rtol=1e-5, atol=1e-6)


def test_a_far_end_by_hand() -> None:
    """One half ends the sentence, a quarter each says something else: with a lambda of 1 the model has that half."""
    mixer = FixedMixer(weight=1.0, temperature=1.0, cache_weight=1.0, cache_temperature=1.0)
    found = Retrieved(
        torch.tensor([int(Origin.SEARCH)]), torch.tensor([[0, 1, 2]]), torch.tensor([[4.0, *[4 + math.log(2)] * 2]])
    )
    token_N, rule = torch.tensor([0, 2, 3]).int(), EndRule(0, 3.99, 9.0, ANYHOW)
    probability_V = mixed_neighbours(torch.zeros(1, 4), found, token_N, None, rule, mixer)[0].exp()
    torch.testing.assert_close(probability_V, torch.tensor([0.125, 0.125, 0.375, 0.375]))
    # With half of the trust the neighbours have half as much; and one that is just near enough may speak.
    trusted_V = mixed_neighbours(torch.zeros(1, 4), found, token_N, torch.tensor([0.5]), rule, mixer)[0].exp()
    torch.testing.assert_close(trusted_V, torch.tensor([0.1875, 0.1875, 0.3125, 0.3125]))
    spoken_V = mixed_neighbours(torch.zeros(1, 4), found, token_N, None, EndRule(0, 4.0, 0.0, ANYHOW), mixer)[0].exp()
    torch.testing.assert_close(spoken_V, torch.tensor([0.5, 0.0, 0.25, 0.25]))
    # The model gives the end a quarter: where that is likely, those who are far may speak, too.
    likely_V = mixed_neighbours(torch.zeros(1, 4), found, token_N, None, EndRule(0, 3.99, 9.0, 0.25), mixer)[0].exp()
    torch.testing.assert_close(likely_V, spoken_V)


def test_what_is_left_may_be_next_to_nothing() -> None:
    """Shares are rounded, but never above what they were: a model with a share below 0 would say nothing."""
    found, store = hardly_any()
    logits_BV = random_logits(1, len(found.asked_B))
    found_BV = mixed_neighbours(logits_BV, found, store.token_N.int(), None, RULES["some"], WHOLE)
    torch.testing.assert_close(found_BV.exp().sum(dim=1), torch.ones(len(found_BV)))


def test_far_neighbours_count_by_their_differences() -> None:
    found = Retrieved(
        torch.tensor([int(Origin.SEARCH)]), torch.tensor([[0, 1]]), torch.tensor([[1e4, 1e4 + 4 * math.log(4)]])
    )
    probability_V = mixed_neighbours(torch.zeros(1, 4), found, torch.tensor([2, 3]).int(), None)[0].exp()
    expected_V = 0.4 / 4 + 0.6 * torch.tensor([0.0, 0.0, 0.8, 0.2])
    torch.testing.assert_close(probability_V, expected_V, atol=2e-4, rtol=0)


def test_no_neighbours_at_all() -> None:
    found, logits_BV = Retrieved.nothing(6, 0, torch.device("cpu")), random_logits(0)
    found_BV = mixed_neighbours(logits_BV, found, torch.zeros(0).int(), None)
    torch.testing.assert_close(found_BV, logits_BV.log_softmax(dim=1), rtol=1e-5, atol=1e-5)


# The best continuations.


def expected_best(logits_BV: Tensor, base_B: Tensor, sentences: int, count: int) -> Tensor:
    """By sorting everything; equal scores stay in their order."""
    rows, vocabulary = logits_BV.shape
    total_SX = (logits_BV + base_B[:, None]).view(sentences, -1)
    order = total_SX.sort(dim=1, descending=True, stable=True)
    place_SK = order.indices[:, :count]
    row_SK = place_SK // vocabulary + torch.arange(0, rows, rows // sentences)[:, None]
    return torch.stack([order.values[:, :count].double(), row_SK.double(), (place_SK % vocabulary).double()], dim=1)


@settings(max_examples=150)
@given(data=st.data(), sentences=st.integers(1, 3), each=st.integers(1, 4), vocabulary=st.sampled_from(SIZES))
def test_the_best_are_the_first_of_all_in_order(
    data: st.DataObject, sentences: int, each: int, vocabulary: int
) -> None:
    count = data.draw(st.integers(1, min(12, each * vocabulary)))
    # Few different numbers make ties; the largest of them none.
    levels = data.draw(st.sampled_from([1, 3, 1000]))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 1000)))
    logits_BV = torch.randint(-levels, levels + 1, (sentences * each, vocabulary), generator=generator).float()
    logits_BV[torch.rand(logits_BV.shape, generator=generator) < 0.2] = -INF
    base_B = torch.randint(-levels, levels + 1, (sentences * each,), generator=generator).float()
    found_S3K = scores.best(logits_BV, base_B, sentences, count)
    assert torch.equal(found_S3K, expected_best(logits_BV, base_B, sentences, count))


def test_the_best_of_rows_that_stand_apart() -> None:
    wide_BV, base_B = random(6, 300), random(6, seed=1)
    found_S3K = scores.best(wide_BV[:, 20:170], base_B, 2, 8)
    assert torch.equal(found_S3K, expected_best(wide_BV[:, 20:170].contiguous(), base_B, 2, 8))


def test_all_continuations_in_order() -> None:
    logits_BV, base_B = random(4, 19), random(4, seed=1)
    assert torch.equal(scores.best(logits_BV, base_B, 2, 38), expected_best(logits_BV, base_B, 2, 38))


def test_where_nothing_is_possible_the_first_come_first() -> None:
    found_S3K = scores.best(torch.full((2, 20), -INF), torch.zeros(2), 1, 3)
    assert found_S3K[0].tolist() == [[-INF] * 3, [0.0] * 3, [0.0, 1.0, 2.0]]
