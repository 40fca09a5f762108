"""Rows of different lengths in one array."""

from __future__ import annotations

import numpy as np
import pytest

from nearmt.models.ragged import Ragged, ranges

ROWS = [[1, 2, 3], [], [4], [5, 6]]


def as_lists(ragged: Ragged) -> list[list[int]]:
    return [row.tolist() for row in ragged.rows()]


def test_rows_come_back() -> None:
    ragged = Ragged.of(ROWS)
    assert as_lists(ragged) == ROWS and len(ragged) == 4
    assert as_lists(Ragged.of([])) == []


@pytest.mark.parametrize("chosen", [[0, 1, 2, 3], [3, 1, 0], [1], []])
def test_chosen_rows_keep_their_order(chosen: list[int]) -> None:
    assert as_lists(Ragged.of(ROWS).take(np.array(chosen, dtype=np.int64))) == [ROWS[number] for number in chosen]


def test_several_are_joined() -> None:
    assert as_lists(Ragged.joined([Ragged.of(ROWS[:1]), Ragged.of(ROWS[1:2]), Ragged.of(ROWS[2:])])) == ROWS


def test_rows_are_padded_on_the_right() -> None:
    assert Ragged.of(ROWS).padded(9).tolist() == [[1, 2, 3], [9, 9, 9], [4, 9, 9], [5, 6, 9]]
    assert Ragged.of([[], []]).padded(9, least=2).tolist() == [[9, 9], [9, 9]]


def test_ranges_count_from_each_start() -> None:
    assert ranges(np.array([5, 0, 7]), np.array([2, 0, 3])).tolist() == [5, 6, 7, 8, 9]
