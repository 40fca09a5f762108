"""Searches that kernels do at once, on a CPU, against the same without kernels."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from nearmt.contracts import Neighbours
from nearmt.datastore import BuildConfig, Datastore, PruneConfig, prune
from nearmt.datastore.disk import Segment
from nearmt.datastore.search.entries import open_entries
from nearmt.datastore.search.searcher import Searcher
from nearmt.engines.reference.clusters import rounded
from nearmt.index import Quantiser, SharedIndex, SubsetIndex
from nearmt.index.faiss import flat_centres
from nearmt.models import TranslationModel
from tests.conftest import make_pairs
from tests.datastore.helpers import some_queries
from tests.datastore.test_search import ENTRIES, around, assert_nearest, with_weights, write_segment
from tests.index.test_contract import COLUMNS, made_keys, made_queries
from tests.kernels import needs_kernels

pytestmark = needs_kernels

WHOLE = "SQ8_direct_signed"
ONE, TWO = [0, ENTRIES], [0, 700, ENTRIES]
EVERYTHING = np.ones(ENTRIES, dtype=bool)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many queries kernels were asked each time, and did."""
    asked: list[int] = []
    real = Searcher._by_kernel

    def by_kernel(self: Searcher, query_BD: Tensor, k: int) -> Neighbours | None:
        found = real(self, query_BD, k)
        if found is not None:
            asked.append(len(query_BD))
        return found

    monkeypatch.setattr(Searcher, "_by_kernel", by_kernel)
    return asked


