"""Chunk-based retrieval by kernels on a CPU against the same without, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from nearmt.retrieval.chunked import Chunked, ChunkPlan
from nearmt.retrieval.native_chunked import NativeChunked
from torch import Tensor

from nearmt.config.schedule import EverySchedule
from nearmt.contracts import Neighbours, Origin
from nearmt.datastore.disk import Segment
from nearmt.datastore.search.entries import Entries
from nearmt.datastore.search.searcher import Searcher
from nearmt.engines.cpu.nearest import EntryRows, KeyRows
from nearmt.index import TorchIndex
from nearmt.methods import ChunkConfig, ChunkMethod
from nearmt.retrieval.retriever import Retrieved
from tests.datastore.test_search import write_segment
from tests.kernels import needs_kernels
from tests.toy_store import ToyStore, random_store, usual_plan

pytestmark = needs_kernels

COLUMNS = 48
SEARCH, CACHE, MODEL = int(Origin.SEARCH), int(Origin.CACHE), int(Origin.MODEL)
PLAN = usual_plan(COLUMNS)
#: |x| of sentences, which decides when they search, and their tokens, which decide what is like them.
LENGTHS, SOURCES = [2, 9, 4, 30, 7, 5], [[0], [5], [11], [3], [5], [19]]
#: At each turn the step of every sentence that runs. Sentences take their first step apart, one row each; then they
#: wait until there is a place for them. Some leave, and those that follow are more than there were before.
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


def with_rows(store: ToyStore, sizes: Sequence[int] = ()) -> ToyStore:
    """A store whose keys kernels can read, in segments of these sizes and one of the rest; all keys are rounded."""
    key_ND = store.key_ND.half()
    store.key_ND = key_ND.float()
    parts = key_ND.split([*sizes, len(key_ND) - sum(sizes)])
    keys = KeyRows.of(parts, [0, *torch.tensor([len(part) for part in parts]).cumsum(0).tolist()])
    assert keys is not None
    store.rows = EntryRows(keys, store.token_N.int(), torch.tensor(store.ends), weighted=False)
    return store


def made_store(sentences: int = 20, columns: int = COLUMNS, sizes: Sequence[int] = ()) -> ToyStore:
    return with_rows(random_store(0, sentences, columns, vocabulary=20), sizes)


def made_queries(store: ToyStore, count: int, seed: int) -> Tensor:
    """Near entries; some ask the same."""
    generator = torch.Generator().manual_seed(seed)
    near_B = torch.randint(0, len(store), (count,), generator=generator)
    query_BD = store.key_ND[near_B] + 0.5 * torch.randn(count, store.columns, generator=generator)
    return query_BD[torch.randint(0, count, (count,), generator=generator)]


def walk(retriever: Chunked, store: ToyStore, rows: int) -> list[Retrieved]:
    """All turns; sentences that are in none of those that follow leave."""
    steps = []
    for turn, now in enumerate(TURNS):
        each = 1 if set(now.values()) == {1} else rows
        sources = [sentence for sentence in now for _ in range(each)]
        query_BD = made_queries(store, len(sources), turn)
        steps.append(retriever.retrieve(query_BD, [now[sentence] for sentence in sources], sources))
        retriever.reorder(torch.arange(len(sources)))
        still = {sentence for after in TURNS[turn + 1 :] for sentence in after}
        retriever.leave([sentence for sentence in now if sentence not in still])
    return steps


def native(store: ToyStore, plan: ChunkPlan, sources: Sequence[Sequence[int]] = SOURCES) -> NativeChunked:
    assert NativeChunked.serves(store, plan)
    return NativeChunked(store, plan, LENGTHS, 20, sources)


def usual(store: ToyStore, plan: ChunkPlan, sources: Sequence[Sequence[int]] = SOURCES) -> Chunked:
    return Chunked(store, plan, LENGTHS, 20, sources)


def assert_same(found: Retrieved, expected: Retrieved) -> None:
    assert torch.equal(found.asked_B, expected.asked_B)
    assert found.entry_BK.dtype == expected.entry_BK.dtype and torch.equal(found.entry_BK, expected.entry_BK)
    torch.testing.assert_close(found.distance_BK, expected.distance_BK, rtol=1e-5, atol=1e-5)


def assert_same_steps(found: list[Retrieved], expected: list[Retrieved]) -> None:
    for mine, plain in zip(found, expected, strict=True):
        assert_same(mine, plain)


def as_it_was(store: ToyStore, kind: str, request: pytest.FixtureRequest) -> ToyStore:
    """The store that `Chunked` reads: as it is, or with nothing in it for kernels, or where there are no kernels."""
    if kind == "no kernels":
        request.getfixturevalue("no_kernels")
    if kind != "kernels":
        store.rows = None
    return store


PLANS: dict[str, dict[str, Any]] = {
    "usual": {},
    "few from searches": {"k": 1},
    "as many from searches as from caches": {"k": 4, "cache_k": 4},
    "fewer columns": {"cache": replace(PLAN.cache, columns=36)},
    "at every step": {"schedule": EverySchedule(1), "chunk": 1},
    "chunks longer than pairs": {"chunk": 20},
    "more than caches hold": {"cache_k": 40},
    "caches that hold next to nothing": {"seeds": 1, "k": 2, "chunk": 1, "cache_k": 30},
    "more than there are": {"k": 200, "chunk": 2, "cache_k": 200},
}


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("kind", ["kernels", "no rows", "no kernels"])
def test_steps_are_those_of_the_usual_way(name: str, rows: int, kind: str, request: pytest.FixtureRequest) -> None:
    store, plan = made_store(), replace(PLAN, **PLANS[name])
    mine = native(store, plan)
    found = walk(mine, store, rows)
    plain = usual(as_it_was(store, kind, request), plan)
    assert_same_steps(found, walk(plain, store, rows))
    assert mine.searches == plain.searches and min(mine.searches) > 0
    origins = {origin for step in found for origin in step.origin_B.tolist()}
    assert origins == {SEARCH, CACHE} - ({CACHE} if name == "at every step" else set())


@pytest.mark.parametrize(("rows", "beams"), [(3, 1), (3, 2), (3, 3), (4, 5), (7, 3)])
@pytest.mark.parametrize("kind", ["kernels", "no kernels"])
def test_the_best_hypotheses_of_a_sentence_search_and_the_others_recall(
    rows: int, beams: int, kind: str, request: pytest.FixtureRequest
) -> None:
    store, plan = made_store(), replace(PLAN, search_beams=beams)
    mine = native(store, plan)
    found = walk(mine, store, rows)
    plain = usual(as_it_was(store, kind, request), plan)
    assert_same_steps(found, walk(plain, store, rows))
    assert mine.searches == plain.searches
    seen = {tuple(part) for step in found if len(step.asked_B) > 3 for part in step.asked_B.view(-1, rows).tolist()}
    due = min(rows, beams)
    assert seen == {(SEARCH,) * due + (CACHE,) * (rows - due), (CACHE,) * rows}


@pytest.mark.parametrize("sizes", [[50], [0, 3, 40]])
@pytest.mark.parametrize("kind", ["kernels", "no kernels"])
def test_keys_in_segments(sizes: list[int], kind: str, request: pytest.FixtureRequest) -> None:
    store = made_store(sizes=sizes)
    found = walk(native(store, PLAN), store, rows=2)
    assert_same_steps(found, walk(usual(as_it_was(store, kind, request), PLAN), store, rows=2))


def test_columns_that_do_not_nominate() -> None:
    """Keys of more columns than are held are measured on all of them."""
    store, plan = made_store(columns=144), replace(PLAN, cache=replace(PLAN.cache, columns=140))
    assert_same_steps(walk(native(store, plan), store, rows=3), walk(usual(store, plan), store, rows=3))


def test_caches_that_grow_beyond_their_room() -> None:
    """Also the tables of what they hold; and large keys that come later make the numbers of all others coarser."""
    store = random_store(1, sentences=300, columns=COLUMNS, vocabulary=20)
    store.key_ND[700:] *= 3
    store, plan = with_rows(store), replace(PLAN, k=60, cache_k=60, chunk=9, schedule=EverySchedule(2))
    mine, plain = native(store, plan), usual(store, plan)
    assert_same_steps(walk(mine, store, rows=3), walk(plain, store, rows=3))
    assert mine._cache is not None and mine._cache._marks is not None
    assert mine._cache._keys.room > 512 and mine._cache._marks._table_UT.shape[1] > 1024


def test_caches_hold_the_same_in_the_same_order() -> None:
    store = made_store()
    mine, plain = native(store, PLAN), usual(store, PLAN)
    for time in range(1, 7):
        rows = 1 if time == 1 else 2
        sources = [sentence for sentence in (1, 3, 4) for _ in range(rows)]
        query_BD = made_queries(store, len(sources), time)
        for retriever in (mine, plain):
            retriever.retrieve(query_BD, [time] * len(sources), sources)
        assert mine._cache is not None and plain._cache is not None
        assert mine._cache._holder_of == plain._cache._holder_of and mine._cache._count == plain._cache._count
        assert mine._cache._seeds == plain._cache._seeds
        for holder, count in enumerate(mine._cache._count):
            held_M = mine._cache._held_UM[holder]
            assert torch.equal(held_M[:count], plain._cache._held_UM[holder, :count])
            assert len(set(held_M[:count].tolist())) == count and (held_M[count:] == -1).all()


def test_nobody_keeps_what_nobody_needs() -> None:
    store = made_store()
    mine = native(store, PLAN)
    walk(mine, store, rows=2)
    cache = mine._cache
    assert cache is not None and not cache._holder_of
    assert sorted(cache._free) == [0, 1, 2, 3] and not any(cache._count)  # no more run, or wait, at a time
    assert (cache._held_UM == -1).all()


def test_searches_that_find_the_same_again_bring_nothing_new() -> None:
    store, plan = made_store(), replace(PLAN, schedule=EverySchedule(2))
    mine, plain = native(store, plan), usual(store, plan)
    query_BD = made_queries(store, 1, seed=0).expand(4, -1)
    counts = []
    for time in range(1, 6):
        sources = [0, 1] if time == 1 else [0, 0, 1, 1]
        asked = query_BD[: len(sources)], [time] * len(sources), sources
        assert_same(mine.retrieve(*asked), plain.retrieve(*asked))
        assert mine._cache is not None
        counts.append(list(mine._cache._count))
    assert mine.searches[:2] == plain.searches[:2] == [3, 3]
    assert counts == [counts[0]] * 5


def test_seeds_are_those_of_the_first_search_alone() -> None:
    store = made_store()
    asked: list[int] = []
    similar_each = store.similar_each
    store.similar_each = lambda sources, count: asked.append(len(sources)) or similar_each(sources, count)  # type: ignore[method-assign, func-returns-value]
    mine = native(store, replace(PLAN, schedule=EverySchedule(2)))
    for time in range(1, 6):
        mine.retrieve(torch.zeros(2, COLUMNS), [time, time], [0, 1])
    assert asked == [2] and mine.searches[:2] == [3, 3]


class Blind(ToyStore):
    """Finds nothing, and only the source that begins with 1 is like something."""

    def search(self, query_BD: Tensor, k: int) -> Neighbours:
        shape = len(query_BD), k
        return Neighbours(torch.full(shape, -1), torch.full(shape, torch.inf))

    def similar(self, source: Sequence[int], count: int) -> Tensor:
        return torch.tensor([4, 2] if source[0] == 1 else [], dtype=torch.long)


@pytest.mark.parametrize("sources", [[[1], [0]], [[0], [0]]])
@pytest.mark.parametrize("kind", ["kernels", "no kernels"])
def test_searches_in_vain(sources: list[list[int]], kind: str, request: pytest.FixtureRequest) -> None:
    """A sentence has its seeds, or nothing at all."""
    known = random_store(0, sentences=5, columns=COLUMNS, vocabulary=20)
    store = with_rows(Blind(known.key_ND, known.token_N, known.ends))
    asked = [(made_queries(store, 2, time), [time] * 2, [0, 1]) for time in (1, 2, 3)]
    mine = native(store, PLAN, sources)
    found = [mine.retrieve(*step) for step in asked]
    plain = usual(as_it_was(store, kind, request), PLAN, sources)
    assert_same_steps(found, [plain.retrieve(*step) for step in asked])
    assert found[0].origin_B.tolist() == [MODEL, MODEL]
    assert found[1].origin_B.tolist() == [CACHE if source == [1] else MODEL for source in sources]
    assert sorted(found[1].entry_BK[0].tolist()) == [-1, -1, *([2, 4] if sources[0] == [1] else [-1, -1])]


def test_queries_may_lie_anywhere() -> None:
    store = made_store()
    mine, other = native(store, PLAN), native(store, PLAN)
    for time in range(1, 6):
        query_BD = made_queries(store, 3, time)
        found = mine.retrieve(query_BD.T.contiguous().T, [time] * 3, [0, 1, 2])
        assert_same(found, other.retrieve(query_BD, [time] * 3, [0, 1, 2]))


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_queries_that_are_no_numbers_disturb_nobody(value: float) -> None:
    store = made_store()
    mine, other = native(store, PLAN), native(store, PLAN)
    for time in range(1, 6):
        query_BD = made_queries(store, 3, time)
        bad_BD = query_BD.clone()
        bad_BD[1] = value
        found = mine.retrieve(bad_BD, [time] * 3, [0, 1, 2])
        expected = other.retrieve(query_BD, [time] * 3, [0, 1, 2])
        assert torch.equal(found.entry_BK[::2], expected.entry_BK[::2])
        assert torch.equal(found.distance_BK[::2], expected.distance_BK[::2])
        assert found.entry_BK[1].min() >= -1 and found.entry_BK[1].max() < len(store)


# Segments on disk.


class SegmentStore(ToyStore):
    """The entries of some segments, as a datastore reads and searches them; of 8 entries each is a sentence."""

    def __init__(self, folder: Path, key_ND: Tensor, cuts: list[int]) -> None:
        records = [
            write_segment(folder, f"segment-{number:06d}", key_ND[start:end].numpy())
            for number, (start, end) in enumerate(pairwise(cuts))
        ]
        segments = [Segment(folder / record.name, record, COLUMNS) for record in records]
        self.entries = Entries(segments, torch.device("cpu"))
        indexes = [TorchIndex(part_ND) for part_ND in self.entries.keys_by_segment]
        self.searcher = Searcher(self.entries, list(indexes), COLUMNS)
        super().__init__(key_ND.float(), torch.zeros(len(key_ND)), self.entries.end_P.tolist())
        if self.entries.key_rows is not None:
            self.rows = EntryRows(self.entries.key_rows, self.entries.token_N, self.entries.end_P, weighted=False)

    def search(self, query_BD: Tensor, k: int) -> Neighbours:
        return self.searcher.search(query_BD, k)

    def nearest(self, query_BE: Tensor, candidate_BX: Tensor, k: int) -> Neighbours:
        return self.entries.nearest(query_BE, candidate_BX, k)

    def keys(self, entry_M: Tensor, columns: int) -> Tensor:
        return self.entries.keys(entry_M, columns)

    def chunks(self, entry_BK: Tensor, size: int) -> Tensor:
        return self.entries.chunks(entry_BK, size)


@pytest.mark.parametrize("cuts", [[0, 120], [0, 50, 50, 53, 120]])
@pytest.mark.parametrize("kernels", [True, False])
def test_segments_of_a_store(cuts: list[int], kernels: bool, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The last pair of a segment may be shorter than a chunk."""
    key_ND = torch.randn(120, COLUMNS, generator=torch.Generator().manual_seed(3)).half()
    plan = replace(PLAN, chunk=5, search_beams=2)
    store = SegmentStore(tmp_path / "store", key_ND, cuts)
    found = walk(native(store, plan), store, rows=3)
    if not kernels:
        request.getfixturevalue("no_kernels")
    same = SegmentStore(tmp_path / "same", key_ND, cuts)
    assert (same.rows is not None) == kernels
    assert_same_steps(found, walk(usual(same, plan), same, rows=3))


