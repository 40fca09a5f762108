"""Rounded keys and hash tables of caches by kernels, and searches that write to the rows of a step."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from nearmt.contracts import Neighbours
from nearmt.datastore import Datastore
from nearmt.datastore.disk import Segment
from nearmt.datastore.search.entries import open_entries
from nearmt.datastore.search.searcher import Searcher
from nearmt.engines.base import CachePlan, RowSearch, SentenceCache
from nearmt.engines.choose import exact_index
from nearmt.engines.cpu import nearest
from nearmt.engines.cpu.cache import CpuCache, RoundedKeys
from nearmt.engines.cpu.nearest import KeyRows
from nearmt.engines.reference.cache import ReferenceCache
from nearmt.models import ModelConfig, TranslationModel, load_model
from tests.conftest import make_pairs
from tests.datastore.test_search import write_segment
from tests.engines.every_engine import REFERENCE, WITH_KERNELS
from tests.engines.table_store import TableStore, table_store
from tests.engines.test_cache import PLAN, Walk, assert_same, random_queries, walks
from tests.kernels import needs_kernels
from tests.random_stores import random_store
from tests.tiny import tiny_model
from tests.toy_store import ToyStore

pytestmark = needs_kernels

CPU = torch.device("cpu")
COLUMNS = 48


def made(rows: int, columns: int, seed: int) -> Tensor:
    """Keys whose columns vary less and less, as those of reduced keys do."""
    spread_D = torch.linspace(6.0, 0.5, columns)
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) * spread_D


# Rounded keys.


class Rounded:
    """Keys of some caches, put there part by part."""

    def __init__(self, caches: int, columns: int, capacity: int) -> None:
        self.keys = RoundedKeys(columns)
        self.keys.add(caches)
        self.keys.grow(capacity + -capacity % 16)
        self.count = [0] * caches

    def put(self, cache: int, key_XD: Tensor) -> None:
        rows = KeyRows([key_XD.half()], [0, len(key_XD)])
        entry_X = torch.arange(len(key_XD))
        largest = rows.largest(entry_X, self.keys.columns)
        self.keys.put(cache, self.count[cache], rows, entry_X, largest)
        self.count[cache] += len(key_XD)

    def nominate(self, cache: int, query_RD: Tensor, count: int) -> Tensor:
        """Positions that are likely to be nearest to each query, [R, count]."""
        keys = self.keys
        name_UM = torch.arange(keys.half_UM.shape[1]).expand(len(self.count), -1).contiguous()
        query_1RN = torch.nn.functional.pad(query_RD[None, :, : keys.columns], (0, -keys.columns % 4))
        ends, units = [self.count[cache]], [max(keys.units[cache], 1e-30)]
        given = keys.key_UMN, keys.half_UM, name_UM, [cache], units, ends, query_1RN, min(count, self.count[cache])
        return nearest.nominate(*given)[0][0]

    def nominated(self, cache: int, query_D: Tensor, count: int) -> set[int]:
        return set(self.nominate(cache, query_D[None], count)[0].tolist())


def rounded(keys: list[Tensor], capacity: int = 0) -> Rounded:
    found = Rounded(len(keys), keys[0].shape[1], max(capacity, *(len(key_XD) for key_XD in keys), 1))
    for cache, key_XD in enumerate(keys):
        found.put(cache, key_XD)
    return found


@pytest.mark.parametrize("columns", [33, 36, 64, 100, 128, 256])
def test_the_nearest_are_nominated(columns: int) -> None:
    keys, query_GRD = [made(900, columns, seed) for seed in range(3)], made(6, columns, 9).view(3, 2, columns)
    caches, hits = rounded(keys), []
    for cache in range(3):
        position_RX = caches.nominate(cache, query_GRD[cache], 40)
        exact_RK = torch.cdist(query_GRD[cache], keys[cache]).topk(16, dim=-1, largest=False).indices
        hits.append((exact_RK[..., None] == position_RX[:, None, :]).any(dim=-1))
        assert all(len(set(row)) == 40 for row in position_RX.tolist())
    assert torch.stack(hits).float().mean() >= (0.99 if columns <= 128 else 0.9)


def test_a_row_does_not_depend_on_others() -> None:
    caches = rounded([made(900, 200, 0)])
    query_RD = made(5, 200, 1) * torch.tensor([1.0, 50.0, 1e-3, 1.0, 1.0])[:, None]
    together = caches.nominate(0, query_RD, 20)
    for row in range(5):
        assert set(caches.nominate(0, query_RD[row : row + 1], 20)[0].tolist()) == set(together[row].tolist())


def test_keys_of_zeros() -> None:
    assert rounded([torch.zeros(5, 64)]).nominated(0, torch.zeros(64), 5) == set(range(5))


@pytest.mark.parametrize("factor", [1.0, 3.0, 40.0])
def test_larger_keys_that_come_later_change_the_unit(factor: float) -> None:
    small, large = made(400, 64, 0), made(400, 64, 1) * factor
    caches = rounded([small], capacity=800)
    before = caches.keys.units[0]
    caches.put(0, large)
    assert (caches.keys.units[0] > before) == (factor > 1)
    every = torch.cat([small, large])
    for query_D in (made(1, 64, 2)[0], large[7] * 1.01):
        near = torch.cdist(query_D[None], every)[0].topk(4, largest=False).indices.tolist()
        found = caches.nominated(0, query_D, 30)
        # Small keys are hardly told apart where others are 40 times as large: one is as good as another.
        assert set(near) <= found or (factor > 3 and max(near) < 400 and max(found) < 400)


def test_the_unit_leaves_headroom() -> None:
    """Keys that are 10 % larger than all before need no new unit; larger ones do."""
    key_XD = made(50, 64, 0).half().float()
    caches = rounded([key_XD], capacity=200)
    largest = float(key_XD.abs().max())
    assert caches.keys.units[0] == pytest.approx(1.1 * largest / 127)
    unit = caches.keys.units[0]
    caches.put(0, key_XD * 1.09)
    assert caches.keys.units[0] == unit
    caches.put(0, key_XD * 1.2)
    assert caches.keys.units[0] == pytest.approx(1.1 * 1.2 * largest / 127, rel=1e-3)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_keys_that_are_not_finite_stop_nothing(value: float) -> None:
    caches = rounded([torch.full((5, 64), value)], capacity=10)
    caches.put(0, made(5, 64, 0))
    assert caches.nominated(0, made(1, 64, 1)[0], 10) == set(range(10))


def test_more_caches_and_more_capacity_keep_what_is_there() -> None:
    keys = [made(300, 64, 0), made(300, 64, 1)]
    caches, query_D = rounded(keys), made(1, 64, 5)[0]
    before = [caches.nominated(cache, query_D, 12) for cache in (0, 1)]
    caches.keys.grow(2000)
    caches.keys.add(1)
    caches.count.append(0)
    caches.put(2, keys[0] * 2)
    assert [caches.nominated(cache, query_D, 12) for cache in (0, 1)] == before
    assert caches.nominated(2, query_D * 2, 12) == before[0]


def test_a_cleared_cache_begins_with_a_new_unit() -> None:
    """Small keys would be lost in the unit of large ones."""
    caches = rounded([made(50, 64, 0) * 1e3])
    caches.keys.clear(0)
    caches.count[0] = 0
    small = made(30, 64, 1) * 1e-3
    caches.put(0, small)
    for number in (0, 17, 29):
        assert caches.nominated(0, small[number].half().float(), 1) == {number}


@pytest.mark.parametrize("size", [1e-3, 1e-1, 1e3])
def test_keys_of_any_size(size: float) -> None:
    key_XD, query_D = made(300, 64, 0), made(1, 64, 1)[0]
    expected = rounded([key_XD]).nominated(0, query_D, 20)
    found = rounded([key_XD * size]).nominated(0, query_D * size, 20)
    assert len(expected & found) >= 19  # a number may be rounded to the next one


# What caches have.


def cpu_cache(store: TableStore, plan: CachePlan) -> CpuCache:
    cache = store.new_cache(plan, CPU)
    assert isinstance(cache, CpuCache)
    return cache


@pytest.mark.parametrize("columns", [36, 48])
def test_chunks_are_cached_as_their_entries_are(columns: int) -> None:
    """Bit by bit, several caches at once: keys larger than a cache's unit allows, zeros, and nothing new."""
    key_ND = made(90, 64, 0)
    key_ND[:10], key_ND[70:] = 0, key_ND[70:] * 3
    known = ToyStore(key_ND, torch.zeros(90, dtype=torch.long), [8, 40, 41, 90])
    store, plan = TableStore(WITH_KERNELS, known, [40]), CachePlan(k=2, cache_k=4, chunk=6, columns=columns)
    mine, other = cpu_cache(store, plan), cpu_cache(store, plan)
    for sentences, entries in (
        ([2, 0], [[5, 1], [30, -1]]),
        ([0, 1, 2], [[38, 75], [0, -1], [5, 6]]),
        ([1], [[40, 88]]),
    ):
        mine._remember(sentences, np.array(entries).reshape(-1, 1))
        other.seed(sentences, store.chunks(torch.tensor(entries), 6).flatten(1))
    assert mine._count == other._count and min(mine._count) > 0 and max(mine._count) > 6
    assert torch.equal(mine._entry_UM, other._entry_UM) and mine._rounded.units == other._rounded.units
    assert torch.equal(mine._rounded.half_UM, other._rounded.half_UM)
    assert torch.equal(mine._rounded.key_UMN, other._rounded.key_UMN)


