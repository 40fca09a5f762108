"""Indexes in shared cells find what one index of all entries would."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from nearmt.engines.base import Index
from nearmt.engines.choose import exact_index, has_kernels
from nearmt.engines.reference.topk import RunningTop
from nearmt.errors import ConfigError, DatastoreError
from nearmt.index import ExactIndex, Quantiser, SharedIndex, SubsetIndex, nominate_together
from nearmt.index.faiss import coded
from nearmt.index.shared import Assignment, has_clusters
from tests.index.test_contract import (
    COLUMNS,
    as_sets,
    brute_force,
    made_keys,
    made_queries,
    some_mask,
)
from tests.kernels import needs_kernels

ENTRIES = 1600
CUTS = [0, 300, 301, 301, 1100, ENTRIES]
FACTORIES = ["IVF16,SQ8", "IVF16,SQ8_direct_signed", "IVF16,PQ8np", "IVF16,Flat", "IVF16_HNSW8,SQ8"]


def quantiser_of(factory: str) -> Quantiser:
    return Quantiser.train(made_keys(ENTRIES), factory)


def in_parts(quantiser: Quantiser, effort: int, kept: np.ndarray | None = None) -> list[Index]:
    """The keys in segments of unequal size, one of them empty; of each the kept ones only."""
    found: list[Index] = []
    key = made_keys(ENTRIES)
    for start, end in pairwise(CUTS):
        inside = np.arange(end - start) if kept is None else np.flatnonzero(kept[start:end])
        if not len(inside):
            found.append(ExactIndex(key[:0]))
            continue
        index = quantiser.index(key[start:end][inside])
        index.effort = effort
        found.append(index if kept is None else SubsetIndex(index, torch.from_numpy(inside)))
    return found


def as_one(quantiser: Quantiser, effort: int, kept: np.ndarray | None = None) -> Index:
    inside = np.arange(ENTRIES) if kept is None else np.flatnonzero(kept)
    index = quantiser.index(made_keys(ENTRIES)[inside])
    index.effort = effort
    return index if kept is None else SubsetIndex(index, torch.from_numpy(inside))


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("effort", [1, 4, 16])
@pytest.mark.parametrize("share", [None, 0.5, 0.02, 0.0])
@pytest.mark.parametrize("pruned", [False, True])
def test_segments_find_what_one_finds(factory: str, effort: int, share: float | None, pruned: bool) -> None:
    quantiser, query = quantiser_of(factory), made_queries(30)
    mask = None if share is None else some_mask(share, ENTRIES)
    kept = np.random.default_rng(3).random(ENTRIES) < 0.6 if pruned else None
    together = nominate_together(in_parts(quantiser, effort, kept), CUTS, query, 8, mask)
    one = as_one(quantiser, effort, kept).nominate(query, 8, mask)
    assert together.shape == one.shape and together.dtype == one.dtype
    allowed = np.ones(ENTRIES, dtype=bool) if mask is None else mask.numpy()
    there = allowed if kept is None else allowed & kept
    assert set(together.flatten().tolist()) <= {-1, *np.flatnonzero(there).tolist()}
    # Where codes are whole numbers, several can be equally far: without a kernel either may come last.
    by_kernel = has_kernels(query.device) and mask is None and kept is None
    tied = 1 if "direct" in factory and not by_kernel else 0
    assert all(len(a ^ b) <= 2 * tied for a, b in zip(as_sets(together), as_sets(one), strict=True))
    assert torch.equal((together >= 0).sum(dim=1), (one >= 0).sum(dim=1))
    assert all(len(set(row)) == len(row) for row in together.tolist() if -1 not in row)


def test_all_cells_of_whole_keys_are_everything() -> None:
    """The one case that brute force decides: nothing is coded, nothing is left out."""
    quantiser, query, key = quantiser_of("IVF16,Flat"), made_queries(30), made_keys(ENTRIES)
    for mask in (None, some_mask(0.3, ENTRIES)):
        found = nominate_together(in_parts(quantiser, 16), CUTS, query, 8, mask)
        assert as_sets(found) == as_sets(brute_force(query, key, 8, None if mask is None else mask.numpy()))


def test_the_queries_are_assigned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    quantiser = quantiser_of("IVF16,SQ8")
    asked: list[int] = []
    real = Quantiser.assign

    def assign(self: Quantiser, query_BD: np.ndarray, probes: int) -> Assignment:
        asked.append(probes)
        return real(self, query_BD, probes)

    indexes, other = in_parts(quantiser, 4), in_parts(quantiser_of("IVF16,SQ8"), 2)
    monkeypatch.setattr(Quantiser, "assign", assign)
    nominate_together(indexes, CUTS, made_queries(5), 8, None)
    assert asked == [4]
    # Two quantisers are two questions, and the most thorough of a group speaks for it.
    mixed = [*indexes[:3], *other[3:]]
    next(index for index in mixed if isinstance(index, SharedIndex)).effort = 7
    nominate_together(mixed, CUTS, made_queries(5), 8, None)
    assert sorted(asked[1:]) == [2, 7]


def test_beside_indexes_of_other_kinds() -> None:
    quantiser, key, query = quantiser_of("IVF16,Flat"), made_keys(ENTRIES), made_queries()
    parts = in_parts(quantiser, 16)
    exact: list[Index] = [exact_index(torch.from_numpy(key[start:end])) for start, end in pairwise(CUTS)]
    for mask in (None, some_mask(0.3, ENTRIES)):
        expected = brute_force(query, key, 8, None if mask is None else mask.numpy())
        mixed = nominate_together([parts[0], exact[1], exact[2], exact[3], parts[4]], CUTS, query, 8, mask)
        assert mixed.shape[1] >= 8
        assert all(want <= got for want, got in zip(as_sets(expected), as_sets(mixed), strict=True))


def test_nothing_beside_nothing() -> None:
    assert nominate_together([], [0], made_queries(2), 3, None).tolist() == [[-1] * 3] * 2
    assert nominate_together([ExactIndex(made_keys(0))], [0, 0], made_queries(2), 3, None).tolist() == [[-1] * 3] * 2


@pytest.mark.parametrize("factory", FACTORIES)
def test_saved_and_opened_they_are_the_same(factory: str, tmp_path: Path) -> None:
    quantiser, query, mask = quantiser_of(factory), made_queries(30), some_mask(0.5, ENTRIES)
    parts = in_parts(quantiser, 4)
    quantiser.save(tmp_path / "quantiser.faiss")
    again = Quantiser.load(tmp_path / "quantiser.faiss", factory, COLUMNS, quantiser.unit)
    loaded: list[Index] = []
    for number, part in enumerate(parts):
        if isinstance(part, SharedIndex):
            part.save(tmp_path / f"{number}.faiss")
            entries = CUTS[number + 1] - CUTS[number]
            loaded.append(SharedIndex.load_with(tmp_path / f"{number}.faiss", again, part.effort, COLUMNS, entries))
        else:
            loaded.append(part)
    for allowed in (None, mask):
        expected = nominate_together(parts, CUTS, query, 8, allowed)
        assert torch.equal(nominate_together(loaded, CUTS, query, 8, allowed), expected)
    # Saving took nothing away from the ones that were saved, and they can still take in entries.
    grown = quantiser.index(made_keys(20))
    assert grown.nominate(query, 8, None).max() < 20


def test_centres_are_not_saved_again(tmp_path: Path) -> None:
    quantiser = Quantiser.train(made_keys(4000), "IVF256,SQ8")
    quantiser.save(tmp_path / "quantiser.faiss")
    quantiser.index(made_keys(10)).save(tmp_path / "index.faiss")
    centres = 256 * COLUMNS * 4
    assert (tmp_path / "quantiser.faiss").stat().st_size > centres > (tmp_path / "index.faiss").stat().st_size


def test_an_index_outlives_the_quantiser_object() -> None:
    """FAISS only points at the shared centres."""
    index = quantiser_of("IVF16,SQ8").index(made_keys(200))
    for _ in range(3):
        quantiser_of("IVF16,SQ8")
    assert index.nominate(made_queries(), 8, None).min() >= 0


def test_an_index_of_another_quantiser_is_refused(tmp_path: Path) -> None:
    quantiser_of("IVF16,SQ8").index(made_keys(50)).save(tmp_path / "index.faiss")
    with pytest.raises(DatastoreError, match=r"index\.faiss: .* does not fit the quantiser"):
        SharedIndex.load_with(tmp_path / "index.faiss", quantiser_of("IVF8,SQ8"), 4, COLUMNS, 50)
    (tmp_path / "damaged.faiss").write_bytes((tmp_path / "index.faiss").read_bytes()[:100])
    with pytest.raises(DatastoreError, match=r"damaged\.faiss: not a readable index"):
        SharedIndex.load_with(tmp_path / "damaged.faiss", quantiser_of("IVF16,SQ8"), 4, COLUMNS, 50)


def test_too_few_to_train_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="10 entries are too few to train it"):
        Quantiser.train(made_keys(10), "IVF16,SQ8")


@pytest.mark.parametrize(
    ("factory", "cells"), [("IVF16,SQ8", True), ("IVF16,PQ8", True), ("Flat", False), ("HNSW32", False), ("PQ8", False)]
)
def test_which_kinds_have_cells(factory: str, cells: bool) -> None:
    assert has_clusters(factory, COLUMNS) == cells


# What all exact members stand on.


@pytest.mark.parametrize("width", [1, 63, 64, 700, 5000, 5001, 20_000])
@pytest.mark.parametrize("count", [1, 8, 100])
def test_the_smallest_of_many(width: int, count: int) -> None:
    """With one stage and with two."""
    distance = torch.rand(7, width, generator=torch.Generator().manual_seed(width))
    distance[0] = torch.inf
    distance[1, ::2] = torch.inf
    distance[2] = distance[2].sort().values  # all in one group, the first
    distance[3] = distance[3].sort(descending=True).values  # or at the end, which no group may hold
    top = RunningTop(7, count, torch.device("cpu"))
    top.add(distance, 10)
    order = distance.sort(dim=1, stable=True)
    place = torch.where(torch.isinf(order.values), -1, order.indices + 10)[:, :count]
    expected = torch.nn.functional.pad(place, (0, count - place.shape[1]), value=-1)
    assert as_sets(top.entry_BK) == as_sets(expected)


@pytest.mark.parametrize("entries", [40, 16_384, 16_385])
def test_small_and_large_flat_segments_alike(entries: int) -> None:
    """Small ones keep fp32 keys; asked twice they answer alike."""
    key, query = made_keys(entries), made_queries(4)
    index = exact_index(torch.from_numpy(key))
    for _ in range(2):
        assert as_sets(index.nominate(query, 8, None)) == as_sets(brute_force(query, key, 8))


def test_cells_are_those_that_faiss_finds() -> None:
    quantiser, query = quantiser_of("IVF16,SQ8"), made_queries(30).numpy()
    distance, cell = quantiser._nearest_clusters(query, 5)
    expected_distance, expected = quantiser.coarse.search(query, 5)
    np.testing.assert_array_equal(cell, expected)
    np.testing.assert_allclose(distance, expected_distance, rtol=1e-3, atol=1e-2)


def test_cells_of_rounded_queries_are_as_near_as_those_that_faiss_finds() -> None:
    """Centres are rounded too: one cell may stand for another that is as near."""
    quantiser, query = quantiser_of("IVF16,SQ8_direct_signed"), made_queries(30).numpy()
    distance, cell = quantiser._nearest_clusters(coded(query, quantiser.unit), 5)
    expected_distance, expected = quantiser.coarse.search(query / np.float32(quantiser.unit), 5)
    np.testing.assert_allclose(distance, expected_distance, rtol=0.02)
    assert (cell[:, :, None] == expected[:, None, :]).any(axis=2).mean() > 0.95


def test_far_cells_are_left_out_unless_all_are_asked_for() -> None:
    quantiser, query = quantiser_of("IVF16,SQ8_direct_signed"), made_queries(30).numpy()
    for probes in (1, 4, 15):
        assigned = quantiser.assign(query, probes)
        distance, used = assigned.distance_BP, assigned.cluster_BP >= 0
        assert used[:, 0].all()
        enough = distance[:, min(4, probes) - 1, None]
        np.testing.assert_array_equal(used, distance <= np.maximum(distance[:, :1] * (1 + probes / 64), enough))
        assert used[:, :4].all() and used.all() == (probes < 15)
    assert (quantiser.assign(query, 16).cluster_BP >= 0).all()
    assert (quantiser_of("IVF16,SQ8").assign(query, 4).cluster_BP >= 0).all()


def test_keys_beyond_the_numbers_are_cut_off() -> None:
    key = made_keys(ENTRIES).astype(np.float32)
    key[7] *= 1e4
    quantiser = Quantiser.train(key, "IVF16,SQ8_direct_signed")
    index = quantiser.index(key)
    index.effort = 16
    query = torch.from_numpy(key[[3, 7]])
    found = index.nominate(query, 8, None)
    assert 3 in found[0].tolist() and 7 in found[1].tolist()


@needs_kernels
@pytest.mark.parametrize("factory", ["IVF16,SQ8", "IVF16,SQ8_direct_signed"])
def test_with_kernels_a_query_has_the_same_cells_in_every_batch(factory: str) -> None:
    """Distances to centres are the same to the last bit, whether these are floats or whole numbers."""
    quantiser, query = quantiser_of(factory), made_queries(40).numpy()
    together = quantiser.assign(query, 8)
    for count in (1, 3, 9):
        rows = slice(5, 5 + count)
        alone = quantiser.assign(query[rows], 8)
        assert np.array_equal(alone.distance_BP, together.distance_BP[rows])
        assert np.array_equal(alone.cluster_BP, together.cluster_BP[rows])
