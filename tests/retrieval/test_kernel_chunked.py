"""Chunk-based retrieval by kernels against the same without, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from nearmt.retrieval.chunked import Chunked, ChunkPlan
from nearmt.retrieval.entry_cache import EntryCache
from nearmt.retrieval.kernel_chunked import KernelChunked

from nearmt.config.schedule import EverySchedule
from nearmt.contracts import Origin
from nearmt.engines.cuda import graphs
from nearmt.engines.cuda.graphs import Pool
from nearmt.retrieval import entry_cache
from nearmt.retrieval.retriever import Retrieved
from tests.toy_store import ToyStore, gathered_from, random_store, usual_plan

COLUMNS = 6
PLAN = usual_plan(COLUMNS)
#: |x| of sentences, which decides when they search, and their tokens, which decide what is like them.
LENGTHS, SOURCES = [2, 9, 4, 30, 7], [[0], [5], [11], [3], [5]]
#: At each turn the step of every sentence that runs. The second begins later; the third follows the first, which
#: leaves; the last two begin together.
TURNS: list[dict[int, int]] = [
    {0: 1},
    {0: 2, 1: 1},
    {0: 3, 1: 2},
    {2: 1, 1: 3},
    {2: 2, 1: 4, 3: 1, 4: 1},
    {2: 3, 1: 5, 3: 2, 4: 2},
    {1: 6, 3: 3, 4: 3},
    {3: 4, 4: 4},
]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches of few places: an interpreter is slow."""
    monkeypatch.setattr(entry_cache, "_ROOM", 64)


def made_store(seed: int = 0) -> ToyStore:
    store = random_store(seed, sentences=20, columns=COLUMNS, vocabulary=20)
    store.gathered = gathered_from(store, first=40)
    return store


def kernels(
    store: ToyStore, plan: ChunkPlan, caches: Pool[EntryCache], sources: Sequence[Sequence[int]] = SOURCES
) -> KernelChunked:
    return KernelChunked(store, plan, LENGTHS, 20, sources, caches)


def assert_same(found: Retrieved, expected: Retrieved) -> None:
    assert found.origin_B.tolist() == expected.origin_B.tolist()
    assert torch.equal(found.entry_BK, expected.entry_BK)
    torch.testing.assert_close(found.distance_BK, expected.distance_BK)


PLANS: dict[str, dict[str, Any]] = {
    "usual": {},
    "more from searches": {"k": 6, "cache_k": 2},
    "no seeds": {"seeds": 0},
    "fewer columns": {"cache": replace(PLAN.cache, columns=2)},
    "at every step": {"schedule": EverySchedule(1), "chunk": 1},
    "more than there are": {"k": 200, "chunk": 2, "cache_k": 5},
}


@pytest.mark.parametrize("name", PLANS)
def test_steps_are_those_without_kernels(name: str) -> None:
    store, plan = made_store(), replace(PLAN, **PLANS[name])
    assert KernelChunked.serves(store, plan)
    caches = Pool[EntryCache]()
    mine, plain = kernels(store, plan, caches), Chunked(store, plan, LENGTHS, 20, SOURCES)
    generator, origins = torch.Generator().manual_seed(1), set[int]()
    for turn, (now, after) in enumerate(zip(TURNS, [*TURNS[1:], {}], strict=True)):
        rows = 2 if turn else 1
        sources = [sentence for sentence in now for _ in range(rows)]
        times = [now[sentence] for sentence in sources]
        query_BD = torch.randn(len(sources), COLUMNS, generator=generator)
        expected = plain.retrieve(query_BD, times, sources)
        assert_same(mine.retrieve(query_BD, times, sources), expected)
        origins |= set(expected.origin_B.tolist())
        gone = [sentence for sentence in now if sentence not in after]
        for retriever in (mine, plain):
            retriever.reorder(torch.arange(len(sources)))
            retriever.leave(gone)
        assert set(mine._cache._holder_of) == set(now) - set(gone)  # nobody keeps what nobody needs
    assert mine.searches == plain.searches and min(mine.searches) > 0
    assert origins == {int(Origin.SEARCH)} | ({int(Origin.CACHE)} if name != "at every step" else set())