def test_caches_have_the_same_entries_in_the_same_order_as_the_reference() -> None:
    store = table_store(WITH_KERNELS)
    mine, plain = Walk(store, PLAN, CPU), Walk(table_store(REFERENCE), PLAN, CPU)
    cache, reference = mine.retriever._cache, plain.retriever._cache
    assert isinstance(cache, CpuCache) and isinstance(reference, ReferenceCache)
    for time in range(1, 7):
        now = dict.fromkeys((1, 3, 4), time)
        query_BD = random_queries(store, len(now) * (1 if time == 1 else 2), time)
        assert_same(mine.step(query_BD, now), plain.step(query_BD, now))
        assert cache._count == reference._count
        for entry_M, same_M, count in zip(cache._entry_UM, reference._entry_UM, cache._count, strict=True):
            assert torch.equal(entry_M[:count], same_M[:count])
            assert len(set(entry_M[:count].tolist())) == count and (entry_M[count:] == -1).all()


def test_finished_sentences_keep_no_cache() -> None:
    walk = Walk(table_store(WITH_KERNELS), PLAN, CPU)
    walk.turns(rows=2)
    cache = walk.retriever._cache
    assert isinstance(cache, CpuCache)
    assert not cache._slots.sentences and cache._slots.count == 4  # no more are in the batch, or wait, at a time
    assert not any(cache._count) and not cache._hash_UT.any() and not any(cache._rounded.units)


