"""Sentence caches of every engine against lists and loops, step by step through the same retriever."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from nearmt.config.schedule import EverySchedule, GeometricSchedule, Schedule
from nearmt.contracts import Neighbours, Origin
from nearmt.engines.base import CachePlan, Retrieved, SentenceCache
from nearmt.engines.cuda import cache as cuda_cache
from nearmt.retrieval.retriever import RetrievalPlan, ScheduledRetriever
from tests.engines.every_engine import Engine, every_engine
from tests.engines.plain_cache import PlainStore
from tests.engines.table_store import TableStore, table_store
from tests.random_stores import random_store
from tests.toy_store import ToyStore

INF = math.inf
COLUMNS = 48
SEARCH, CACHE, MODEL = int(Origin.SEARCH), int(Origin.CACHE), int(Origin.MODEL)
#: A small plan of the usual kind.
PLAN = RetrievalPlan(GeometricSchedule(2, 4), 100, CachePlan(k=3, cache_k=4, chunk=3, columns=COLUMNS))
#: |x| of sentences, which decides when they search, and their tokens, which decide what is similar to them.
LENGTHS, SOURCES = [2, 9, 4, 30, 7, 5], [[0], [5], [11], [3], [5], [19]]
#: At each turn the step of every sentence in the batch. Sentences take their first step apart, one row each, and wait
#: for a slot. Some finish; more follow than there were before.
TURNS: list[dict[int, int]] = [
    {0: 1, 1: 1},
    {0: 2, 1: 2},
    {0: 3, 1: 3},
    {2: 1, 3: 1, 4: 1},
    {1: 4, 2: 2, 3: 2},
    {1: 5, 2: 3, 3: 3},
    {4: 2, 2: 4, 3: 4},
    {4: 3, 3: 5},
    {5: 1},
    {4: 4, 3: 6, 5: 2},
    {5: 3, 3: 7},
]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches of a GPU begin small: an interpreter is slow, and they have to grow."""
    monkeypatch.setattr(cuda_cache, "_CAPACITY", 64)


def random_queries(store: ToyStore, count: int, seed: int) -> Tensor:
    """Near entries; some are equal."""
    generator = torch.Generator().manual_seed(seed)
    near_B = torch.randint(0, len(store), (count,), generator=generator)
    query_BD = store.key_ND[near_B] + 0.5 * torch.randn(count, store.columns, generator=generator)
    return query_BD[torch.randint(0, count, (count,), generator=generator)]


class Walk:
    """A request over a store whose sentences begin, step and finish."""

    def __init__(self, store: ToyStore, plan: RetrievalPlan, device: torch.device, seeds: int = 2) -> None:
        self.store, self.device, self.seeds = store, device, seeds
        self.retriever = ScheduledRetriever(store, plan, LENGTHS, 20, device)
        self.begun = set[int]()

    def step(self, query_BD: Tensor, now: dict[int, int]) -> Retrieved:
        """One step of sentences, of which those that are new begin; the neighbours are a copy."""
        fresh = [sentence for sentence in now if sentence not in self.begun]
        if fresh:
            similar = self.store.similar([SOURCES[sentence] for sentence in fresh], self.seeds)
            self.retriever.begin(fresh, similar.entry_SX.to(self.device))
            self.begun.update(fresh)
        found = self.retriever.retrieve(query_BD.to(self.device), list(now.values()), list(now))
        self.retriever.reorder(torch.arange(len(query_BD), device=self.device))
        asked_B, entry_BK, distance_BK = (
            part.cpu().clone() for part in (found.asked_B, found.entry_BK, found.distance_BK)
        )
        return Retrieved(asked_B, entry_BK, distance_BK)

    def turns(self, rows: int) -> list[Retrieved]:
        """All turns; sentences without a later turn are finished."""
        steps = []
        for turn, now in enumerate(TURNS):
            each = 1 if set(now.values()) == {1} else rows
            steps.append(self.step(random_queries(self.store, each * len(now), turn), now))
            later = {sentence for after in TURNS[turn + 1 :] for sentence in after}
            self.retriever.release([sentence for sentence in now if sentence not in later])
        return steps


