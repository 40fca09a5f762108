"""The neighbours of a step: rows of one origin, of several, or without any."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from nearmt.contracts import Neighbours, Origin
from nearmt.engines.base import CachePlan, Retrieved, padded

CPU = torch.device("cpu")
SEARCH, CACHE, MODEL = int(Origin.SEARCH), int(Origin.CACHE), int(Origin.MODEL)
INF = math.inf


def neighbours(*rows: list[int]) -> Neighbours:
    """At distances that are their numbers."""
    entry_BK = torch.tensor(rows)
    return Neighbours(entry_BK, torch.where(entry_BK < 0, INF, entry_BK.float()))


def test_rows_without_neighbours_are_the_models() -> None:
    found = Retrieved.nothing(2, 3, CPU)
    assert found.origin_B.tolist() == [MODEL] * 2
    assert found.entry_BK.tolist() == [[-1] * 3] * 2 and found.distance_BK.tolist() == [[INF] * 3] * 2


def test_all_rows_of_one_origin() -> None:
    found = Retrieved.all_of(Origin.CACHE, neighbours([4, 7], [2, -1], [-1, -1]), 3)
    assert found.entry_BK.tolist() == [[4, 7, -1], [2, -1, -1], [-1] * 3]
    assert found.distance_BK.tolist() == [[4, 7, INF], [2, INF, INF], [INF] * 3]
    # A row without neighbours is the model's, wherever they were looked for.
    assert found.asked_B.tolist() == [CACHE] * 3 and found.origin_B.tolist() == [CACHE, CACHE, MODEL]


@pytest.mark.parametrize("row_R", [torch.tensor([2, 0]), torch.tensor([0, 1, 2])[[2, 0]]])
def test_some_rows_are_set(row_R: Tensor) -> None:
    found = Retrieved.all_of(Origin.CACHE, neighbours([4, 7, 8], [2, 5, 6], [1, 2, 3]), 3)
    found.put(row_R, Origin.SEARCH, neighbours([9, 11], [-1, -1]))
    # Nothing stays of what a row had.
    assert found.entry_BK.tolist() == [[-1] * 3, [2, 5, 6], [9, 11, -1]]
    assert found.distance_BK.tolist() == [[INF] * 3, [2, 5, 6], [9, 11, INF]]
    assert found.origin_B.tolist() == [MODEL, CACHE, SEARCH]


def test_all_rows_are_set() -> None:
    found = Retrieved.nothing(2, 3, CPU)
    found.put(slice(None), Origin.SEARCH, neighbours([9, 11], [3, -1]))
    assert found.entry_BK.tolist() == [[9, 11, -1], [3, -1, -1]]
    assert found.origin_B.tolist() == [SEARCH] * 2


def test_setting_rows_does_not_share_memory() -> None:
    given = neighbours([4, 7])
    assert padded(given, 2) is given
    found = Retrieved.nothing(1, 2, CPU)
    found.put(torch.tensor([0]), Origin.SEARCH, given)
    found.entry_BK.fill_(0)
    assert given.entry_BK.tolist() == [[4, 7]]


def test_the_first_rows_are_a_view() -> None:
    found = Retrieved.all_of(Origin.CACHE, neighbours([4, 7], [2, 5], [1, 2]), 2)
    first = found.first(2)
    assert first.entry_BK.tolist() == [[4, 7], [2, 5]] and first.asked_B.tolist() == [CACHE] * 2
    found.entry_BK.fill_(9)
    assert first.entry_BK.tolist() == [[9, 9]] * 2


def test_another_device() -> None:
    found = Retrieved.nothing(2, 3, CPU)
    assert found.to(CPU) is found
    moved = found.to(torch.device("meta"))
    assert {part.device.type for part in (moved.asked_B, moved.entry_BK, moved.distance_BK)} == {"meta"}


@pytest.mark.parametrize(("k", "cache_k", "width"), [(3, 4, 4), (6, 2, 6), (5, 5, 5)])
def test_a_step_has_columns_for_searches_and_for_the_cache(k: int, cache_k: int, width: int) -> None:
    assert CachePlan(k, cache_k, chunk=3, columns=48).width == width