@pytest.mark.parametrize("count", [512, 513, 1500])
def test_hash_tables_grow_with_the_caches(count: int) -> None:
    """At least half of their positions stay free; other caches keep what they have."""
    store = TableStore(WITH_KERNELS, random_store(0, sentences=600, columns=COLUMNS, vocabulary=20))
    cache = cpu_cache(store, replace(PLAN.cache, cache_k=2000))
    every_X = torch.arange(len(store))
    cache.seed([0, 1], torch.stack([every_X[:7], every_X[100:107]]))
    cache.seed([1], every_X[None, :count])
    size = cache._hash_UT.shape[1]
    assert size >= 2 * count and size & (size - 1) == 0 and cache._entry_UM.shape[1] >= count
    cache.seed([0, 1], every_X[None, : count + 5].expand(2, -1))
    assert cache._count == [count + 5, count + 5]
    assert cache._entry_UM[0, : count + 5].tolist() == list(range(count + 5))
    assert sorted(cache._entry_UM[1, : count + 5].tolist()) == list(range(count + 5))


def test_caches_and_hash_tables_have_grown() -> None:
    """In the walk of `test_caches_grow`, which would prove less otherwise."""
    known = random_store(1, sentences=300, columns=COLUMNS, vocabulary=20)
    plan = replace(PLAN, cache=replace(PLAN.cache, k=60, cache_k=60, chunk=9))
    walk = Walk(TableStore(WITH_KERNELS, known), plan, CPU)
    walk.turns(rows=3)
    cache = walk.retriever._cache
    assert isinstance(cache, CpuCache)
    assert cache._entry_UM.shape[1] > 512 and cache._hash_UT.shape[1] > 1024


