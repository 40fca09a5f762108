"""Entry tables of every engine: tokens, keys, chunks and the nearest of given candidates, against plain loops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nearmt.contracts import Neighbours
from nearmt.engines.base import CachePlan, RowSearch
from nearmt.engines.cpu.cache import CpuCache
from nearmt.engines.cuda.cache import CudaCache
from nearmt.engines.cuda.keys import COLUMNS
from nearmt.engines.reference.cache import ReferenceCache
from nearmt.engines.reference.entries import EntryTable
from tests.engines.every_engine import REFERENCE, WITH_KERNELS, WITH_TRITON, Engine, ends_of, every_engine
from tests.engines.table_store import table_store
from tests.kernels import needs_kernels

INF = math.inf
#: More columns than a kernel of a GPU reads at a time.
WIDE = COLUMNS + 6
#: Sizes of segments: one, several, some of them empty.
SEGMENTS = [[42], [30, 12], [0, 17, 0, 5, 20]]
every_cut = pytest.mark.parametrize("sizes", SEGMENTS, ids=["one segment", "two segments", "empty segments"])


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def whole_numbers(*shape: int, seed: int = 0, most: int = 127) -> Tensor:
    return torch.randint(-most, most + 1, shape, generator=seeded(seed)).float()


def table_of(
    engine: Engine, key_ND: Tensor, sizes: Sequence[int] | None = None, weight_N: Tensor | None = None
) -> EntryTable:
    """Entries with these keys, and their numbers as tokens; one pair."""
    token_N = torch.arange(len(key_ND), dtype=torch.int32)
    parts = key_ND.split(list(sizes) if sizes is not None else [len(key_ND)])
    return engine.entries(parts, token_N, [len(key_ND)], weight_N)


# What is known of entries.


@every_engine
@every_cut
def test_entries_are_numbered_across_segments(engine: Engine, sizes: list[int]) -> None:
    table = table_of(engine, whole_numbers(42, 5), sizes)
    assert len(table) == table.kept == 42 and table.offsets[-1] == 42 and len(table.offsets) == len(sizes) + 1
    assert table.kept_N is None and table.pair_count == 1 and table.device == engine.device


@every_engine
@every_cut
def test_tokens(engine: Engine, sizes: list[int]) -> None:
    table = table_of(engine, whole_numbers(42, 5), sizes)
    for shape in ((6,), (2, 3), (1, 2, 3)):
        entry = torch.tensor([41, 0, 30, 29, 5, 17]).view(shape)
        found = table.tokens(engine.to(entry))
        assert found.dtype == torch.long and torch.equal(found.cpu(), entry)
    padding = table.tokens(engine.to(torch.tensor([[-1, 3]])))
    assert 0 <= int(padding[0, 0]) < 42 and int(padding[0, 1]) == 3


@every_engine
@every_cut
def test_keys_in_any_order_and_width(engine: Engine, sizes: list[int]) -> None:
    key_ND = torch.randn(42, WIDE, generator=seeded(0)).half()
    table, order_M = table_of(engine, key_ND, sizes), torch.randperm(42, generator=seeded(1)).repeat(2)
    for columns in (WIDE, 5):
        found = table.keys(engine.to(order_M), columns)
        assert found.dtype == torch.float32 and torch.equal(found.cpu(), key_ND[order_M, :columns].float())
    assert table.keys(engine.to(order_M[:0]), 7).shape == (0, 7)


@every_engine
def test_weights_of_a_pruned_store(engine: Engine) -> None:
    weight_N = torch.tensor([1.0, 0.0, 3.0, 1.0, 0.0])
    table = table_of(engine, whole_numbers(5, 4), [3, 2], weight_N)
    assert table.kept == 3 and table.kept_N is not None
    assert table.kept_N.tolist() == [True, False, True, True, False]
    found = table.weights(engine.to(torch.tensor([[2, -1, 1], [4, 0, 3]])))
    assert found is not None and found.tolist() == [[3.0, 1.0, 0.0], [0.0, 1.0, 1.0]]
    assert table_of(engine, whole_numbers(5, 4)).weights(engine.to(torch.tensor([2]))) is None


@every_engine
def test_a_table_without_entries(engine: Engine) -> None:
    table = engine.entries([torch.zeros(0, 6)], torch.zeros(0, dtype=torch.int32), [])
    nothing = engine.to(torch.full((2, 3), -1))
    assert len(table) == table.kept == table.pair_count == 0
    assert table.tokens(nothing).tolist() == [[0] * 3] * 2
    assert table.chunks(nothing, 4).tolist() == [[[-1] * 4] * 3] * 2 and table.chunks(nothing, 4).dtype == torch.long
    assert table.of_pairs_each(nothing).shape == (2, 0) and table.of_pairs_each(nothing).dtype == torch.long


def chunk_by_loop(entry: int, size: int, ends: list[int]) -> list[int]:
    if entry < 0:
        return [-1] * size
    end = min(end for end in ends if end > entry)
    return [number if number < end else -1 for number in range(entry, entry + size)]


@every_engine
@settings(max_examples=40)
@given(lengths=st.lists(st.integers(0, 7), min_size=1, max_size=12).filter(any), size=st.integers(1, 9), data=st.data())
def test_chunks_end_with_their_sentence(engine: Engine, lengths: list[int], size: int, data: st.DataObject) -> None:
    """Also where some pairs have no entries."""
    ends, count = ends_of(lengths), sum(lengths)
    table = engine.entries([torch.zeros(count, 4)], torch.zeros(count, dtype=torch.int32), ends)
    entries = data.draw(st.lists(st.integers(-1, count - 1), min_size=4, max_size=4))
    found = table.chunks(engine.to(torch.tensor(entries).view(2, 2)), size)
    assert found.flatten(0, 1).tolist() == [chunk_by_loop(entry, size, ends) for entry in entries]
    owners = [number for number, length in enumerate(lengths) for _ in range(length)]
    assert table.pair_numbers(engine.to(torch.arange(count))).tolist() == owners


@every_engine
@settings(max_examples=40)
@given(
    lengths=st.lists(st.integers(0, 7), min_size=1, max_size=12).filter(any), pairs=st.integers(0, 4), data=st.data()
)
def test_entries_of_pairs(engine: Engine, lengths: list[int], pairs: int, data: st.DataObject) -> None:
    """One pair after the other, a pair twice, and none; sentences have unequally many."""
    ends, count = ends_of(lengths), sum(lengths)
    table = engine.entries([torch.zeros(count, 4)], torch.zeros(count, dtype=torch.int32), ends)
    some = st.lists(st.integers(-1, len(lengths) - 1), min_size=pairs, max_size=pairs)
    number_SP = data.draw(st.lists(some, min_size=1, max_size=3))
    spans = [list(range(end - length, end)) for length, end in zip(lengths, ends, strict=True)]
    expected = [[entry for number in row if number >= 0 for entry in spans[number]] for row in number_SP]
    width = max(len(row) for row in expected)
    found = table.of_pairs_each(torch.tensor(number_SP, dtype=torch.long).view(len(number_SP), pairs))
    assert found.shape == (len(number_SP), width)
    assert found.tolist() == [row + [-1] * (width - len(row)) for row in expected]
    assert table.of_pair(len(lengths) - 1).tolist() == spans[-1]


# The nearest of given candidates.


def by_loop(key_ND: Tensor, query_BE: Tensor, candidate_BX: Tensor, k: int) -> Neighbours:
    """All distances in float64, nearest first, equal ones in the order of entries."""
    rows_entry, rows_distance = [], []
    for query_E, candidate_X in zip(query_BE.double(), candidate_BX, strict=True):
        key_XE = key_ND[:, : len(query_E)].double()
        entries = [entry for entry in candidate_X.tolist() if entry >= 0]
        near = sorted((float((key_XE[entry] - query_E).square().sum()), entry) for entry in entries)[:k]
        missing = k - len(near)
        rows_entry.append([entry for _, entry in near] + [-1] * missing)
        rows_distance.append([distance for distance, _ in near] + [INF] * missing)
    shape = len(query_BE), k
    return Neighbours(torch.tensor(rows_entry).long().view(shape), torch.tensor(rows_distance).view(shape))


def nearest(engine: Engine, table: EntryTable, query_BE: Tensor, candidate_BX: Tensor, k: int) -> Neighbours:
    found = table.nearest(query_BE.to(engine.device), candidate_BX.to(engine.device), k)
    assert found.entry_BK.shape == found.distance_BK.shape == (len(query_BE), k)
    return Neighbours(found.entry_BK.cpu(), found.distance_BK.cpu())


def assert_nearest(
    engine: Engine, key_ND: Tensor, sizes: Sequence[int], query_BE: Tensor, candidate_BX: Tensor, k: int
) -> Neighbours:
    """What the table finds, which is what a loop finds."""
    found = nearest(engine, table_of(engine, key_ND, sizes), query_BE, candidate_BX, k)
    expected = by_loop(key_ND.half(), query_BE, candidate_BX, k)
    assert torch.equal(found.entry_BK, expected.entry_BK)
    torch.testing.assert_close(found.distance_BK, expected.distance_BK, rtol=1e-5, atol=1e-5)
    return found


def random_candidates(seed: int, rows: int, width: int, count: int = 42) -> Tensor:
    """Different entries for each row; a third of them are missing."""
    generator = seeded(seed)
    entry_BX = torch.stack([torch.randperm(count, generator=generator)[:width] for _ in range(rows)])
    return entry_BX.masked_fill(torch.rand(entry_BX.shape, generator=generator) < 1 / 3, -1)


@every_engine
@settings(max_examples=50)
@given(
    sizes=st.lists(st.integers(0, 20), min_size=1, max_size=5).filter(any), columns=st.integers(1, 40),
    unused=st.integers(0, 3), rows=st.integers(1, 4), width=st.integers(1, 30), k=st.integers(1, 12),
    most=st.sampled_from([1, 20]), seed=st.integers(0, 1000),
)  # fmt: skip
def test_the_nearest_of_any_candidates(
    engine: Engine, sizes: list[int], columns: int, unused: int, rows: int, width: int, k: int, most: int, seed: int
) -> None:
    """Segments, some of them empty; missing candidates, and some twice; with numbers up to 1 most are ties."""
    key_ND = whole_numbers(sum(sizes), columns + unused, seed=seed, most=most)
    query_BE = whole_numbers(rows, columns, seed=seed + 1, most=most)
    candidate_BX = torch.randint(-1, len(key_ND), (rows, width), generator=seeded(seed))
    assert_nearest(engine, key_ND, sizes, query_BE, candidate_BX, k)


@every_engine
@every_cut
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("width", "k"), [(1, 1), (9, 4), (16, 16), (40, 8)])
def test_the_nearest_of_real_keys(engine: Engine, sizes: list[int], seed: int, width: int, k: int) -> None:
    key_ND, query_BD = torch.randn(42, WIDE, generator=seeded(seed)), torch.randn(5, WIDE, generator=seeded(9))
    candidate_BX = random_candidates(seed, rows=5, width=width)
    assert_nearest(engine, key_ND, sizes, query_BD, candidate_BX, k)
    if width == 40:
        assert bool((candidate_BX >= 30).any(dim=1).all() & ((candidate_BX >= 0) & (candidate_BX < 30)).any())


@every_engine
@pytest.mark.parametrize(("width", "k"), [(3, 8), (5, 6), (1, 33)])
def test_more_wanted_than_there_are_candidates(engine: Engine, width: int, k: int) -> None:
    key_ND, query_BD = torch.randn(42, WIDE, generator=seeded(0)), torch.randn(4, WIDE, generator=seeded(2))
    found = assert_nearest(engine, key_ND, [30, 12], query_BD, random_candidates(1, rows=4, width=width), k)
    assert torch.equal(found.entry_BK < 0, found.distance_BK.isinf())


@every_engine
def test_a_row_without_candidates_finds_nothing(engine: Engine) -> None:
    key_ND, candidate_BX = torch.randn(42, WIDE, generator=seeded(0)), torch.tensor([[-1, -1, -1], [-1, 7, -1]])
    found = assert_nearest(engine, key_ND, [30, 12], torch.zeros(2, WIDE), candidate_BX, 2)
    assert found.entry_BK.tolist() == [[-1, -1], [7, -1]]


@every_engine
def test_equal_distances_come_in_the_order_of_entries(engine: Engine) -> None:
    """Also where equals are in different segments."""
    key_ND = torch.zeros(42, 3)
    key_ND[[4, 31]] = 1.0
    candidate_BX = torch.tensor([[35, 31, 2, 40, -1, 4, 0, 29]])
    found = assert_nearest(engine, key_ND, [30, 12], torch.zeros(1, 3), candidate_BX, 8)
    assert found.entry_BK.tolist() == [[0, 2, 29, 35, 40, 4, 31, -1]]
    found = assert_nearest(engine, key_ND, [30, 12], torch.ones(1, 3), candidate_BX, 4)
    assert found.entry_BK.tolist() == [[4, 31, 0, 2]]


@every_engine
@pytest.mark.parametrize("columns", [1, 5, COLUMNS, WIDE - 1])
def test_distances_are_those_of_the_columns_of_the_query(engine: Engine, columns: int) -> None:
    """The query is a part of a wider one, as in a sentence cache."""
    key_ND = torch.randn(42, WIDE, generator=seeded(3))
    query_BE = torch.randn(4, WIDE, generator=seeded(4))[:, :columns]
    assert query_BE.stride(0) == WIDE
    assert_nearest(engine, key_ND, [30, 12], query_BE, random_candidates(3, rows=4, width=20), 6)


@every_engine
def test_candidates_may_be_part_of_a_wider_tensor(engine: Engine) -> None:
    key_ND, query_BD = torch.randn(42, WIDE, generator=seeded(4)), torch.randn(3, WIDE, generator=seeded(5))
    candidate_BX = random_candidates(4, rows=3, width=20)[:, 3:11]
    assert_nearest(engine, key_ND, [30, 12], query_BD, candidate_BX, 5)


@every_engine
@every_cut
def test_an_entry_is_at_distance_0_from_itself(engine: Engine, sizes: list[int]) -> None:
    key_ND, entries = torch.randn(42, WIDE, generator=seeded(5)).half().float(), [0, 17, 29, 30, 41]
    found = assert_nearest(engine, key_ND, sizes, key_ND[entries], torch.arange(42).expand(5, -1), 1)
    assert found.entry_BK[:, 0].tolist() == entries and not found.distance_BK.any()


@every_engine
def test_a_small_distance_between_large_keys_is_exact(engine: Engine) -> None:
    key_ND = torch.tensor([[2048.0, 65504.0], [2050.0, 65504.0], [6e-8, 0.0]])
    query_BE, candidate_BX = torch.tensor([[2049.5, 65504.0], [0.0, 0.0]]), torch.tensor([[0, 1, -1], [2, -1, -1]])
    found = nearest(engine, table_of(engine, key_ND), query_BE, candidate_BX, 2)
    assert found.entry_BK.tolist() == [[1, 0], [2, -1]]
    assert found.distance_BK[0].tolist() == [0.25, 2.25]
    assert found.distance_BK[1].tolist() == [key_ND.half()[2, 0].float().square().item(), INF]


@every_engine
@pytest.mark.parametrize("value", [math.nan, INF])
def test_keys_that_are_not_finite_come_last(engine: Engine, value: float) -> None:
    key_ND = whole_numbers(6, 5)
    key_ND[[0, 3], 2] = value
    table, candidate_BX, query_BE = table_of(engine, key_ND), torch.arange(6)[None], torch.zeros(1, 5)
    expected = sorted([1, 2, 4, 5], key=lambda entry: (float(key_ND[entry].square().sum()), entry))
    for k in (1, 3, 4):
        assert nearest(engine, table, query_BE, candidate_BX, k).entry_BK[0].tolist() == expected[:k]
    assert not nearest(engine, table, query_BE, candidate_BX, 6).distance_BK[0, 4:].isfinite().any()


@every_engine
@pytest.mark.parametrize("value", [math.nan, INF])
def test_a_query_that_is_not_finite_finds_nothing_but_candidates(engine: Engine, value: float) -> None:
    """What is found is looked up: a number of no entry would read anywhere."""
    query_BD = torch.zeros(2, WIDE)
    query_BD[0, 1] = value
    table, candidate_BX = table_of(engine, torch.randn(42, WIDE), [30, 12]), torch.tensor([[5, 31, 2], [5, 31, 2]])
    found = nearest(engine, table, query_BD, candidate_BX, 3)
    assert set(found.entry_BK[0].tolist()) <= {-1, 2, 5, 31} and not found.distance_BK[0].isfinite().any()
    assert sorted(found.entry_BK[1].tolist()) == [2, 5, 31]


# Searches by inverted lists.


@dataclass
class RecordingLists:
    """Inverted lists that note who asked."""

    asked: list[tuple[object, int]]

    def row_search(self, keys: object, k: int) -> RowSearch:
        self.asked.append((keys, k))
        return lambda query_BD, row_R, entry_BX, distance_BX: 0


@every_engine
def test_kernels_search_in_inverted_lists_where_there_are_some(engine: Engine) -> None:
    table, lists = table_of(engine, whole_numbers(42, 4)), RecordingLists([])
    found = table.row_search(lists, 3)
    assert (found is not None) == (engine is WITH_KERNELS)
    assert [k for _, k in lists.asked] == ([3] if engine is WITH_KERNELS else [])


# Which cache a table makes.

PLAN = CachePlan(k=4, cache_k=6, chunk=3, columns=48)
UNFIT = {
    "more from searches than from caches": replace(PLAN, k=7),
    "columns that do not come in fours": replace(PLAN, columns=46),
    "few columns": replace(PLAN, columns=32),
}


def test_the_reference_has_a_cache_of_its_own() -> None:
    store = table_store(REFERENCE)
    assert type(store.new_cache(PLAN, torch.device("cpu"))) is ReferenceCache


@needs_kernels
@pytest.mark.parametrize("name", UNFIT)
def test_kernels_have_caches_for_usual_plans(name: str) -> None:
    store, device = table_store(WITH_KERNELS), torch.device("cpu")
    assert type(store.new_cache(PLAN, device)) is CpuCache
    assert type(store.new_cache(UNFIT[name], device)) is ReferenceCache
    # kNN-MT caches nothing, so that all plans of it fit.
    assert type(store.new_cache(replace(UNFIT[name], chunk=0), device)) is CpuCache


@needs_kernels
def test_a_model_on_another_device_has_its_caches_there() -> None:
    assert type(table_store(WITH_KERNELS).new_cache(PLAN, torch.device("meta"))) is ReferenceCache
    assert type(table_store(WITH_TRITON).new_cache(PLAN, torch.device("meta"))) is ReferenceCache


def test_a_gpu_has_caches_for_searches_that_graphs_can_hold() -> None:
    store, device = table_store(WITH_TRITON), WITH_TRITON.device
    for plan in (PLAN, *UNFIT.values()):
        assert type(store.new_cache(plan, device)) is CudaCache
    store.capturable = False
    assert type(store.new_cache(PLAN, device)) is ReferenceCache