def assert_same(found: Retrieved, expected: Retrieved) -> None:
    assert torch.equal(found.asked_B, expected.asked_B)
    assert found.entry_BK.dtype == expected.entry_BK.dtype and torch.equal(found.entry_BK, expected.entry_BK)
    torch.testing.assert_close(found.distance_BK, expected.distance_BK, rtol=1e-5, atol=1e-5)


def walks(store: TableStore, plan: RetrievalPlan, seeds: int = 2) -> tuple[Walk, Walk]:
    """A request with the engine's cache, and one with a plain cache."""
    return Walk(store, plan, store.engine.device, seeds), Walk(PlainStore(store), plan, torch.device("cpu"), seeds)


def assert_walks_alike(store: TableStore, plan: RetrievalPlan, rows: int, seeds: int = 2) -> list[Retrieved]:
    """All steps, which are those of a plain cache."""
    mine, plain = walks(store, plan, seeds)
    found, expected = mine.turns(rows), plain.turns(rows)
    for step, same in zip(found, expected, strict=True):
        assert_same(step, same)
    assert mine.retriever.searches == plain.retriever.searches and min(mine.retriever.searches) > 0
    counts = list(zip(mine.retriever.compared, plain.retriever.compared, strict=True))
    # On a GPU the host knows an upper bound of what caches have.
    assert all(mine >= plain > 0 if store.engine.name == "cuda" else mine == plain for mine, plain in counts)
    return found


def with_cache(schedule: Schedule | None = PLAN.schedule, **cache: int) -> RetrievalPlan:
    return replace(PLAN, schedule=schedule, cache=replace(PLAN.cache, **cache))


PLANS = {
    "usual": PLAN,
    "one neighbour of a search": with_cache(k=1),
    "more from searches than from caches": with_cache(k=6, cache_k=2),
    "as many from searches as from caches": with_cache(k=4, cache_k=4),
    "fewer columns": with_cache(columns=36),
    "few columns": with_cache(columns=2),
    "columns that do not come in fours": with_cache(columns=42),
    "at every step": with_cache(EverySchedule(1), chunk=1),
    "chunks longer than pairs": with_cache(chunk=20),
    "more than caches have": with_cache(cache_k=40),
    "hardly any entries in caches": with_cache(k=2, chunk=1, cache_k=30),
    "more than there are": with_cache(k=200, cache_k=200, chunk=2),
    "more than there are, and few of the cache": with_cache(k=200, cache_k=5, chunk=2),
}


@every_engine
@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("rows", [1, 3])
def test_steps_are_those_of_a_plain_cache(engine: Engine, name: str, rows: int) -> None:
    found = assert_walks_alike(table_store(engine), PLANS[name], rows)
    origins = {origin for step in found for origin in step.origin_B.tolist()}
    assert origins == {SEARCH, CACHE} - ({CACHE} if name == "at every step" else set())


@every_engine
@pytest.mark.parametrize(("rows", "beams"), [(3, 1), (3, 2), (3, 3), (4, 5), (7, 3)])
def test_the_best_hypotheses_of_a_sentence_search_and_the_others_recall(engine: Engine, rows: int, beams: int) -> None:
    found = assert_walks_alike(table_store(engine), replace(PLAN, search_beams=beams), rows)
    seen = {tuple(part) for step in found if len(step.asked_B) > 3 for part in step.asked_B.view(-1, rows).tolist()}
    due = min(rows, beams)
    assert seen == {(SEARCH,) * due + (CACHE,) * (rows - due), (CACHE,) * rows}