# Searches by kernels.


class Writing:
    """A row search: writes what the store finds to the rows, over what was there."""

    def __init__(self, store: TableStore, k: int, fewer: int) -> None:
        self.store, self.k, self.fewer, self.calls = store, k, fewer, 0

    def __call__(self, query_BD: Tensor, row_R: np.ndarray | None, entry_BX: Tensor, distance_BX: Tensor) -> int:
        assert row_R is not None and query_BD.is_contiguous()
        found, self.calls = self.store.search(query_BD[row_R], self.k), self.calls + 1
        entry_BX[row_R], distance_BX[row_R] = -1, torch.inf
        # Where some rows find too few, they find nothing here.
        if not self.fewer:
            entry_BX[row_R, : self.k], distance_BX[row_R, : self.k] = found.entry_BK, found.distance_BK
        return self.fewer


class SearchedByKernel(TableStore):
    """A store that a kernel searches."""

    fewer = 0

    def row_search(self, k: int) -> RowSearch | None:
        self.searching = Writing(self, k, self.fewer)
        return self.searching


@pytest.mark.parametrize("rows", [1, 3, 5])
@pytest.mark.parametrize("fewer", [0, 2], ids=["finds", "too few"])
def test_kernels_that_search_write_to_the_rows_of_a_step(rows: int, fewer: int) -> None:
    """Where they find too few, the store searches once more."""
    store = SearchedByKernel(WITH_KERNELS, random_store(0, 20, COLUMNS, vocabulary=20))
    store.fewer = fewer
    mine, plain = walks(store, PLAN)
    for step, same in zip(mine.turns(rows), plain.turns(rows), strict=True):
        assert_same(step, same)
    assert store.searching.k == PLAN.cache.k and store.searching.calls > 0


# Stores on disk.


class SegmentStore(TableStore):
    """The entries of some segments, as a datastore reads and searches them; 8 entries are a sentence."""

    def __init__(self, folder: Path, key_ND: Tensor, cuts: list[int]) -> None:
        records = [
            write_segment(folder, f"segment-{number:06d}", key_ND[start:end].numpy())
            for number, (start, end) in enumerate(pairwise(cuts))
        ]
        segments = [Segment(folder / record.name, record, COLUMNS) for record in records]
        table = open_entries(segments, CPU)
        super().__init__(WITH_KERNELS, ToyStore(key_ND.float(), torch.zeros(len(key_ND)), table.end_P.tolist()))
        self.table = table
        indexes = [exact_index(part_ND) for part_ND in table.keys_by_segment]
        self.searcher = Searcher(table, list(indexes), COLUMNS)

    def search(self, query_BD: Tensor, k: int) -> Neighbours:
        return self.searcher.search(query_BD, k)

    def row_search(self, k: int) -> RowSearch | None:
        return self.searcher.row_search(k)