# Whom it serves.

SPECIAL: dict[str, dict[str, Any]] = {
    "in order": {"in_order": True},
    "varying chunks": {"varying_chunk": True},
    "of hypotheses": {"cache": replace(PLAN.cache, scope="hypothesis")},
    "of the batch": {"cache": replace(PLAN.cache, scope="batch")},
    "of the last search": {"cache": replace(PLAN.cache, retention="last")},
    "with duplicates": {"cache": replace(PLAN.cache, duplicates="keep")},
    "more from searches than from caches": {"k": 5, "cache_k": 4},
    "columns that do not come in fours": {"cache": replace(PLAN.cache, columns=46)},
    "few columns": {"cache": replace(PLAN.cache, columns=32)},
}


@pytest.mark.parametrize("name", SPECIAL)
def test_it_does_not_serve_special_plans(name: str) -> None:
    assert not NativeChunked.serves(made_store(), replace(PLAN, **SPECIAL[name]))


def test_it_serves_where_kernels_can_read_the_keys(request: pytest.FixtureRequest) -> None:
    store = made_store()
    assert NativeChunked.serves(store, PLAN)
    assert not NativeChunked.serves(random_store(0, sentences=20, columns=COLUMNS, vocabulary=20), PLAN)
    request.getfixturevalue("no_kernels")
    assert not NativeChunked.serves(store, PLAN)


