"""What is retrieved at a step: rows of one kind, of several, or of none."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from nearmt.contracts import Neighbours, Origin
from nearmt.engines.cuda.graphs import Pool, Recorder
from nearmt.engines.reference.distances import filled_up
from nearmt.retrieval.retriever import EveryStep, Retrieved
from tests.toy_store import gathered_from, random_store

CPU = torch.device("cpu")
SEARCH, CACHE, MODEL = int(Origin.SEARCH), int(Origin.CACHE), int(Origin.MODEL)
INF = math.inf


def neighbours(*rows: list[int]) -> Neighbours:
    """At distances that are their numbers."""
    entry_BK = torch.tensor(rows)
    return Neighbours(entry_BK, torch.where(entry_BK < 0, INF, entry_BK.float()))


def test_nothing_is_the_model_alone() -> None:
    found = Retrieved.nothing(2, 3, CPU)
    assert found.origin_B.tolist() == [MODEL] * 2
    assert found.entry_BK.tolist() == [[-1] * 3] * 2 and found.distance_BK.tolist() == [[INF] * 3] * 2


def test_all_of_a_kind() -> None:
    found = Retrieved.all_of(Origin.CACHE, neighbours([4, 7], [2, -1], [-1, -1]), 3)
    assert found.entry_BK.tolist() == [[4, 7, -1], [2, -1, -1], [-1] * 3]
    assert found.distance_BK.tolist() == [[4, 7, INF], [2, INF, INF], [INF] * 3]
    # Who has no neighbours has the model, whoever was asked.
    assert found.asked_B.tolist() == [CACHE] * 3 and found.origin_B.tolist() == [CACHE, CACHE, MODEL]


@pytest.mark.parametrize("row_R", [torch.tensor([2, 0]), torch.tensor([0, 1, 2])[[2, 0]]])
def test_some_rows_are_put(row_R: Tensor) -> None:
    found = Retrieved.all_of(Origin.CACHE, neighbours([4, 7, 8], [2, 5, 6], [1, 2, 3]), 3)
    found.put(row_R, Origin.SEARCH, neighbours([9, 11], [-1, -1]))
    # A row is filled anew: nothing stays of what it had.
    assert found.entry_BK.tolist() == [[-1] * 3, [2, 5, 6], [9, 11, -1]]
    assert found.distance_BK.tolist() == [[INF] * 3, [2, 5, 6], [9, 11, INF]]
    assert found.origin_B.tolist() == [MODEL, CACHE, SEARCH]


def test_all_rows_are_put() -> None:
    found = Retrieved.nothing(2, 3, CPU)
    found.put(slice(None), Origin.SEARCH, neighbours([9, 11], [3, -1]))
    assert found.entry_BK.tolist() == [[9, 11, -1], [3, -1, -1]]
    assert found.origin_B.tolist() == [SEARCH] * 2


def test_what_is_put_does_not_change_what_it_came_from() -> None:
    given = neighbours([4, 7])
    assert filled_up(given, 2) is given
    found = Retrieved.nothing(1, 2, CPU)
    found.put(torch.tensor([0]), Origin.SEARCH, given)
    found.entry_BK.fill_(0)
    assert given.entry_BK.tolist() == [[4, 7]]


@pytest.mark.parametrize("steady", [None, False, True])
def test_searching_at_every_step_counts_sentences(steady: bool | None) -> None:
    """Recorded, where searches are always alike, or not: the same is found."""
    store, recorders = random_store(0, sentences=8, columns=4, vocabulary=9), Pool[Recorder]()
    store.gathered = None if steady is None else gathered_from(store, steady=steady)
    retriever = EveryStep(store, 3, 3, recorders)
    assert (retriever._record is not None) == bool(steady)
    query_BD = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    expected = store.search(query_BD, 3)
    for time, sources in ((1, [0, 0, 2, 2]), (2, [0, 0, 1, 1])):
        found = retriever.retrieve(query_BD, [time] * 4, sources)
        assert torch.equal(found.entry_BK, expected.entry_BK) and torch.equal(found.distance_BK, expected.distance_BK)
        assert found.origin_B.tolist() == [SEARCH] * 4
    assert retriever.searches == [2, 1, 1]
