"""Buffers of caches on a GPU: counts that arrive late, capacity that grows, requests that follow each other."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from nearmt.config.schedule import EverySchedule
from nearmt.contracts import Neighbours, Origin
from nearmt.engines.base import CachePlan, Retrieved
from nearmt.engines.cuda import cache as cuda_cache
from nearmt.engines.cuda import sizes
from nearmt.engines.cuda.cache import ArrivingNumbers, CacheBuffers, CudaCache
from nearmt.engines.cuda.entries import CudaEntryTable
from nearmt.engines.cuda.keys import SegmentedKeys
from nearmt.engines.reference.cache import ReferenceCache
from tests.engines.every_engine import GPU, WITH_TRITON
from tests.engines.table_store import TableStore, table_store
from tests.engines.test_cache import PLAN, Walk, assert_same, random_queries, walks, with_cache
from tests.random_stores import random_store

COLUMNS = 6


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hardly any capacity and few caches, so that both grow."""
    monkeypatch.setattr(cuda_cache, "_CAPACITY", 8)
    monkeypatch.setattr(cuda_cache, "_CACHES", 2)
    monkeypatch.setattr(cuda_cache, "_COMPARED", 16)
    monkeypatch.setattr(cuda_cache, "_APPENDED", 4)
    monkeypatch.setattr(cuda_cache, "_COUNTED", 1)


