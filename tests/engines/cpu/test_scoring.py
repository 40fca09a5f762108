"""Sums of exponentials of any size, and ties among continuations: what the kernels promise beyond the contract."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nearmt.contracts import Scores
from nearmt.engines.base import EndRule, Mixing
from nearmt.engines.cpu.scoring import CpuScoring, _as_struct, log_sum_exp
from tests.engines.test_scoring import SIZES, random
from tests.kernels import needs_kernels

pytestmark = needs_kernels

INF = math.inf


def assert_adds_up(logits_BV: Tensor) -> None:
    found_B = log_sum_exp(logits_BV)
    torch.testing.assert_close(found_B.double(), logits_BV.double().logsumexp(dim=1), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("vocabulary", SIZES)
@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("size", [1e-30, 1.0, 30.0, 1e4, 1e30])
def test_the_log_of_the_sum_is_that_of_torch(vocabulary: int, rows: int, size: float) -> None:
    logits_BV = size * random(rows, vocabulary)
    assert_adds_up(logits_BV)
    logits_BV[:, 1::2] = -INF
    assert_adds_up(logits_BV)


@given(
    logit_V=st.lists(st.one_of(st.floats(-(2.0**127), 2.0**127, width=32), st.floats(-90, 90, width=32)), min_size=1)
)
def test_the_log_of_the_sum_of_any_row(logit_V: list[float]) -> None:
    assert_adds_up(torch.tensor([logit_V]))


def test_infinite_logits() -> None:
    row_BV = torch.tensor([[-INF] * 20, [INF] + [1.0] * 19, [1.0] * 18 + [-INF, INF]])
    assert log_sum_exp(row_BV).tolist() == [-INF, INF, INF]


def test_many_equal_logits() -> None:
    assert log_sum_exp(torch.full((1, 50_000), -7.0)).item() == pytest.approx(math.log(50_000) - 7, rel=1e-6)


def test_rows_of_a_wider_tensor() -> None:
    wide_BV = random(4, 60)
    assert torch.equal(log_sum_exp(wide_BV[:, :17]), log_sum_exp(wide_BV[:, :17].contiguous()))
    assert torch.equal(log_sum_exp(wide_BV[::2, 5:]), log_sum_exp(wide_BV[::2, 5:].contiguous()))


def test_the_settings_of_a_kernel() -> None:
    mixing, rule = Mixing(0.6, 4.0, 0.3, 0.7), EndRule(3.0, 5.0, 0.1)
    with_rule, without = _as_struct(mixing, rule, 7), _as_struct(mixing, None, 7)
    assert (with_rule.weight, with_rule.temperature) == (0.6, 4.0)
    assert (with_rule.cache_weight, with_rule.cache_temperature) == (0.3, 0.7)
    assert (with_rule.end, with_rule.near, with_rule.cache_near, with_rule.likely) == (7, 3.0, 5.0, 0.1)
    assert without.end == -1


def expected_best(logits_BV: Tensor, base_B: Tensor, slots: int, count: int) -> Tensor:
    """By sorting everything; equal scores stay in their order."""
    rows, vocabulary = logits_BV.shape
    order = (logits_BV + base_B[:, None]).view(slots, -1).sort(dim=1, descending=True, stable=True)
    position_SK = order.indices[:, :count]
    row_SK = position_SK // vocabulary + torch.arange(0, rows, rows // slots)[:, None]
    return torch.stack([order.values[:, :count].double(), row_SK.double(), (position_SK % vocabulary).double()], dim=1)


def best(logits_BV: Tensor, base_B: Tensor, slots: int, count: int) -> Tensor:
    return CpuScoring().best(Scores(logits_BV, torch.zeros_like(base_B)), base_B, slots, count)


@settings(max_examples=150)
@given(data=st.data(), slots=st.integers(1, 3), each=st.integers(1, 4), vocabulary=st.sampled_from(SIZES))
def test_of_equal_continuations_the_first_come_first(
    data: st.DataObject, slots: int, each: int, vocabulary: int
) -> None:
    count = data.draw(st.integers(1, min(12, each * vocabulary)))
    # Few different numbers make ties; many make none.
    levels = data.draw(st.sampled_from([1, 3, 1000]))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 1000)))
    logits_BV = torch.randint(-levels, levels + 1, (slots * each, vocabulary), generator=generator).float()
    logits_BV[torch.rand(logits_BV.shape, generator=generator) < 0.2] = -INF
    base_B = torch.randint(-levels, levels + 1, (slots * each,), generator=generator).float()
    assert torch.equal(best(logits_BV, base_B, slots, count), expected_best(logits_BV, base_B, slots, count))


def test_all_continuations_in_order() -> None:
    logits_BV, base_B = random(4, 19), random(4, seed=1)
    assert torch.equal(best(logits_BV, base_B, 2, 38), expected_best(logits_BV, base_B, 2, 38))


def test_the_best_of_rows_of_a_wider_tensor() -> None:
    wide_BV, base_B = random(6, 300), random(6, seed=1)
    expected_S3K = expected_best(wide_BV[:, 20:170].contiguous(), base_B, 2, 8)
    assert torch.equal(best(wide_BV[:, 20:170], base_B, 2, 8), expected_S3K)


def test_where_nothing_is_possible_the_first_tokens_come_first() -> None:
    found_S3K = best(torch.full((2, 20), -INF), torch.zeros(2), 1, 3)
    assert found_S3K[0].tolist() == [[-INF] * 3, [0.0] * 3, [0.0, 1.0, 2.0]]