def test_the_method_lets_it_serve() -> None:
    store = made_store()
    for config, kind in ((ChunkConfig(), NativeChunked), (ChunkConfig(scope="batch"), Chunked)):
        assert type(ChunkMethod(store, config).retriever(store, LENGTHS, 20, SOURCES)) is kind
    store.rows = None
    assert type(ChunkMethod(store).retriever(store, LENGTHS, 20, SOURCES)) is Chunked


@pytest.mark.parametrize(("plan", "sources"), [(replace(PLAN, seeds=0), SOURCES), (PLAN, ())])
@pytest.mark.parametrize("rows", [1, 3])
def test_without_seeds_or_sources_there_are_only_chunks(
    plan: ChunkPlan, sources: Sequence[Sequence[int]], rows: int
) -> None:
    store = made_store()
    assert_same_steps(walk(native(store, plan, sources), store, rows), walk(usual(store, plan, sources), store, rows))


@pytest.mark.parametrize("rows", [2, 3, 5])
def test_one_chunk_of_each_of_several_rows(rows: int) -> None:
    store, plan = made_store(), replace(PLAN, k=1)
    assert_same_steps(walk(native(store, plan), store, rows), walk(usual(store, plan), store, rows))


@pytest.mark.parametrize("rows", [2, 3])
def test_more_rows_than_search_at_the_very_first_step(rows: int) -> None:
    store, plan = made_store(), replace(PLAN, search_beams=1)
    mine, plain = native(store, plan), usual(store, plan)
    for time in (1, 2, 3):
        asked = made_queries(store, rows, time), [time] * rows, [0] * rows
        assert_same(mine.retrieve(*asked), plain.retrieve(*asked))


