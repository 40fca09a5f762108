"""The best candidates against an order of everything."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nearmt.contracts import Scores
from nearmt.decoding.candidates import best_candidates

COUNT = 10


def case(sentences: int, each: int, vocabulary: int, seed: int, levels: int | None = None) -> tuple[Scores, Tensor]:
    """Random numbers; with `levels` only so many different ones, so that many are equal."""
    generator = torch.Generator().manual_seed(seed)
    rows = sentences * each

    def numbers(*shape: int) -> Tensor:
        if levels is None:
            return 3 * torch.randn(*shape, generator=generator)
        return torch.randint(levels, shape, generator=generator).float()

    return Scores(numbers(rows, vocabulary), numbers(rows)), numbers(rows)


def check(scores: Scores, score_B: Tensor, sentences: int, count: int = COUNT) -> None:
    """Their scores are the largest, in order, each at the row and token that it names, each named once."""
    found_SK, row_SK, token_SK = best_candidates(scores, score_B, sentences, count)
    total_BV = scores.logits_BV + (scores.offset_B + score_B)[:, None]
    rows, vocabulary = total_BV.shape
    each = rows // sentences
    expected_SK = total_BV.view(sentences, -1).sort(dim=1, descending=True).values[:, :count]
    assert torch.equal(found_SK, expected_SK)
    assert torch.equal(total_BV[row_SK, token_SK], found_SK)
    assert bool((row_SK // each == torch.arange(sentences)[:, None]).all())
    for places in (row_SK * vocabulary + token_SK).tolist():
        assert len(set(places)) == len(places)


@pytest.mark.parametrize("vocabulary", [1, 3, 63, 64, 65, 700, 1024, 2050])
@pytest.mark.parametrize(("sentences", "each"), [(1, 1), (1, 5), (3, 1), (3, 5)])
def test_all_sizes(vocabulary: int, sentences: int, each: int) -> None:
    check(*case(sentences, each, vocabulary, seed=vocabulary), sentences)


@settings(deadline=None, max_examples=50)
@given(
    vocabulary=st.integers(1, 3000),
    sentences=st.integers(1, 4),
    each=st.integers(1, 6),
    levels=st.sampled_from([1, 2, 5, None]),
    count=st.integers(1, 12),
    seed=st.integers(0, 1000),
)
def test_equal_numbers_and_any_size(
    vocabulary: int, sentences: int, each: int, levels: int | None, count: int, seed: int
) -> None:
    check(*case(sentences, each, vocabulary, seed, levels), sentences, count)


def test_forbidden_tokens_and_rows() -> None:
    """A row of which nothing is left but one token, and a sentence of such rows only."""
    scores, score_B = case(2, 3, 1000, seed=0)
    scores.logits_BV[0] = -torch.inf
    scores.logits_BV[0, 7] = 99.0
    scores.logits_BV[3:] = -torch.inf
    scores.logits_BV[3:, 999] = 0.0
    check_SK, row_SK, token_SK = best_candidates(scores, score_B, 2, COUNT)
    assert (int(row_SK[0, 0]), int(token_SK[0, 0])) == (0, 7)
    assert sorted(row_SK[1, :3].tolist()) == [3, 4, 5] and token_SK[1, :3].tolist() == [999] * 3
    assert torch.isinf(check_SK[1, 3:]).all()
    check(scores, score_B, 2)


def test_a_sentence_does_not_depend_on_those_beside_it() -> None:
    """Not even in the order of equal candidates."""
    scores, score_B = case(4, 5, 1500, seed=1, levels=2)
    together = best_candidates(scores, score_B, 4, COUNT)
    for number in range(4):
        rows = slice(5 * number, 5 * number + 5)
        own = Scores(scores.logits_BV[rows], scores.offset_B[rows])
        value, row, token = best_candidates(own, score_B[rows], 1, COUNT)
        assert torch.equal(together[0][number], value[0])
        assert torch.equal(together[1][number] - 5 * number, row[0]) and torch.equal(together[2][number], token[0])
