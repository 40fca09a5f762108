"""The cache that holds numbers of entries against the one that holds their keys."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from nearmt.retrieval.entry_cache import Arriving, EntryCache
from nearmt.retrieval.neighbour_cache import CacheConfig, NeighbourCache
from torch import Tensor

from nearmt.contracts import Origin
from nearmt.retrieval import entry_cache
from nearmt.retrieval.retriever import Retrieved
from tests.toy_store import ToyStore, gathered_from, random_store

COLUMNS = 6
CPU = torch.device("cpu")


def made_store(seed: int = 0) -> ToyStore:
    return random_store(seed, sentences=30, columns=COLUMNS, vocabulary=20)


def made_cache(store: ToyStore) -> EntryCache:
    return EntryCache(gathered_from(store, first=len(store) // 2))


def put(cache: EntryCache, sentences: Sequence[int], entry_SX: Tensor) -> None:
    """As a search or seeds do."""
    holders = cache.holders(sentences)
    cache.make_room(holders, entry_SX.shape[1])
    cache.add(torch.tensor(holders), entry_SX)


def recall(cache: EntryCache, sentences: Sequence[int], query_BE: Tensor, k: int) -> Retrieved:
    """Into the first rows of what has room for more rows and neighbours, where something else was found before."""
    holders, rows = cache.holders(sentences), len(query_BE)
    found = Retrieved.nothing(rows + 1, k + 2, CPU)
    found.entry_BK.fill_(77)
    cache.recall(found, query_BE, torch.tensor(holders), cache.width(holders), k)
    assert found.asked_B.tolist() == [int(Origin.CACHE)] * rows + [int(Origin.MODEL)]
    assert (found.entry_BK[:rows, k:] == -1).all() and found.distance_BK[:rows, k:].isinf().all()
    assert (found.entry_BK[rows] == 77).all()
    return Retrieved(found.asked_B[:rows], found.entry_BK[:rows, :k], found.distance_BK[:rows, :k])


def held(cache: EntryCache, sentence: int) -> list[int]:
    """All that a sentence has, as far as it is looked at."""
    found = recall(cache, [sentence], torch.zeros(1, COLUMNS), 64)
    return sorted(entry for entry in found.entry_BK[0].tolist() if entry >= 0)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room and holders for hardly anything, so that both grow."""
    monkeypatch.setattr(entry_cache, "_ROOM", 8)
    monkeypatch.setattr(entry_cache, "_HOLDERS", 2)
    monkeypatch.setattr(entry_cache, "_COMPARED", 16)
    monkeypatch.setattr(entry_cache, "_PUT", 4)
    monkeypatch.setattr(entry_cache, "_COUNTED", 1)


@pytest.mark.parametrize(("seed", "columns"), [(0, COLUMNS), (1, 3), (2, COLUMNS), (3, 1)])
def test_it_recalls_what_a_cache_of_keys_recalls(seed: int, columns: int, small: None) -> None:
    """Sentences come, remember, recall and leave, in any order; entries come again, and -1 among them."""
    store, generator = made_store(seed), torch.Generator().manual_seed(seed)
    cache = made_cache(store)
    plain = NeighbourCache(store, CacheConfig("source", "all", "remove", columns), 0, CPU)
    running: list[int] = []

    def some(low: int, high: int) -> int:
        return int(torch.randint(low, high, (1,), generator=generator))

    def found(rows: int) -> Tensor:
        return torch.randint(-1, len(store), (rows, some(1, 20)), generator=generator)

    for turn in range(8):
        if len(running) < 3:  # a new one, with seeds
            running.append(turn)
            seeds_1X = found(1)
            plain.seed([0], [turn], seeds_1X)
            put(cache, [turn], seeds_1X)
        if some(0, 2):
            chosen = running[some(0, len(running)) :]
            entry_SX = found(len(chosen))
            plain.remember(list(range(len(chosen))), chosen, entry_SX)
            put(cache, chosen, entry_SX)
            cache.count()
        if not some(0, 3):
            gone = running.pop(some(0, len(running)))
            plain.leave([gone])
            cache.leave([gone])
        if running:
            rows, k = some(1, 3), some(1, 8)
            sources = [sentence for sentence in running for _ in range(rows)]
            query_BE = torch.randn(len(sources), COLUMNS, generator=generator)[:, :columns]
            expected = plain.recall(list(range(len(sources))), sources, query_BE, k)
            mine = recall(cache, running, query_BE, k)
            assert torch.equal(mine.entry_BK, expected.entry_BK)
            torch.testing.assert_close(mine.distance_BK, expected.distance_BK)


def test_room_grows_and_nothing_is_lost(small: None) -> None:
    cache, everything = made_cache(made_store()), list(range(40))
    places = []
    for start in range(0, 40, 10):
        put(cache, [0], torch.tensor([everything[: start + 10]]))
        cache.count()
        places.append(cache._held_UM.shape[1])
        assert held(cache, 0) == everything[: start + 10]
    # What it had before is not counted twice, once it is known how much there is.
    assert places == sorted(places) and places[-1] == 10 + 20 + 40 + 2 < sum([10, 20, 30, 40])