@every_engine
@pytest.mark.parametrize("rows", [2, 3])
def test_more_rows_than_search_at_the_very_first_step(engine: Engine, rows: int) -> None:
    store = table_store(engine)
    mine, plain = walks(store, replace(PLAN, search_beams=1))
    for time in (1, 2, 3):
        query_BD = random_queries(store, rows, time)
        assert_same(mine.step(query_BD, {0: time}), plain.step(query_BD, {0: time}))


@every_engine
@pytest.mark.parametrize("sizes", [[50], [0, 3, 40]])
def test_keys_in_several_segments(engine: Engine, sizes: list[int]) -> None:
    assert_walks_alike(table_store(engine, sizes=sizes), PLAN, rows=2)


@every_engine
@pytest.mark.parametrize("rows", [1, 3])
def test_without_seeds_there_are_only_chunks(engine: Engine, rows: int) -> None:
    assert_walks_alike(table_store(engine), PLAN, rows, seeds=0)


@every_engine
def test_columns_that_do_not_nominate(engine: Engine) -> None:
    """Keys of more columns than a kernel rounds are measured on all of them."""
    assert_walks_alike(table_store(engine, columns=144), with_cache(columns=140), rows=3)


@every_engine
def test_caches_grow(engine: Engine) -> None:
    """Also hash tables; and large keys that come later change the unit of rounded keys."""
    known = random_store(1, sentences=300, columns=COLUMNS, vocabulary=20)
    known.key_ND[700:] *= 3
    plan = with_cache(EverySchedule(2), k=60, cache_k=60, chunk=9)
    assert_walks_alike(TableStore(engine, known), plan, rows=3)


@every_engine
@pytest.mark.parametrize("rows", [1, 3])
def test_knn_mt_searches_for_all_rows_and_keeps_nothing(engine: Engine, rows: int) -> None:
    plan = with_cache(EverySchedule(1), k=4, cache_k=4, chunk=0)
    found = assert_walks_alike(table_store(engine), plan, rows, seeds=0)
    assert {origin for step in found for origin in step.asked_B.tolist()} == {SEARCH}


@every_engine
def test_where_nothing_is_kept_rows_between_searches_have_no_neighbours(engine: Engine) -> None:
    plan = replace(with_cache(EverySchedule(2), k=4, cache_k=4, chunk=0), search_beams=1)
    found = assert_walks_alike(table_store(engine), plan, rows=2, seeds=0)
    assert {origin for step in found for origin in step.origin_B.tolist()} == {SEARCH, MODEL}


@every_engine
def test_searches_that_find_the_same_again_bring_nothing_new(engine: Engine) -> None:
    store = table_store(engine)
    mine, plain = walks(store, with_cache(EverySchedule(2), cache_k=60))
    query_BD = random_queries(store, 1, seed=0).expand(4, -1)
    recalled = []
    for time in range(1, 6):
        given = query_BD[: 2 if time == 1 else 4], {0: time, 1: time}
        found = mine.step(*given)
        assert_same(found, plain.step(*given))
        if time in (2, 4):
            recalled.append(found.entry_BK)
    assert torch.equal(*recalled)
    assert mine.retriever.searches[:2] == plain.retriever.searches[:2] == [3, 3]


@every_engine
def test_queries_may_have_any_strides(engine: Engine) -> None:
    store = table_store(engine)
    mine, plain = walks(store, PLAN)
    for time in range(1, 6):
        query_BD, now = random_queries(store, 3, time), {0: time, 1: time, 2: time}
        assert_same(mine.step(query_BD.T.contiguous().T, now), plain.step(query_BD, now))


@every_engine
@pytest.mark.parametrize("value", [math.nan, INF])
def test_queries_that_are_not_finite_do_not_change_others(engine: Engine, value: float) -> None:
    store = table_store(engine)
    mine, plain = walks(store, PLAN)
    for time in range(1, 6):
        query_BD, now = random_queries(store, 3, time), {0: time, 1: time, 2: time}
        bad_BD = query_BD.clone()
        bad_BD[1] = value
        found, expected = mine.step(bad_BD, now), plain.step(query_BD, now)
        assert torch.equal(found.entry_BK[::2], expected.entry_BK[::2])
        torch.testing.assert_close(found.distance_BK[::2], expected.distance_BK[::2])
        assert found.entry_BK[1].min() >= -1 and found.entry_BK[1].max() < len(store)