@pytest.mark.parametrize("beams", [1, 2, 3])
def test_the_best_hypotheses_of_a_sentence_search_and_the_others_recall(beams: int) -> None:
    store, plan = made_store(), replace(PLAN, search_beams=beams)
    mine, plain = kernels(store, plan, Pool[EntryCache]()), Chunked(store, plan, LENGTHS, 20, SOURCES)
    generator, seen = torch.Generator().manual_seed(1), set[tuple[int, ...]]()
    for time in range(1, 8):
        sources = [sentence for sentence in range(5) for _ in range(3 if time > 1 else 1)]
        query_BD = torch.randn(len(sources), COLUMNS, generator=generator)
        expected = plain.retrieve(query_BD, [time] * len(sources), sources)
        assert_same(mine.retrieve(query_BD, [time] * len(sources), sources), expected)
        if time > 1:
            seen |= {tuple(origins) for origins in expected.origin_B.view(5, 3).tolist()}
    due = [int(Origin.SEARCH)] * beams + [int(Origin.CACHE)] * (3 - beams)
    assert seen == {tuple(due), (int(Origin.CACHE),) * 3}
    assert mine.searches == plain.searches


def test_seeds_are_those_of_the_first_search_alone() -> None:
    """And nothing is like a sentence whose source is not told."""
    store, caches = made_store(), Pool[EntryCache]()
    asked: list[int] = []
    similar_each = store.similar_each
    store.similar_each = lambda sources, count: asked.append(len(sources)) or similar_each(sources, count)  # type: ignore[method-assign, func-returns-value]
    mine = kernels(store, replace(PLAN, schedule=EverySchedule(2)), caches)
    for time in range(1, 6):
        mine.retrieve(torch.zeros(2, COLUMNS), [time, time], [0, 1])
    assert asked == [2] and mine.searches[:2] == [3, 3]
    bare = kernels(store, PLAN, caches, sources=())
    bare.retrieve(torch.zeros(1, COLUMNS), [1], [0])
    assert asked == [2]


def test_a_request_finds_nothing_of_the_one_before() -> None:
    store, caches = made_store(), Pool[EntryCache]()
    query_BD, later_BD = torch.zeros(1, COLUMNS), torch.ones(1, COLUMNS)
    first = kernels(store, PLAN, caches)
    first.retrieve(query_BD, [1], [0])
    cache = first._cache
    beside = kernels(store, PLAN, caches)
    assert beside._cache is not cache
    del first
    second, plain = kernels(store, PLAN, caches), Chunked(store, PLAN, LENGTHS, 20, SOURCES)
    assert second._cache is cache
    for time, query in ((1, later_BD), (2, query_BD)):
        assert_same(second.retrieve(query, [time], [0]), plain.retrieve(query, [time], [0]))


def test_searches_come_in_few_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some rows search in vain; their chunks are nobody's."""
    monkeypatch.setattr(graphs, "_SIZES", (4,))
    store, caches = made_store(), Pool[EntryCache]()
    sizes: list[int] = []
    search = store.search
    store.search = lambda query_BD, k: sizes.append(len(query_BD)) or search(query_BD, k)  # type: ignore[method-assign, func-returns-value]
    plan = replace(PLAN, schedule=EverySchedule(9), cache_k=30)
    mine, plain = kernels(store, plan, caches), Chunked(made_store(), plan, LENGTHS, 20, SOURCES)
    query_BD = torch.randn(10, COLUMNS, generator=torch.Generator().manual_seed(0))
    # Three begin, then two; in the end all see what they hold.
    for turn, count in enumerate([3, 5, 5], 1):
        sources = [sentence for sentence in range(count) for _ in range(2)]
        times = [turn if sentence < 3 else turn - 1 for sentence in sources]
        query = query_BD[: len(sources)]
        assert_same(mine.retrieve(query, times, sources), plain.retrieve(query, times, sources))
    assert sizes == [8, 8]
    assert mine.searches == plain.searches == [1] * 5


SPECIAL: dict[str, dict[str, Any]] = {
    "in order": {"in_order": True},
    "varying chunks": {"varying_chunk": True},
    "of hypotheses": {"cache": replace(PLAN.cache, scope="hypothesis")},
    "of the batch": {"cache": replace(PLAN.cache, scope="batch")},
    "of the last search": {"cache": replace(PLAN.cache, retention="last")},
    "with duplicates": {"cache": replace(PLAN.cache, duplicates="keep")},
}


@pytest.mark.parametrize("name", SPECIAL)
def test_it_does_not_serve_special_plans(name: str) -> None:
    assert not KernelChunked.serves(made_store(), replace(PLAN, **SPECIAL[name]))


def test_it_serves_where_kernels_run_and_searches_wait_for_nothing() -> None:
    store = made_store()
    assert KernelChunked.serves(store, PLAN)
    store.gathered = gathered_from(store, steady=False)
    assert not KernelChunked.serves(store, PLAN)
    store.gathered = None
    assert not KernelChunked.serves(store, PLAN)
