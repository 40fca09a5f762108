"""The policy of retrieval: which sentences search when, and what a cache is told; the cache itself is a fake."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from nearmt.config.schedule import EverySchedule, GeometricSchedule, Schedule, search_steps
from nearmt.engines.base import CachePlan, Retrieved, SentenceCache
from nearmt.retrieval.retriever import RetrievalPlan, ScheduledRetriever
from tests.random_stores import random_store
from tests.toy_store import ToyStore

CPU = torch.device("cpu")
CACHE = CachePlan(k=3, cache_k=4, chunk=2, columns=5)


class RecordingCache:
    """Notes what it is told, and finds nothing."""

    def __init__(self) -> None:
        self.seeded: list[tuple[list[int], list[list[int]]]] = []
        #: Sentences in the slots, slots that search, and their rows that do.
        self.steps: list[tuple[list[int], list[int], int]] = []
        self.released: list[list[int]] = []
        self.reordered: list[list[int]] = []

    def seed(self, sentences: Sequence[int], entry_SX: Tensor) -> None:
        self.seeded.append((list(sentences), entry_SX.tolist()))

    def step(self, query_BD: Tensor, sentences: Sequence[int], due: Sequence[int], rows: int) -> Retrieved:
        self.steps.append((list(sentences), list(due), rows))
        return Retrieved.nothing(len(query_BD), CACHE.width, query_BD.device)

    def held(self, sentences: Sequence[int]) -> list[int]:
        return [100 * (sentence + 1) for sentence in sentences]

    def release(self, sentences: Sequence[int]) -> None:
        self.released.append(list(sentences))

    def reorder(self, row_B: Tensor) -> None:
        self.reordered.append(row_B.tolist())


class RecordingStore(ToyStore):
    """Gives every request a recording cache."""

    def __init__(self) -> None:
        known = random_store(0, sentences=8, columns=5, vocabulary=9)
        super().__init__(known.key_ND, known.token_N, known.ends)
        self.made: list[tuple[CachePlan, torch.device, RecordingCache]] = []

    def new_cache(self, plan: CachePlan, device: torch.device) -> SentenceCache:
        self.made.append((plan, device, RecordingCache()))
        return self.made[-1][2]


def retriever_of(
    schedule: Schedule | None, lengths: Sequence[int], beams: int = 3, max_steps: int = 20
) -> tuple[ScheduledRetriever, RecordingCache]:
    store, plan = RecordingStore(), RetrievalPlan(schedule, beams, CACHE)
    retriever = ScheduledRetriever(store, plan, lengths, max_steps, CPU)
    ((cache_plan, device, cache),) = store.made
    assert cache_plan is CACHE and device == CPU
    return retriever, cache


def retrieve(retriever: ScheduledRetriever, now: dict[int, int], rows: int = 2) -> Retrieved:
    """A step of some sentences, which are at these steps."""
    query_BD = torch.zeros(rows * len(now), 5)
    return retriever.retrieve(query_BD, list(now.values()), list(now))


def test_sentences_search_when_their_own_schedule_says() -> None:
    """|x| decides, and sentences need not be at the same step."""
    schedule, lengths = GeometricSchedule(2, 8), [4, 100, 9]
    retriever, cache = retriever_of(schedule, lengths)
    behind = {0: 0, 2: 3, 1: 1}
    for turn in range(4, 20):
        retrieve(retriever, {sentence: turn - late for sentence, late in behind.items()})
    for turn, (sentences, due, rows) in enumerate(cache.steps, 4):
        assert sentences == [0, 2, 1] and rows == 3
        expected = [
            slot
            for slot, sentence in enumerate(sentences)
            if turn - behind[sentence] in search_steps(schedule, lengths[sentence], 20)
        ]
        assert due == expected
    assert {len(due) for _, due, _ in cache.steps} >= {0, 1, 2}


def test_searches_are_counted_once_for_a_sentence() -> None:
    """However many of its hypotheses search."""
    retriever, cache = retriever_of(EverySchedule(2), [5, 5, 5], beams=100)
    for now in ({0: 1}, {0: 2, 2: 1}, {0: 3, 2: 2}, {0: 4, 2: 3}):
        retrieve(retriever, now, rows=4)
    assert retriever.searches == [2, 0, 2]
    assert [due for _, due, _ in cache.steps] == [[0], [1], [0], [1]]
    assert {rows for _, _, rows in cache.steps} == {100}


def test_knn_mt_searches_at_every_step() -> None:
    retriever, cache = retriever_of(EverySchedule(1), [3, 30], max_steps=6)
    for time in range(1, 7):
        retrieve(retriever, {0: time, 1: time})
    assert [due for _, due, _ in cache.steps] == [[0, 1]] * 6 and retriever.searches == [6, 6]


def test_a_step_returns_what_the_cache_found() -> None:
    retriever, _ = retriever_of(EverySchedule(1), [3])
    found = retrieve(retriever, {0: 1}, rows=5)
    assert found.entry_BK.shape == (5, CACHE.width)


@pytest.mark.parametrize("seeds", [[[4, 7, -1], [2, -1, -1]], [[-1], [-1]]])
def test_sentences_that_begin_seed_their_caches(seeds: list[list[int]]) -> None:
    retriever, cache = retriever_of(EverySchedule(2), [5, 5, 5])
    retriever.begin([2, 0], torch.tensor(seeds))
    assert cache.seeded == [([2, 0], seeds)]


def test_where_nothing_is_similar_no_cache_is_seeded() -> None:
    retriever, cache = retriever_of(EverySchedule(2), [5, 5, 5])
    retriever.begin([0, 1], torch.zeros(2, 0, dtype=torch.long))
    assert cache.seeded == []


def test_finished_sentences_and_moved_rows_are_passed_on() -> None:
    retriever, cache = retriever_of(EverySchedule(2), [5, 5, 5])
    retriever.release([2, 0])
    retriever.reorder(torch.tensor([1, 1, 0]))
    assert cache.released == [[2, 0]] and cache.reordered == [[1, 1, 0]]


def test_comparisons_are_counted_by_row() -> None:
    """Rows that search are compared with all entries, the others with what their sentence has in its cache."""
    retriever, _ = retriever_of(EverySchedule(2), [5, 5], beams=3)
    entries = len(RecordingStore())
    retrieve(retriever, {0: 1, 1: 2}, rows=5)
    assert retriever.compared == [3 * entries + 2 * 100, 5 * 200]
    retrieve(retriever, {1: 3}, rows=2)
    assert retriever.compared == [3 * entries + 2 * 100, 5 * 200 + 2 * entries]
    assert retriever.searches == [1, 1]


def test_without_a_schedule_nothing_is_searched() -> None:
    retriever, cache = retriever_of(None, [5, 9])
    for time in (1, 2, 3):
        retrieve(retriever, {0: time, 1: time})
    assert [due for _, due, _ in cache.steps] == [[], [], []]
    assert retriever.searches == [0, 0] and retriever.compared == [3 * 2 * 100, 3 * 2 * 200]