class Blind(TableStore):
    """Finds nothing."""

    def search(self, query_BD: Tensor, k: int) -> Neighbours:
        shape, device = (len(query_BD), k), query_BD.device
        return Neighbours(torch.full(shape, -1, device=device), torch.full(shape, INF, device=device))


@every_engine
@pytest.mark.parametrize("seeded", [False, True])
def test_searches_that_find_nothing(engine: Engine, seeded: bool) -> None:
    """A sentence has its seeds, or nothing at all."""
    store = Blind(engine, random_store(0, sentences=5, columns=COLUMNS, vocabulary=20))
    walk = Walk(store, PLAN, engine.device, seeds=0)
    walk.begun = {0, 1}
    if seeded:
        walk.retriever.begin([0, 1], torch.tensor([[4, 2], [-1, -1]], device=engine.device))
    found = [walk.step(random_queries(store, 2, time), {0: time, 1: time}) for time in (1, 2, 3)]
    assert found[0].origin_B.tolist() == [MODEL, MODEL]
    assert found[1].origin_B.tolist() == [CACHE if seeded else MODEL, MODEL]
    assert sorted(found[1].entry_BK[0].tolist()) == [-1, -1, *([2, 4] if seeded else [-1, -1])]


@every_engine
def test_a_store_without_entries(engine: Engine) -> None:
    store = TableStore(engine, random_store(0, sentences=0, columns=COLUMNS, vocabulary=20))
    walk = Walk(store, with_cache(EverySchedule(2)), engine.device)
    for time in (1, 2, 3):
        found = walk.step(torch.zeros(2, COLUMNS), {0: time, 1: time})
        assert found.origin_B.tolist() == [MODEL, MODEL] and (found.entry_BK == -1).all()
    assert walk.retriever.searches[:2] == [2, 2]


# Entries on a line, so that distances can be read off.

#: Columns that caches compare: of these all but the first are 0.
WIDE = 36
ENTRIES = 24


def keys_at(place_N: Tensor) -> Tensor:
    key_ND = torch.zeros(len(place_N), WIDE + 4)
    key_ND[:, 0], key_ND[:, -1] = place_N, 20 * place_N
    return key_ND


def line(engine: Engine, entries: int = ENTRIES) -> TableStore:
    """Entry n has the key (n, 0, ..., 0, 20 n); sentences of three."""
    key_ND = keys_at(torch.arange(float(entries)))
    ends = list(range(3, entries + 1, 3)) if entries % 3 == 0 else [entries]
    return TableStore(engine, ToyStore(key_ND, torch.arange(entries), ends))


def on_line(engine: Engine, *points: float) -> Tensor:
    """Queries at some points of the line."""
    return keys_at(torch.tensor(points)).to(engine.device)


LINE = CachePlan(k=1, cache_k=ENTRIES, chunk=2, columns=WIDE)


def new_cache(engine: Engine, plan: CachePlan = LINE) -> SentenceCache:
    return line(engine).new_cache(plan, engine.device)


def seed(engine: Engine, cache: SentenceCache, sentences: Sequence[int], *entries: list[int]) -> None:
    cache.seed(sentences, torch.tensor(entries, device=engine.device))


def recalled(engine: Engine, cache: SentenceCache, sentence: int, at: float = 0.0) -> list[tuple[int, float]]:
    """Entries and distances seen from a point on the line, nearest first."""
    found = cache.step(on_line(engine, at), [sentence], [], 1)
    pairs = list(zip(found.entry_BK[0].tolist(), found.distance_BK[0].tolist(), strict=True))
    assert all((entry < 0) == (distance == INF) for entry, distance in pairs)
    return [(entry, distance) for entry, distance in pairs if entry >= 0]