@pytest.mark.parametrize("cuts", [[0, 120], [0, 50, 50, 53, 120]])
@pytest.mark.parametrize("kernels", [True, False])
def test_segments_of_a_store(cuts: list[int], kernels: bool, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The last pair of a segment may be shorter than a chunk."""
    if not kernels:
        request.getfixturevalue("no_kernels")
    key_ND = torch.randn(120, COLUMNS, generator=torch.Generator().manual_seed(3)).half()
    store = SegmentStore(tmp_path, key_ND, cuts)
    mine, plain = walks(store, replace(PLAN, search_beams=2, cache=replace(PLAN.cache, chunk=5)))
    assert isinstance(mine.retriever._cache, CpuCache) == kernels
    for step, same in zip(mine.turns(3), plain.turns(3), strict=True):
        assert_same(step, same)


@pytest.fixture(scope="module")
def wide_model(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> TranslationModel:
    """A tiny model whose keys have enough columns for kernels."""
    folder = tmp_path_factory.mktemp("wide") / "model"
    shutil.copytree(tiny_folder, folder)
    size = len(json.loads((folder / "vocab.json").read_text(encoding="utf-8")))
    tiny_model(
        "marian", vocab_size=size, decoder_vocab_size=size, pad_token_id=size - 1, decoder_start_token_id=size - 1,
        bad_words_ids=[[size - 1]], d_model=COLUMNS,
    ).save_pretrained(folder)  # fmt: skip
    return load_model(ModelConfig(model=str(folder), device="cpu"))


@pytest.fixture(scope="module")
def wide_store(wide_model: TranslationModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A datastore of two segments."""
    path = tmp_path_factory.mktemp("stores") / "wide"
    store = Datastore.build(path, make_pairs(60), wide_model)
    store.add(make_pairs(40, seed=1), wide_model)
    return path


def recalls(path: Path, columns: int, kind: type[SentenceCache]) -> list[tuple[Tensor, Tensor]]:
    """Neighbours of three sentences that are seeded, search and recall, of which one finishes and one follows."""
    store = Datastore.open(path).snapshot()
    assert store.columns == COLUMNS and len(store.entries.keys_by_segment) == 2
    cache = store.new_cache(CachePlan(k=4, cache_k=6, chunk=20, columns=columns), CPU)
    assert type(cache) is kind
    generator, entries, found = torch.Generator().manual_seed(0), len(store), []

    def step(sentences: list[int], due: list[int], each: int) -> None:
        near_M = torch.randint(0, entries, (len(sentences) * each,), generator=generator)
        off_BD = torch.randn(len(near_M), COLUMNS, generator=generator)
        retrieved = cache.step(store.keys(near_M, COLUMNS) + 0.3 * off_BD, sentences, due, each)
        found.append((retrieved.entry_BK.clone(), retrieved.distance_BK.clone()))

    cache.seed([0, 1, 2], torch.randint(-1, entries, (3, 30), generator=generator))
    step([0, 1, 2], [], each=1)
    for due in ([0, 1, 2], [1], [0, 2], [0, 1, 2], [1]):
        step([0, 1, 2], due, each=2)
        step([0, 1, 2], [], each=2)
    cache.release([1])
    step([0, 2], [], each=2)
    cache.seed([3], torch.randint(-1, entries, (1, 25), generator=generator))
    step([0, 3, 2], [1], each=2)
    step([0, 3, 2], [], each=2)
    return found


@pytest.mark.parametrize("columns", [COLUMNS, 36])
def test_datastores_have_the_same_neighbours_with_kernels_and_without(
    columns: int, wide_store: Path, request: pytest.FixtureRequest
) -> None:
    found = recalls(wide_store, columns, CpuCache)
    request.getfixturevalue("no_kernels")
    expected = recalls(wide_store, columns, ReferenceCache)
    same = []
    for mine, plain in zip(found, expected, strict=True):
        assert (plain[0] >= 0).any() and torch.equal(mine[0] < 0, plain[0] < 0)
        alike = mine[0] == plain[0]
        same.append(alike.flatten())
        torch.testing.assert_close(mine[1][alike], plain[1][alike], rtol=1e-5, atol=1e-6)
        # Keys that nominate are rounded: of two at nearly the same distance, one may be missed.
        torch.testing.assert_close(mine[1], plain[1], rtol=1e-2, atol=0.0)
    assert torch.cat(same).float().mean() > 0.98