def test_queries_on_another_device_are_left_to_chunked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of a model on a GPU whose store lies on a CPU."""
    asked = []
    monkeypatch.setattr(Chunked, "retrieve", lambda self, *step: asked.append(step))
    step = torch.zeros(2, 4, device="meta"), [1, 1], [0, 0]
    native(made_store(), PLAN).retrieve(*step)
    assert asked == [step]


class Writing:
    """A row search: what the store would find is written to where rows stand; what was there is no more."""

    def __init__(self, store: ToyStore, k: int, fewer: int) -> None:
        self.store, self.k, self.fewer, self.calls = store, k, fewer, 0

    def __call__(self, query_BD: Tensor, row_R: np.ndarray | None, entry_BX: Tensor, distance_BX: Tensor) -> int:
        assert row_R is not None and query_BD.is_contiguous()
        found, self.calls = self.store.search(query_BD[row_R], self.k), self.calls + 1
        entry_BX[row_R], distance_BX[row_R] = -1, torch.inf
        # Who finds too few has found nothing at all here.
        if not self.fewer:
            entry_BX[row_R, : self.k], distance_BX[row_R, : self.k] = found.entry_BK, found.distance_BK
        return self.fewer


@pytest.mark.parametrize("rows", [1, 3, 5])
@pytest.mark.parametrize("fewer", [0, 2], ids=["finds", "too few"])
def test_kernels_that_search_write_to_where_rows_stand(rows: int, fewer: int) -> None:
    store = made_store()
    expected = walk(usual(store, PLAN), store, rows)
    assert store.rows is not None
    asked, writing = list[int](), Writing(store, PLAN.k, fewer)

    def searching(k: int) -> Writing:
        asked.append(k)
        return writing

    store.rows = replace(store.rows, searching=searching)
    assert_same_steps(walk(native(store, PLAN), store, rows), expected)
    assert asked == [PLAN.k] and writing.calls > 0