def entries_of(engine: Engine, cache: SentenceCache, sentence: int) -> list[int]:
    return sorted(entry for entry, _ in recalled(engine, cache, sentence))


@every_engine
def test_an_empty_cache_recalls_nothing(engine: Engine) -> None:
    found = new_cache(engine, replace(LINE, cache_k=3)).step(on_line(engine, 0.0, 0.0), [0, 1], [], 1)
    assert found.entry_BK.tolist() == [[-1] * 3] * 2 and found.distance_BK.tolist() == [[INF] * 3] * 2
    assert found.origin_B.tolist() == [MODEL, MODEL]


@every_engine
def test_distances_are_not_squared_and_the_nearest_come_first(engine: Engine) -> None:
    for cache_k, expected in ((3, [(3, 0.5), (5, 1.5), (1, 2.5)]), (2, [(3, 0.5), (5, 1.5)])):
        cache = new_cache(engine, replace(LINE, cache_k=cache_k))
        seed(engine, cache, [0], [5, 1, 3, -1])
        assert recalled(engine, cache, 0, at=3.5) == expected


@every_engine
def test_fewer_entries_than_asked_for_are_padded(engine: Engine) -> None:
    cache = new_cache(engine, replace(LINE, cache_k=3))
    seed(engine, cache, [0], [4, -1])
    found = cache.step(on_line(engine, 2.0), [0], [], 1)
    assert found.entry_BK.tolist() == [[4, -1, -1]] and found.distance_BK.tolist() == [[2.0, INF, INF]]


@every_engine
@pytest.mark.parametrize(("columns", "distance"), [(WIDE, 3.0), (WIDE + 4, math.hypot(3, 60))])
def test_only_the_columns_of_the_cache_are_compared(engine: Engine, columns: int, distance: float) -> None:
    cache = new_cache(engine, replace(LINE, columns=columns))
    seed(engine, cache, [0], [3])
    ((entry, found),) = recalled(engine, cache, 0)
    assert entry == 3 and found == pytest.approx(distance)


@every_engine
def test_an_entry_is_cached_once(engine: Engine) -> None:
    """Of one search or several, of seeds, and of chunks that overlap."""
    cache = new_cache(engine)
    seed(engine, cache, [0], [-1, 1, 9, 1, 13, 9])
    assert entries_of(engine, cache, 0) == [1, 9, 13]
    cache.step(on_line(engine, 9.0, 9.2), [0], [0], 2)
    cache.step(on_line(engine, 0.0, 9.2), [0], [0], 2)
    assert entries_of(engine, cache, 0) == [0, 1, 9, 10, 13]


@every_engine
def test_sentences_have_caches_of_their_own(engine: Engine) -> None:
    cache = new_cache(engine)
    seed(engine, cache, [7, 4], [1, 2, -1], [6, 2, 8])
    cache.step(on_line(engine, 12.0, 15.0, 18.0, 21.0), [4, 7], [0, 1], 2)
    assert entries_of(engine, cache, 7) == [1, 2, 18, 19, 21, 22]
    assert entries_of(engine, cache, 4) == [2, 6, 8, 12, 13, 15, 16]


@every_engine
def test_every_row_recalls_for_itself(engine: Engine) -> None:
    cache = new_cache(engine, replace(LINE, cache_k=1))
    seed(engine, cache, [0, 1], [0, 1], [2, 3])
    found = cache.step(on_line(engine, -1.0, 2.0, 2.25, 4.0), [0, 1], [], 2)
    assert found.entry_BK[:, 0].tolist() == [0, 1, 2, 3] and found.distance_BK[:, 0].tolist() == [1.0, 1.0, 0.25, 1.0]


@every_engine
def test_what_a_search_brings_is_cached_after_its_step(engine: Engine) -> None:
    """Other rows of the sentence recall without it."""
    cache = new_cache(engine)
    seed(engine, cache, [0], [1])
    found = cache.step(on_line(engine, 9.0, 9.0), [0], [0], 1)
    assert found.asked_B.tolist() == [SEARCH, CACHE]
    assert found.entry_BK[:, :2].tolist() == [[9, -1], [1, -1]]
    assert entries_of(engine, cache, 0) == [1, 9, 10]


