"""An index of some entries behaves as one of all in which the others do not exist."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from nearmt.engines.base import Index
from nearmt.engines.choose import assign_rounded, exact_index
from nearmt.engines.reference.clusters import find_centres, nearest_centre
from nearmt.index import ExactIndex, SubsetIndex
from tests.index.test_contract import (
    ALL,
    APPROXIMATE,
    COLUMNS,
    ENTRIES,
    EXACT,
    RECALL,
    as_sets,
    brute_force,
    every_exact,
    every_index,
    every_name,
    made_keys,
    made_queries,
    some_mask,
)
from tests.kernels import needs_kernels


def kept_entries(share: float = 0.6, count: int = ENTRIES) -> np.ndarray:
    return np.flatnonzero(np.random.default_rng(9).random(count) < share)


def subset(build: Callable[[np.ndarray], Index], key_ND: np.ndarray, kept: np.ndarray) -> SubsetIndex:
    return SubsetIndex(build(np.ascontiguousarray(key_ND[kept])), torch.from_numpy(kept))


def only(kept: np.ndarray, mask: torch.Tensor | None, count: int = ENTRIES) -> np.ndarray:
    """Kept entries that the mask allows."""
    there = np.zeros(count, dtype=bool)
    there[kept] = True
    return there if mask is None else there & mask.numpy()


@every_exact
@pytest.mark.parametrize("share", [None, 0.5, 0.02, 0.0])
def test_exact_members_equal_brute_force(build: Callable[[np.ndarray], Index], share: float | None) -> None:
    key, kept, query = made_keys(), kept_entries(), made_queries()
    mask = None if share is None else some_mask(share)
    found = subset(build, key, kept).nominate(query, 8, mask)
    assert found.dtype == torch.long and found.shape == (20, 8)
    assert as_sets(found) == as_sets(brute_force(query, key, 8, only(kept, mask)))


@pytest.mark.parametrize("name", APPROXIMATE)
def test_approximate_members_have_recall(name: str) -> None:
    key, kept, query = made_keys(), kept_entries(), made_queries(100)
    for mask in (None, some_mask(0.5)):
        found = subset(APPROXIMATE[name], key, kept).nominate(query, 8, mask)
        expected = brute_force(query, key, 8, only(kept, mask))
        hits = sum(len(near & got) for near, got in zip(as_sets(expected), as_sets(found), strict=True))
        assert hits / expected.size >= RECALL[name]


@every_index
@pytest.mark.parametrize("share", [None, 0.5, 0.02, 0.0])
def test_no_index_nominates_pruned_entries(build: Callable[[np.ndarray], Index], share: float | None) -> None:
    kept = kept_entries()
    mask = None if share is None else some_mask(share)
    found = subset(build, made_keys(), kept).nominate(made_queries(), ENTRIES, mask)
    assert found.shape == (20, ENTRIES)
    there = only(kept, mask)
    for row in found.tolist():
        entries = [entry for entry in row if entry >= 0]
        assert len(set(entries)) == len(entries) and set(entries) <= set(np.flatnonzero(there).tolist())
        if share is None:
            assert len(entries) >= 0.95 * len(kept)


@every_name
def test_keeping_all_changes_nothing(name: str) -> None:
    key, query, mask = made_keys(), made_queries(), some_mask(0.5)
    for allowed in (None, mask):
        found = subset(ALL[name], key, np.arange(ENTRIES)).nominate(query, 8, allowed)
        assert torch.equal(found, ALL[name](key).nominate(query, 8, allowed))


@pytest.mark.parametrize("inner", [ExactIndex, lambda key: exact_index(torch.from_numpy(key))], ids=["exact", "torch"])
def test_keeping_none_finds_none(inner: Callable[[np.ndarray], Index]) -> None:
    index = subset(inner, made_keys(), np.zeros(0, dtype=np.int64))
    for mask in (None, some_mask(0.5)):
        assert index.nominate(made_queries(3), 4, mask).tolist() == [[-1] * 4] * 3


def test_order_of_the_kept_is_theirs() -> None:
    """Not only ascending numbers."""
    key, kept = made_keys(), np.random.default_rng(2).permutation(kept_entries())
    query = torch.from_numpy(key[kept[:50]].astype(np.float32))
    found = subset(EXACT["torch"], key, kept).nominate(query, 1, None)
    assert found[:, 0].tolist() == kept[:50].tolist()


# Cells.


def clustered(cells: int, each: int) -> tuple[torch.Tensor, np.ndarray]:
    """Far-off clusters, shuffled, and the cluster of each key."""
    generator = np.random.default_rng(0)
    cluster = generator.permutation(np.repeat(np.arange(cells), each))
    centre = generator.normal(scale=100, size=(cells, COLUMNS))
    return torch.from_numpy(centre[cluster] + generator.normal(size=(len(cluster), COLUMNS))).float(), cluster


def test_every_key_goes_to_its_nearest_centre(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearmt.engines.reference.clusters._HELD", 5 * 7)
    key, _ = clustered(5, 20)
    centre = find_centres(key, 5)
    expected = torch.cdist(key.double(), centre.double()).argmin(dim=1)
    assert torch.equal(nearest_centre(key, centre), expected)


@needs_kernels
@pytest.mark.parametrize("columns", [4, 10, 64, 256])
@pytest.mark.parametrize("most", [3.0, 100.0, 400.0])
def test_kernels_know_the_cells_of_codes(columns: int, most: float, request: pytest.FixtureRequest) -> None:
    """With few numbers many centres are equally far; beyond 127 numbers are cut off."""
    generator = torch.Generator().manual_seed(columns)
    key, centre = ((torch.rand(n, columns, generator=generator) * 2 - 1) * most for n in (9000, 70))
    found = assign_rounded(key, centre)
    number_X, number_C = (part.round().clamp(-128, 127).double() for part in (key, centre))
    distance = torch.cdist(number_X, number_C).square()
    # Halves of squared lengths are rounded down: that much one may be farther than another.
    assert bool((distance[torch.arange(9000), found] <= distance.amin(dim=1) + 1.001).all())
    cells = find_centres(key, 20, nearest=assign_rounded)
    request.getfixturevalue("no_kernels")
    assert torch.equal(assign_rounded(key, centre), found)
    assert torch.equal(find_centres(key, 20, nearest=assign_rounded), cells)


def test_centres_are_means_of_their_cells() -> None:
    key, _ = clustered(6, 30)
    centre = find_centres(key, 6)
    cell = nearest_centre(key, centre)
    for number in cell.unique().tolist():
        torch.testing.assert_close(key[cell == number].mean(dim=0), centre[number], rtol=1e-4, atol=1e-3)


def test_clusters_are_not_torn_apart_by_fewer_cells() -> None:
    key, cluster = clustered(40, 20)
    cell = nearest_centre(key, find_centres(key, 8)).numpy()
    torn = [number for number in range(40) if len(set(cell[cluster == number])) > 1]
    assert len(torn) <= 8  # a centre may begin as one of several in the same cluster


def test_more_cells_than_different_keys_do_no_harm() -> None:
    key = torch.ones(10, 3)
    centre = find_centres(key, 4)
    assert bool(torch.isfinite(centre).all()) and nearest_centre(key, centre).tolist() == [0] * 10


def test_cells_are_the_same_every_time() -> None:
    key, _ = clustered(5, 50)
    assert torch.equal(find_centres(key, 7), find_centres(key, 7))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_as_on_the_cpu(tmp_path: Path) -> None:
    key, kept, query = made_keys(), kept_entries(), made_queries()
    here = subset(EXACT["torch"], key, kept)
    there = SubsetIndex(exact_index(torch.from_numpy(key[kept]).cuda()), torch.from_numpy(kept).cuda())
    for mask in (None, some_mask(0.5)):
        assert as_sets(there.nominate(query, 8, mask)) == as_sets(here.nominate(query, 8, mask))
