"""Re-use of near queries against a plain list of all earlier queries."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from nearmt.contracts import Neighbours, Origin
from nearmt.research.methods.reuse import ReusingRetriever
from tests.random_stores import random_store
from tests.toy_store import ToyStore

K = 3


class CountingStore(ToyStore):
    """Notes every query that is searched for."""

    def __init__(self, store: ToyStore) -> None:
        super().__init__(store.key_ND, store.token_N, store.ends)
        self.asked: list[list[float]] = []

    def search(self, query_BD: Tensor, k: int) -> Neighbours:
        self.asked += query_BD.tolist()
        return super().search(query_BD, k)


def made_store(sentences: int = 12) -> CountingStore:
    return CountingStore(random_store(3, sentences, columns=2, vocabulary=9))


@dataclass
class Reference:
    """Rows one after the other; what a step finds counts from the next step on."""

    store: ToyStore
    limit: float
    whole_batch: bool
    #: Sentence, query and what it found.
    known: list[tuple[int, list[float], list[int], list[float]]] = field(default_factory=list)

    def step(self, queries: list[list[float]], sentences: list[int]) -> list[tuple[Origin, list[int], list[float]]]:
        results, fresh = [], []
        for query, sentence in zip(queries, sentences, strict=True):
            near = [
                (math.dist(query, other), number)
                for number, (owner, other, _, _) in enumerate(self.known)
                if self.whole_batch or owner == sentence
            ]
            if near and min(near)[0] <= self.limit:
                _, _, entries, distances = self.known[min(near)[1]]
                results.append((Origin.CACHE, entries, distances))
                continue
            found = self.store.search(torch.tensor([query]), K)
            entries, distances = found.entry_BK[0].tolist(), found.distance_BK[0].tolist()
            fresh.append((sentence, query, entries, distances))
            results.append((Origin.SEARCH, entries, distances))
        self.known += fresh
        return results


#: On a grid, so that queries come back and stand at the very limit.
point = st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=2, max_size=2)
steps = st.lists(st.lists(st.tuples(point, st.integers(0, 2)), min_size=1, max_size=4), min_size=1, max_size=6)


@given(steps=steps, limit=st.sampled_from([0.0, 0.5, 0.75, 1.5]), whole_batch=st.booleans())
def test_it_is_the_reference(steps: list[list[tuple[list[float], int]]], limit: float, whole_batch: bool) -> None:
    store = made_store()
    reference = Reference(ToyStore(store.key_ND, store.token_N, store.ends), limit, whole_batch)
    reusing = ReusingRetriever(store, K, limit, whole_batch, sentences=3)
    searches = [0, 0, 0]
    for time, rows in enumerate(steps, 1):
        queries, sentences = [query for query, _ in rows], [sentence for _, sentence in rows]
        before = len(store.asked)
        found = reusing.retrieve(torch.tensor(queries), [time] * len(sentences), sentences)
        expected = reference.step(queries, sentences)
        searched = [row for row, (origin, _, _) in enumerate(expected) if origin == Origin.SEARCH]
        assert found.origin_B.tolist() == [int(origin) for origin, _, _ in expected]
        expected_BK = torch.tensor([distances for _, _, distances in expected])
        assert torch.allclose(found.distance_BK, expected_BK, atol=1e-6)
        assert found.entry_BK.tolist() == [entries for _, entries, _ in expected]
        assert store.asked[before:] == [queries[row] for row in searched]
        for sentence in {sentences[row] for row in searched}:  # rows of a sentence that search together count once
            searches[sentence] += 1
    assert reusing.searches == searches


def retrieve(reusing: ReusingRetriever, time: int, *rows: tuple[tuple[float, float], int]) -> list[int]:
    query_BD = torch.tensor([query for query, _ in rows])
    return reusing.retrieve(query_BD, [time] * len(rows), [source for _, source in rows]).origin_B.tolist()


def test_the_nearest_of_several_earlier_queries_is_taken() -> None:
    store = made_store()
    reusing = ReusingRetriever(store, K, 10.0, whole_batch=True, sentences=1)
    earlier_BD = torch.tensor([[0.0, 0.0], [2.0, 2.0], [1.0, 1.2]])
    first = reusing.retrieve(earlier_BD, [1] * 3, [0, 0, 0])
    second = reusing.retrieve(torch.tensor([[1.1, 1.1], [1.9, 1.9], [-1.0, 0.0]]), [2] * 3, [0, 0, 0])
    assert second.origin_B.tolist() == [int(Origin.CACHE)] * 3
    assert torch.equal(second.entry_BK, first.entry_BK[[2, 1, 0]])
    assert torch.equal(second.distance_BK, first.distance_BK[[2, 1, 0]])
    assert len({tuple(row) for row in first.entry_BK.tolist()}) == 3


@pytest.mark.parametrize("limit", [1e30, math.inf])
def test_a_huge_distance_searches_once(limit: float) -> None:
    search, cache = int(Origin.SEARCH), int(Origin.CACHE)
    batch = ReusingRetriever(made_store(), K, limit, whole_batch=True, sentences=2)
    assert retrieve(batch, 1, ((0.0, 0.0), 0)) == [search]
    assert retrieve(batch, 2, ((5.0, 0.0), 0), ((-7.0, 3.0), 1)) == [cache, cache]
    assert batch.searches == [1, 0]
    source = ReusingRetriever(made_store(), K, limit, whole_batch=False, sentences=2)
    assert retrieve(source, 1, ((0.0, 0.0), 0)) == [search]
    # The other sentence has no query of its own yet: not even the same one counts.
    assert retrieve(source, 2, ((5.0, 0.0), 0), ((0.0, 0.0), 1)) == [cache, search]
    assert retrieve(source, 3, ((9.0, 0.0), 1), ((9.0, 0.0), 0)) == [cache, cache]
    assert source.searches == [1, 1]


def test_distance_0_knows_only_the_same_query() -> None:
    reusing = ReusingRetriever(made_store(), K, 0.0, whole_batch=True, sentences=1)
    assert retrieve(reusing, 1, ((0.25, 0.5), 0)) == [int(Origin.SEARCH)]
    assert retrieve(reusing, 2, ((0.25, 0.5), 0), ((0.25, 0.5000001), 0)) == [int(Origin.CACHE), int(Origin.SEARCH)]


def test_what_was_re_used_is_not_remembered() -> None:
    """Else queries could walk away from what was searched, each a little."""
    reusing = ReusingRetriever(made_store(), K, 1.0, whole_batch=True, sentences=1)
    origins = [retrieve(reusing, time, ((0.8 * time, 0.0), 0))[0] for time in range(1, 5)]
    search, cache = int(Origin.SEARCH), int(Origin.CACHE)
    assert origins == [search, cache, search, cache]


def test_rows_that_are_reordered_keep_the_queries_of_their_sentence() -> None:
    reusing = ReusingRetriever(made_store(), K, 0.1, whole_batch=False, sentences=2)
    retrieve(reusing, 1, ((0.0, 0.0), 0), ((3.0, 3.0), 1))
    reusing.reorder(torch.tensor([1]))  # the first sentence has ended
    assert retrieve(reusing, 2, ((3.0, 3.0), 1)) == [int(Origin.CACHE)]
    assert retrieve(reusing, 3, ((0.0, 0.0), 1)) == [int(Origin.SEARCH)]


def test_an_empty_store_has_nothing_to_re_use() -> None:
    reusing = ReusingRetriever(CountingStore(random_store(0, 0, columns=2, vocabulary=9)), K, 5.0, True, sentences=1)
    for time in (1, 2):
        assert retrieve(reusing, time, ((0.0, 0.0), 0)) == [int(Origin.MODEL)]
    assert reusing.searches == [1]


def test_fewer_entries_than_neighbours() -> None:
    store = CountingStore(ToyStore(torch.tensor([[1.0, 0.0]]), torch.tensor([4]), [1]))
    reusing = ReusingRetriever(store, K, 5.0, True, sentences=1)
    for time, origin in ((1, Origin.SEARCH), (2, Origin.CACHE)):
        found = reusing.retrieve(torch.tensor([[0.5, 0.0]]), [time], [0])
        assert found.origin_B.tolist() == [int(origin)]
        assert found.entry_BK.tolist() == [[0, -1, -1]] and found.distance_BK.tolist() == [[0.25, math.inf, math.inf]]


def test_the_rows_of_a_slot_belong_to_its_sentence() -> None:
    """Rows of a sentence re-use each other's queries, and its searches count once a step."""
    reusing = ReusingRetriever(made_store(), K, 0.1, whole_batch=False, sentences=3)
    reusing.begin([2, 0], torch.tensor([[1], [2]]))  # there is no cache to seed
    query_BD = torch.tensor([[0.0, 0.0], [3.0, 3.0], [5.0, 5.0], [7.0, 7.0]])
    assert reusing.retrieve(query_BD, [1, 1], [2, 0]).origin_B.tolist() == [int(Origin.SEARCH)] * 4
    found = reusing.retrieve(query_BD[[1, 2, 3, 3]], [2, 2], [2, 0])
    assert found.origin_B.tolist() == [
        int(origin) for origin in (Origin.CACHE, Origin.SEARCH, Origin.CACHE, Origin.CACHE)
    ]
    reusing.release([2])
    assert reusing.searches == [1, 0, 2]