@every_engine
def test_all_hypotheses_see_what_one_found(engine: Engine) -> None:
    """Also if it is dropped."""
    cache = new_cache(engine)
    cache.step(on_line(engine, 0.0, 9.0), [0], [0], 2)
    cache.reorder(torch.tensor([1, 1], device=engine.device))
    found = cache.step(on_line(engine, 0.0, 0.0), [0], [], 2)
    assert [sorted(entry for entry in row if entry >= 0) for row in found.entry_BK.tolist()] == [[0, 1, 9, 10]] * 2


@every_engine
def test_chunks_end_with_their_sentence(engine: Engine) -> None:
    """Sentences have three entries, of which 2 and 23 are the last ones."""
    cache = new_cache(engine, replace(LINE, chunk=5))
    cache.step(on_line(engine, 1.0, 2.0, 23.0), [0, 1, 2], [0, 1, 2], 1)
    assert [entries_of(engine, cache, sentence) for sentence in range(3)] == [[1, 2], [2], [23]]


@every_engine
def test_a_released_cache_is_empty_for_the_next_sentence(engine: Engine) -> None:
    cache = new_cache(engine)
    seed(engine, cache, [0, 1], [1, 2], [3, 4])
    cache.release([0, 8])  # sentence 8 has none
    assert entries_of(engine, cache, 1) == [3, 4]
    seed(engine, cache, [2, 0], [2, 6], [7, -1])
    assert [entries_of(engine, cache, sentence) for sentence in (0, 1, 2)] == [[7], [3, 4], [2, 6]]
    cache.release([1, 2, 0])
    assert [entries_of(engine, cache, sentence) for sentence in (0, 1, 2, 5)] == [[], [], [], []]


@every_engine
def test_the_caches_of_finished_sentences_are_used_again(engine: Engine) -> None:
    """However many sentences a request has, memory grows with those that are in the batch."""
    cache = new_cache(engine)
    for sentence in range(20):
        seed(engine, cache, [sentence], [sentence])
        assert entries_of(engine, cache, sentence) == [sentence]
        cache.release([sentence])
    slots = cache._buffers._slots if engine.name == "cuda" else cache._slots  # type: ignore[attr-defined]
    assert slots.count <= 3


@every_engine
@pytest.mark.parametrize("k", [1, 2, 5, 100])
def test_a_search_finds_k_and_keeps_their_chunks(engine: Engine, k: int) -> None:
    """Seen from 10.2, the nearest are 10, 11, 9, 12, 8, ...; each chunk is one token."""
    order = sorted(range(ENTRIES), key=lambda entry: abs(entry - 10.2))
    cache = new_cache(engine, replace(LINE, k=k, cache_k=2, chunk=1))
    first = cache.step(on_line(engine, 10.2), [0], [0], 1)
    assert first.origin_B.tolist() == [SEARCH]
    assert [entry for entry in first.entry_BK[0].tolist() if entry >= 0] == order[:k]
    assert first.distance_BK[0, :1].tolist() == pytest.approx([0.04 * 401], rel=1e-4)  # squared, on all columns
    for point in (0.1, 8.1, 9.4, 12.1, 23.0):
        nearest = sorted(order[:k], key=lambda entry: abs(entry - point))[:2]
        assert [entry for entry, _ in recalled(engine, cache, 0, point)] == nearest