def made_store(seed: int = 0) -> TableStore:
    known = random_store(seed, sentences=30, columns=COLUMNS, vocabulary=20)
    return TableStore(WITH_TRITON, known, [len(known) // 2])


def made_buffers(store: TableStore | None = None) -> CacheBuffers:
    table = (store or made_store()).table
    return CacheBuffers(SegmentedKeys.of(table.keys_by_segment), GPU)


def on_gpu(numbers: Sequence[int]) -> Tensor:
    return torch.tensor(numbers, device=GPU)


def append(buffers: CacheBuffers, sentences: Sequence[int], entry_SX: Tensor) -> None:
    """As searches and seeds do."""
    caches = buffers.caches(sentences)
    buffers.reserve(caches, entry_SX.shape[1])
    buffers.append(on_gpu(caches), entry_SX.to(GPU))


def recall(buffers: CacheBuffers, sentences: Sequence[int], query_BE: Tensor, k: int) -> Retrieved:
    """Into the first rows of more rows and columns, which had other results before."""
    caches, rows = buffers.caches(sentences), len(query_BE)
    found = Retrieved.nothing(rows + 1, k + 2, GPU)
    found.entry_BK.fill_(77)
    buffers.recall(found, query_BE.to(GPU), on_gpu(caches), buffers.width(caches), k)
    assert found.asked_B.tolist() == [int(Origin.CACHE)] * rows + [int(Origin.MODEL)]
    assert (found.entry_BK[:rows, k:] == -1).all() and found.distance_BK[:rows, k:].isinf().all()
    assert (found.entry_BK[rows] == 77).all()
    first = found.to(torch.device("cpu")).first(rows)
    return Retrieved(first.asked_B, first.entry_BK[:, :k], first.distance_BK[:, :k])


def entries_of(buffers: CacheBuffers, sentence: int) -> list[int]:
    """All entries of a cache, as far as it is read."""
    found = recall(buffers, [sentence], torch.zeros(1, COLUMNS), 64)
    return sorted(entry for entry in found.entry_BK[0].tolist() if entry >= 0)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("seed", "columns"), [(0, COLUMNS), (1, 3), (2, COLUMNS), (3, 1)])
def test_buffers_recall_what_the_reference_recalls(seed: int, columns: int) -> None:
    """Sentences begin, append, recall and finish, in any order; entries come again, and -1 among them."""
    store, generator = made_store(seed), torch.Generator().manual_seed(seed)
    buffers, running = made_buffers(store), list[int]()
    plain = ReferenceCache(store, CachePlan(k=1, cache_k=1, chunk=1, columns=columns), GPU)

    def some(low: int, high: int) -> int:
        return int(torch.randint(low, high, (1,), generator=generator))

    def entries(rows: int) -> Tensor:
        return torch.randint(-1, len(store), (rows, some(1, 20)), generator=generator).to(GPU)

    for turn in range(8):
        if len(running) < 3:
            running.append(turn)
            entry_1X = entries(1)
            plain.seed([turn], entry_1X)
            append(buffers, [turn], entry_1X)
        if some(0, 2):
            chosen = running[some(0, len(running)) :]
            entry_SX = entries(len(chosen))
            plain.seed(chosen, entry_SX)
            append(buffers, chosen, entry_SX)
            buffers.count()
        if not some(0, 3):
            gone = running.pop(some(0, len(running)))
            plain.release([gone])
            buffers.release([gone])
        if running:
            rows, k = some(1, 3), some(1, 8)
            query_BE = torch.randn(len(running) * rows, COLUMNS, generator=generator)[:, :columns]
            plain._plan = replace(plain._plan, cache_k=k)
            expected, found = plain.recall(running, query_BE.to(GPU)), recall(buffers, running, query_BE, k)
            assert torch.equal(found.entry_BK, expected.entry_BK.cpu())
            torch.testing.assert_close(found.distance_BK, expected.distance_BK.cpu())


@pytest.mark.usefixtures("small")
def test_capacity_grows_and_nothing_is_lost() -> None:
    buffers, every, capacities = made_buffers(), list(range(40)), []
    for start in range(0, 40, 10):
        append(buffers, [0], torch.tensor([every[: start + 10]]))
        buffers.count()
        capacities.append(buffers._entry_UM.shape[1])
        assert entries_of(buffers, 0) == every[: start + 10]
    # Entries that it had before are not counted twice once the counts have arrived.
    assert capacities == sorted(capacities) and capacities[-1] == 10 + 20 + 40 + 2 < sum([10, 20, 30, 40])


@pytest.mark.usefixtures("small")
def test_caches_are_added_and_nothing_is_lost() -> None:
    buffers = made_buffers()
    for sentence in range(5):
        append(buffers, [sentence], torch.tensor([[sentence, 20 + sentence]]))
    append(buffers, [9, 1, 7], torch.tensor([[30], [31], [32]]))
    expected = {sentence: [sentence, 20 + sentence] for sentence in range(5)} | {7: [32], 9: [30]}
    expected[1].append(31)
    assert {sentence: entries_of(buffers, sentence) for sentence in expected} == expected
    assert len(set(buffers.caches(list(expected)))) == 7 and 0 not in buffers.caches(list(expected))
    assert buffers.sentences == set(expected)


@pytest.mark.usefixtures("small")
def test_graphs_are_invalid_where_memory_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    buffers, moved = made_buffers(), list[str]()
    monkeypatch.setattr(buffers.graphs, "invalidate", lambda: moved.append("main"))
    monkeypatch.setattr(buffers.side.graphs, "invalidate", lambda: moved.append("side"))
    append(buffers, [0], torch.tensor([[1, 2]]))
    assert moved == []
    append(buffers, [0], torch.arange(10)[None])
    assert moved == ["main", "side"]
    append(buffers, [1], torch.tensor([[1, 2]]))
    assert moved == ["main", "side"] * 2


@pytest.mark.usefixtures("small")
def test_the_cache_of_padding_stays_empty() -> None:
    buffers = made_buffers()
    (cache,) = buffers.caches([0])
    buffers.reserve([cache], 3)
    buffers.append(on_gpu([cache, 0, 0]), torch.tensor([[1, 2, 3], [4, 5, 6], [1, 5, 7]], device=GPU))
    assert entries_of(buffers, 0) == [1, 2, 3]
    found = Retrieved.nothing(2, 4, GPU)
    buffers.recall(found, torch.zeros(2, COLUMNS, device=GPU), on_gpu([0, cache]), 8, 4)
    assert found.entry_BK[0].tolist() == [-1] * 4 and sorted(found.entry_BK[1].tolist()) == [-1, 1, 2, 3]
    assert not buffers._known_UW[0].any() and int(buffers._count_U[0]) == 0


@pytest.mark.parametrize("at_a_time", [4, 1024])
def test_an_entry_that_comes_again_is_cached_once(at_a_time: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one search, across the blocks of a kernel, or in another search. Adjacent entries share a word of bits."""
    monkeypatch.setattr(cuda_cache, "_APPENDED", at_a_time)
    buffers = made_buffers()
    append(buffers, [0], torch.tensor([[33, 5, 5, 31, -1, 5, 32, 5, 5, 5, -1, 33]]))
    append(buffers, [0], torch.tensor([[5, 34, 33, 0]]))
    assert entries_of(buffers, 0) == [0, 5, 31, 32, 33, 34]
    for _ in range(cuda_cache._COUNTED):
        assert buffers._arriving is None
        buffers.count()
    assert buffers._arriving is not None
    if GPU.type == "cuda":
        torch.cuda.synchronize()
    assert buffers._arriving.numbers()[buffers.caches([0])[0]] == 6


def test_a_released_cache_is_emptied_before_it_is_used_again() -> None:
    buffers = made_buffers()
    append(buffers, [0, 1], torch.tensor([[1, 2], [3, 4]]))
    (before,) = buffers.caches([0])
    buffers.release([0, 8])
    assert entries_of(buffers, 1) == [3, 4] and buffers._stale == {before}
    append(buffers, [2], torch.tensor([[2, 6]]))
    assert buffers.caches([2]) == [before] and not buffers._stale and entries_of(buffers, 2) == [2, 6]
    buffers.reset()
    assert entries_of(buffers, 1) == entries_of(buffers, 2) == []


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("late", [False, True])
def test_entries_appended_before_a_count_arrives_are_read(late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    arrived = not late
    monkeypatch.setattr(ArrivingNumbers, "have_arrived", lambda self: arrived)
    buffers = made_buffers()
    append(buffers, [0], torch.arange(6)[None])
    buffers.count()
    append(buffers, [0], torch.arange(20, 30)[None])
    append(buffers, [1], torch.arange(40, 45)[None])
    arrived = True
    assert entries_of(buffers, 0) == [*range(6), *range(20, 30)] and entries_of(buffers, 1) == list(range(40, 45))
    append(buffers, [0], torch.arange(30, 35)[None])
    assert entries_of(buffers, 0) == [*range(6), *range(20, 35)]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("late", [False, True])
def test_counts_of_finished_sentences_may_arrive_late(late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    arrived = not late
    monkeypatch.setattr(ArrivingNumbers, "have_arrived", lambda self: arrived)
    buffers = made_buffers()
    append(buffers, [0, 1], torch.stack([torch.arange(6), torch.arange(10, 16)]))
    buffers.count()
    buffers.release([1])
    append(buffers, [0], torch.arange(20, 36)[None])  # 22 in all
    append(buffers, [2], torch.arange(40, 51)[None])  # 11 in the cache of the finished sentence
    arrived = True
    assert entries_of(buffers, 0) == [*range(6), *range(20, 36)] and entries_of(buffers, 2) == list(range(40, 51))
    assert buffers.width(buffers.caches([2])) == 16  # the count of the finished sentence is not added


@pytest.mark.usefixtures("small")
def test_counts_narrow_what_is_read() -> None:
    """Chunks overlap: a cache has fewer entries than were appended."""
    buffers = made_buffers()
    for _ in range(3):
        append(buffers, [0], torch.arange(7)[None])
    caches = buffers.caches([0])
    assert buffers.width(caches) == 24
    buffers.count()
    if GPU.type == "cuda":
        torch.cuda.synchronize()
    assert buffers.width(caches) == 8 and entries_of(buffers, 0) == list(range(7))


# Requests.


def cache_of(walk: Walk) -> CudaCache:
    cache = walk.retriever._cache
    assert isinstance(cache, CudaCache)
    return cache


def test_finished_sentences_keep_no_cache() -> None:
    walk = Walk(table_store(WITH_TRITON), PLAN, GPU)
    walk.turns(rows=1)
    assert not cache_of(walk).sentences


def test_a_request_finds_nothing_of_the_one_before() -> None:
    """It re-uses the buffers of a request that has ended, and of no other."""
    store = table_store(WITH_TRITON)
    first, _ = walks(store, PLAN)
    first.step(random_queries(store, 1, 0), {0: 1})
    buffers = cache_of(first)._buffers
    meanwhile, _ = walks(store, PLAN)
    assert cache_of(meanwhile)._buffers is not buffers
    del first
    gc.collect()
    second, plain = walks(store, PLAN, seeds=0)
    assert cache_of(second)._buffers is buffers
    for time in (1, 2):
        query_BD = random_queries(store, 1, 5 + time)
        assert_same(second.step(query_BD, {0: time}), plain.step(query_BD, {0: time}))


def test_stores_over_one_table_have_buffers_of_their_own() -> None:
    """Graphs hold the searches of a store: buffers go when it goes."""
    store, other = table_store(WITH_TRITON), table_store(WITH_TRITON)
    other.table = table = store.table
    assert isinstance(table, CudaEntryTable)
    first = store.new_cache(PLAN.cache, GPU)
    assert isinstance(first, CudaCache)
    buffers = first._buffers
    del first
    gc.collect()
    second = other.new_cache(PLAN.cache, GPU)
    assert isinstance(second, CudaCache) and second._buffers is not buffers
    assert set(table._buffers) == {store, other}
    del second, other
    gc.collect()
    assert set(table._buffers) == {store}


class CountingStore(TableStore):
    """Notes how many queries each search has."""

    def __init__(self, store: TableStore) -> None:
        super().__init__(store.engine, store)
        self.asked: list[int] = []

    def search(self, query_BD: Tensor, k: int) -> Neighbours:
        self.asked.append(len(query_BD))
        return super().search(query_BD, k)


def test_searches_are_padded_to_few_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of padding go to a spare row, and its chunks to no cache."""
    monkeypatch.setattr(sizes, "_SIZES", (4,))
    store = CountingStore(table_store(WITH_TRITON))
    mine, plain = walks(store, with_cache(EverySchedule(9), cache_k=30))
    query_BD = random_queries(store, 10, seed=0)
    # Three sentences begin, then two more; at last all recall what they have.
    for turn, count in enumerate([3, 5, 5], 1):
        now = {sentence: turn if sentence < 3 else turn - 1 for sentence in range(count)}
        query = query_BD[: 2 * count]
        assert_same(mine.step(query, now), plain.step(query, now))
    assert store.asked == [8, 8]
    assert mine.retriever.searches == plain.retriever.searches == [1] * 5 + [0]