def test_holders_grow_and_nothing_is_lost(small: None) -> None:
    cache = made_cache(made_store())
    for sentence in range(5):
        put(cache, [sentence], torch.tensor([[sentence, 20 + sentence]]))
    put(cache, [9, 1, 7], torch.tensor([[30], [31], [32]]))
    expected = {sentence: [sentence, 20 + sentence] for sentence in range(5)} | {7: [32], 9: [30]}
    expected[1].append(31)
    assert {sentence: held(cache, sentence) for sentence in expected} == expected
    assert len(set(cache.holders(list(expected)))) == 7 and 0 not in cache.holders(list(expected))


def test_what_was_recorded_is_forgotten_where_memory_moves(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, moved = made_cache(made_store()), []
    monkeypatch.setattr(cache.record, "forget", lambda: moved.append(1))
    put(cache, [0], torch.tensor([[1, 2]]))
    assert moved == []
    put(cache, [0], torch.arange(10)[None])
    assert moved == [1]
    put(cache, [1], torch.tensor([[1, 2]]))
    assert moved == [1, 1]


def test_nobody_holds_nothing(small: None) -> None:
    cache = made_cache(made_store())
    (holder,) = cache.holders([0])
    cache.make_room([holder], 3)
    cache.add(torch.tensor([holder, 0, 0]), torch.tensor([[1, 2, 3], [4, 5, 6], [1, 5, 7]]))
    assert held(cache, 0) == [1, 2, 3]
    found = Retrieved.nothing(2, 4, CPU)
    cache.recall(found, torch.zeros(2, COLUMNS), torch.tensor([0, holder]), 8, 4)
    assert found.entry_BK[0].tolist() == [-1] * 4 and sorted(found.entry_BK[1].tolist()) == [-1, 1, 2, 3]
    assert not cache._known_UW[0].any() and int(cache._count_U[0]) == 0


@pytest.mark.parametrize("put_at_once", [4, 1024])
def test_an_entry_that_comes_again_is_held_once(put_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one search, across the blocks of a kernel, or in another one. Neighbours share a word of bits."""
    monkeypatch.setattr(entry_cache, "_PUT", put_at_once)
    cache = made_cache(made_store())
    put(cache, [0], torch.tensor([[33, 5, 5, 31, -1, 5, 32, 5, 5, 5, -1, 33]]))
    put(cache, [0], torch.tensor([[5, 34, 33, 0]]))
    assert held(cache, 0) == [0, 5, 31, 32, 33, 34]
    for _ in range(entry_cache._COUNTED):
        assert cache._counted is None
        cache.count()
    assert cache._counted is not None and cache._counted.numbers()[cache.holders([0])[0]] == 6


def test_who_follows_finds_an_empty_cache() -> None:
    cache = made_cache(made_store())
    put(cache, [0, 1], torch.tensor([[1, 2], [3, 4]]))
    (before,) = cache.holders([0])
    cache.leave([0, 8])
    assert held(cache, 1) == [3, 4] and before in cache._free
    cache._free.sort(key=lambda holder: holder != before)
    put(cache, [2], torch.tensor([[2, 6]]))
    assert cache.holders([2]) == [before] and held(cache, 2) == [2, 6]
    cache.reset()
    assert held(cache, 1) == held(cache, 2) == []


@pytest.mark.parametrize("late", [False, True])
def test_counts_may_arrive_late(late: bool, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was put, or who has left, between counting and the arrival of the counts is not forgotten."""
    arrived = not late
    monkeypatch.setattr(Arriving, "is_here", lambda self: arrived)
    cache = made_cache(made_store())
    put(cache, [0, 1], torch.stack([torch.arange(6), torch.arange(10, 16)]))
    cache.count()
    cache.leave([1])
    cache._free.sort()
    put(cache, [0], torch.arange(20, 30)[None])  # for sixteen in all
    put(cache, [2], torch.arange(40, 51)[None])  # in the place of the one that left
    arrived = True
    assert held(cache, 0) == [*range(6), *range(20, 30)]
    assert held(cache, 2) == list(range(40, 51))
    put(cache, [0], torch.arange(30, 35)[None])
    assert held(cache, 0) == [*range(6), *range(20, 35)]


def test_counts_make_narrow_what_was_thought_wide(small: None) -> None:
    """Chunks overlap: a sentence has less than it was given."""
    cache = made_cache(made_store())
    for _ in range(3):
        put(cache, [0], torch.arange(7)[None])
    holders = cache.holders([0])
    assert cache.width(holders) == 24
    cache.count()
    assert cache.width(holders) == 8 and held(cache, 0) == list(range(7))
