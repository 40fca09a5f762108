"""Slices of a dev set."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.research.tuning.slices import make_slices


@given(st.integers(0, 700), st.integers(1, 20), st.integers(1, 80))
def test_every_sentence_is_in_one_slice(sentences: int, together: int, smallest: int) -> None:
    slices = make_slices(sentences, together, smallest)
    assert sorted(number for part in slices.parts for number in part) == list(range(sentences))
    assert all(list(part) == sorted(part) for part in slices.parts)
    assert slices.counts[-1] == sentences
    if len(slices.parts) > 1:
        assert min(len(part) for part in slices.parts) >= smallest
        assert slices.shares == sorted(slices.shares) and slices.shares[-1] == 1.0


@pytest.mark.parametrize(("sentences", "counts"), [(1000, [250, 500, 1000]), (190, [95, 190]), (99, [99]), (1, [1])])
def test_small_dev_sets_have_fewer_slices(sentences: int, counts: list[int]) -> None:
    assert make_slices(sentences).counts == counts


def test_slices_are_evenly_spread() -> None:
    first = make_slices(1000).parts[0]
    assert [sum(start <= number < start + 100 for number in first) for start in range(0, 1000, 100)] == [25] * 10


def test_blocks_are_not_cut() -> None:
    """Batches that share a cache are the same in the slices as in the whole dev set."""
    slices = make_slices(1003, together=8)
    batches = {tuple(range(start, min(start + 8, 1003))) for start in range(0, 1003, 8)}
    for part in slices.parts:
        # Only the last batch of the dev set may be shorter, and it is last in its slice.
        assert {part[start : start + 8] for start in range(0, len(part), 8)} <= batches