@every_engine
@pytest.mark.parametrize(("k", "cache_k"), [(1, 5), (5, 1), (3, 3), (2, 40)])
def test_searches_and_caches_each_have_their_number_of_neighbours(engine: Engine, k: int, cache_k: int) -> None:
    """Also at one step: the second sentence searches while the first recalls."""
    cache = new_cache(engine, replace(LINE, k=k, cache_k=cache_k, chunk=1))
    cache.step(on_line(engine, 10.2), [0], [0], 1)
    found = cache.step(on_line(engine, 10.2, 1.2), [0, 1], [1], 1)
    assert found.entry_BK.shape == found.distance_BK.shape == (2, max(k, cache_k))
    assert found.origin_B.tolist() == [CACHE, SEARCH]
    for row, most, order in ((0, min(k, cache_k), [10, 11, 9, 12, 8]), (1, k, [1, 2, 0, 3, 4])):
        assert found.entry_BK[row].tolist() == order[:most] + [-1] * (max(k, cache_k) - most)
        assert torch.equal(found.distance_BK[row].isinf(), found.entry_BK[row] < 0)


@every_engine
def test_a_store_of_fewer_entries_than_are_searched_for(engine: Engine) -> None:
    cache = line(engine, entries=1).new_cache(replace(LINE, k=3, cache_k=3), engine.device)
    found = cache.step(on_line(engine, 2.0), [0], [0], 1)
    assert found.entry_BK.tolist() == [[0, -1, -1]] and found.distance_BK.tolist() == [[4.0 * 401, INF, INF]]
    found = cache.step(on_line(engine, 2.0), [0], [], 1)
    assert found.entry_BK.tolist() == [[0, -1, -1]] and found.distance_BK.tolist() == [[2.0, INF, INF]]


# More columns than nominate.


@every_engine
@pytest.mark.parametrize(("entries", "columns", "telling"), [(30, 156, 1.0), (30, 132, 9.0), (400, 156, 1e-3)])
def test_nominated_entries_are_measured_on_all_columns(
    engine: Engine, entries: int, columns: int, telling: float
) -> None:
    """Exact where all entries are nominated, or where the columns behind the first 128 vary little."""
    generator = torch.Generator().manual_seed(entries)
    key_ND = torch.randn(entries, columns, generator=generator)
    key_ND[:, 128:] *= telling
    store = TableStore(engine, ToyStore(key_ND, torch.arange(entries), [entries]))
    cache = store.new_cache(CachePlan(k=4, cache_k=10, chunk=1, columns=columns), engine.device)
    cache.seed([0, 1], torch.arange(entries, device=engine.device).expand(2, -1))
    query_BD = torch.randn(2, columns, generator=torch.Generator().manual_seed(1))
    query_BD[:, 128:] *= telling
    found = cache.step(query_BD.to(engine.device), [0, 1], [], 1)
    for row in (0, 1):
        best = (store.key_ND - query_BD[row]).double().square().sum(dim=1).sqrt().sort()
        assert found.entry_BK[row].tolist() == best.indices[:10].tolist()
        assert found.distance_BK[row].tolist() == pytest.approx(best.values[:10].tolist(), rel=1e-5)


@every_engine
def test_columns_that_do_not_nominate_decide_between_nominated_entries(engine: Engine) -> None:
    """On the first 128 columns entry 0 is nearest, on all of them entry 3."""
    key_ND = torch.zeros(4, 132)
    key_ND[:, 0] = torch.tensor([0.0, 0.125, 0.25, 0.375])
    key_ND[:, 131] = torch.tensor([4.0, 3.0, 2.0, 0.0])
    store = TableStore(engine, ToyStore(key_ND, torch.arange(4), [4]))
    for cache_k, expected in ((1, [3]), (6, [3, 2, 1, 0, -1, -1])):
        cache = store.new_cache(CachePlan(k=1, cache_k=cache_k, chunk=1, columns=132), engine.device)
        seed(engine, cache, [0], [0, 1, 2, 3, -1])
        found = cache.step(torch.zeros(1, 132, device=engine.device), [0], [], 1)
        assert found.entry_BK[0].tolist() == expected and found.distance_BK[0, 0].item() == pytest.approx(0.375)
        assert found.distance_BK[0, 4:].tolist() == [INF] * max(0, cache_k - 4)