def made_searcher(
    folder: Path, effort: int, cuts: list[int], kept: np.ndarray | None = None, repeats: int = 1
) -> Searcher:
    """Segments in the cells of one quantiser; `kept` is what pruning has left. Every key is there `repeats` times."""
    key = np.resize(made_keys(ENTRIES)[: ENTRIES // repeats], (ENTRIES, COLUMNS))
    quantiser, segments, indexes = Quantiser.train(key, f"IVF16,{WHOLE}"), [], []
    for number, (start, end) in enumerate(pairwise(cuts)):
        record = write_segment(folder, f"segment-{number:06d}", key[start:end])
        if kept is not None:
            record = with_weights(folder, record, kept[start:end])
        segment = Segment(folder / record.name, record, COLUMNS)
        index = quantiser.index(np.asarray(segment.searched_key_MD))
        index.effort = effort
        segments.append(segment)
        indexes.append(index if segment.kept_M is None else SubsetIndex(index, torch.from_numpy(segment.kept_M)))
    return Searcher(open_entries(segments, torch.device("cpu")), list(indexes), COLUMNS)


def assert_same(found: Neighbours, expected: Neighbours) -> None:
    """Among many, some distances differ only by rounding, and the order of these may differ."""
    assert torch.equal(found.entry_BK.sort(dim=1).values, expected.entry_BK.sort(dim=1).values)
    torch.testing.assert_close(found.distance_BK, expected.distance_BK, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("effort", [1, 4, 16])
@pytest.mark.parametrize("k", [1, 8, 40])
def test_one_index_finds_what_it_finds_without_kernels(
    effort: int, k: int, tmp_path: Path, at_once: list[int], request: pytest.FixtureRequest
) -> None:
    query_BD = made_queries(40)
    found = made_searcher(tmp_path / "one", effort, ONE).search(query_BD, k)
    assert at_once == [40]
    assert_nearest(found, query_BD, k, EVERYTHING, exact=effort == 16)
    request.getfixturevalue("no_kernels")
    assert_same(found, made_searcher(tmp_path / "other", effort, ONE).search(query_BD, k))
    assert at_once == [40]


@pytest.mark.parametrize("effort", [1, 4, 16])
@pytest.mark.parametrize("k", [1, 8, 40])
@pytest.mark.parametrize("cuts", [TWO, [0, 3, ENTRIES], [0, 0, 700, 700, 1100, ENTRIES]])
def test_segments_find_exactly_what_one_finds(
    effort: int, k: int, cuts: list[int], tmp_path: Path, at_once: list[int]
) -> None:
    searchers = [made_searcher(tmp_path / str(len(each)), effort, each, repeats=3) for each in (ONE, cuts)]
    found, expected = (searcher.search(made_queries(40), k) for searcher in searchers[::-1])
    assert torch.equal(found.entry_BK, expected.entry_BK) and torch.equal(found.distance_BK, expected.distance_BK)
    assert at_once == [40, 40]


@pytest.mark.parametrize("k", [60, 100, 400, ENTRIES + 5])
def test_where_cells_hold_fewer_than_k_all_entries_are_compared(
    k: int, tmp_path: Path, at_once: list[int], request: pytest.FixtureRequest
) -> None:
    """Only for queries whose cells do: of 60 and 100 some find enough."""
    query_BD = made_queries(40)
    searcher = made_searcher(tmp_path / "one", 1, ONE)
    first = searcher._by_kernel(query_BD, k)
    assert first is not None
    short_B = first.entry_BK[:, min(k, ENTRIES) - 1] < 0
    assert short_B.any() and (k > 100 or not short_B.all())
    found = searcher.search(query_BD, k)
    assert at_once == [40, 40]
    assert_nearest(found, query_BD, k, EVERYTHING, exact=False)
    exact = Neighbours(found.entry_BK[short_B], found.distance_BK[short_B])
    assert_nearest(exact, query_BD[short_B], k, EVERYTHING)
    assert torch.equal(found.entry_BK[~short_B], first.entry_BK[~short_B])
    request.getfixturevalue("no_kernels")
    assert_same(found, made_searcher(tmp_path / "other", 1, ONE).search(query_BD, k))


def test_a_query_at_a_centre_finds_k_as_well(tmp_path: Path, at_once: list[int]) -> None:
    """It looks into few cells, which do not have all."""
    searcher = made_searcher(tmp_path, 4, ONE)
    (index,) = searcher.indexes
    assert isinstance(index, SharedIndex) and index.quantiser.unit
    centre_CD = flat_centres(index.quantiser._template)
    assert centre_CD is not None
    query_BD = rounded(centre_CD) * index.quantiser.unit
    for k in (8, ENTRIES - 5):
        assert_nearest(searcher.search(query_BD, k), query_BD, k, EVERYTHING, exact=k > 8)
    assert at_once == [16, 16]


KEPT = np.random.default_rng(3).random(ENTRIES) < 0.5
#: Segments, what pruning has left, and what is hidden from the first query.
OTHERS: dict[str, tuple[list[int], np.ndarray | None, int]] = {
    "pruned": (ONE, KEPT, 0),
    "few hidden": (ONE, None, 12),
    "most hidden": (ONE, None, ENTRIES - 300),
    "all but a handful hidden": (ONE, None, ENTRIES - 30),
    "two segments, pruned, some hidden": (TWO, KEPT, 100),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("k", [8, 70])
def test_what_kernels_do_not_do_at_once(
    name: str, k: int, tmp_path: Path, at_once: list[int], request: pytest.FixtureRequest
) -> None:
    (cuts, kept, hidden), query_BD = OTHERS[name], made_queries(20)
    mask = around(query_BD, hidden) if hidden else None
    allowed_N = None if mask is None else torch.from_numpy(mask)
    live_N = (EVERYTHING if kept is None else kept) & (EVERYTHING if mask is None else mask)
    found = made_searcher(tmp_path / "one", 4, cuts, kept).search(query_BD, k, allowed_N)
    assert_nearest(found, query_BD, k, live_N, exact=False)
    request.getfixturevalue("no_kernels")
    assert_same(found, made_searcher(tmp_path / "other", 4, cuts, kept).search(query_BD, k, allowed_N))
    assert at_once == []


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_queries_that_are_no_numbers_leave_others_alone(value: float, tmp_path: Path) -> None:
    searcher, query_BD = made_searcher(tmp_path, 4, ONE), made_queries(10)
    bad_BD = query_BD.clone()
    bad_BD[::3] = value
    for k in (8, 300):
        found, expected = searcher.search(bad_BD, k), searcher.search(query_BD, k)
        good = torch.arange(10) % 3 != 0
        assert torch.equal(found.entry_BK[good], expected.entry_BK[good])
        assert torch.equal(found.distance_BK[good], expected.distance_BK[good])


# Whole stores.


@pytest.fixture(scope="module")
def built(tiny: TranslationModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stores") / "cells"
    Datastore.build(path, make_pairs(120), tiny, BuildConfig(index=f"IVF8,{WHOLE}"))
    return path


def leave_as_it_is(store: Datastore, tiny: TranslationModel) -> None:
    pass


def delete_some(store: Datastore, tiny: TranslationModel) -> None:
    assert store.delete([pair.id for pair in list(store.pairs())[::7] if pair.id is not None])


def add_some(store: Datastore, tiny: TranslationModel) -> None:
    store.add(make_pairs(30, seed=1), tiny)


def prune_some(store: Datastore, tiny: TranslationModel) -> None:
    prune(store.path, PruneConfig(neighbours=3, index=f"IVF8,{WHOLE}", device="cpu"))


def delete_and_add_some(store: Datastore, tiny: TranslationModel) -> None:
    delete_some(store, tiny)
    add_some(store, tiny)


@pytest.mark.parametrize("change", [leave_as_it_is, delete_some, add_some, prune_some, delete_and_add_some])
def test_a_store_finds_what_it_finds_without_kernels(
    change: Callable[[Datastore, TranslationModel], None], built: Path, tiny: TranslationModel, tmp_path: Path,
    at_once: list[int], request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    path = tmp_path / "store"
    shutil.copytree(built, path)
    change(Datastore.open(path), tiny)
    store = Datastore.open(path)
    query_BD = some_queries(store, 30)
    at_once.clear()
    found = [store.snapshot().search(query_BD, k) for k in (1, 8, 100, 2000)]
    assert at_once == ([30] * 4 if change is leave_as_it_is else [])
    request.getfixturevalue("no_kernels")
    shutil.copytree(path, tmp_path / "same")  # a quantiser is shared by all who open the same store
    plain = Datastore.open(tmp_path / "same")
    for mine, k in zip(found, (1, 8, 100, 2000), strict=True):
        assert_same(mine, plain.snapshot().search(query_BD, k))
        assert ((mine.entry_BK >= 0).sum(dim=1) == min(k, store.snapshot().findable())).all()


@pytest.mark.parametrize("k", [1, 8])
@pytest.mark.parametrize("cuts", [ONE, TWO])
def test_rows_are_searched_for_where_they_stand(k: int, cuts: list[int], tmp_path: Path) -> None:
    searcher, query_BD = made_searcher(tmp_path, 8, cuts), made_queries(40)
    search, row_R = searcher.row_search(k), np.array([3, 0, 17, 39])
    assert search is not None
    entry_BX, distance_BX = torch.full((40, 10), -7), torch.full((40, 10), -7.0)
    assert search(query_BD, row_R, entry_BX, distance_BX) == 0
    expected = searcher.search(query_BD[row_R], k)
    assert torch.equal(entry_BX[row_R, :k], expected.entry_BK)
    assert torch.equal(distance_BX[row_R, :k], expected.distance_BK)
    assert (entry_BX[row_R, k:] == -1).all() and (entry_BX == -7).all(dim=1).sum() == 36


@pytest.mark.parametrize("name", ["pruned", "two segments, pruned, some hidden"])
def test_other_indexes_have_no_row_search(name: str, tmp_path: Path) -> None:
    cuts, kept, _ = OTHERS[name]
    assert made_searcher(tmp_path, 8, cuts, kept).row_search(8) is None


def test_stores_with_deleted_pairs_have_no_row_search(tiny: TranslationModel, tmp_path: Path) -> None:
    pairs = [replace(pair, id=str(number)) for number, pair in enumerate(make_pairs(300))]
    store = Datastore.build(tmp_path / "memory", pairs, tiny, BuildConfig(index=f"IVF8,{WHOLE}"))
    assert store.snapshot().row_search(4) is not None
    store.delete(["7"])
    assert store.snapshot().row_search(4) is None
