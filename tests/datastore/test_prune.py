"""Pruning merges what its definition merges, loses no weight, and takes entries out of searches only."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nearmt.contracts import Pair
from nearmt.datastore import Datastore, PruneConfig, prune, reindex, unprune
from nearmt.datastore.disk import Manifest, Segment, SegmentWriter
from nearmt.datastore.disk.file_checks import FileRecord
from nearmt.datastore.disk.manifest import Calibration, reduction_name
from nearmt.datastore.disk.segment import FILES
from nearmt.datastore.edit.calibrating import calibrated
from nearmt.datastore.search.entries import open_entries
from nearmt.datastore.upkeep.neighbours import cluster, group_equal_keys, nearest_groups, neighbours_of_entries
from nearmt.datastore.upkeep.prune import greedy_merge, visiting_order
from nearmt.errors import ConfigError, DatastoreError, OutputError
from nearmt.models import TranslationModel
from nearmt.reduction import Reduction
from tests.cli.conftest import Nearmt, nearmt
from tests.conftest import make_pairs
from tests.datastore.helpers import (
    all_keys,
    assert_no_strays,
    contents,
    full_disk,
    reduction_of,
    some_queries,
    stop_after,
)

__all__ = ["nearmt"]  # a fixture

COLUMNS = 16
SENTENCE = 7


def silent(done: int) -> None:
    pass


def made_store(folder: Path, key_ND: np.ndarray, token_N: np.ndarray, segments: int = 1) -> Datastore:
    """A store of these keys and tokens, without any model."""
    folder.mkdir(parents=True)
    columns = key_ND.shape[1]
    reduction = Reduction.identity_of(columns)
    reduction.save(folder / reduction_name(reduction.identity))
    records = []
    for number, place_M in enumerate(np.array_split(np.arange(len(key_ND)), segments), 1):
        writer = SegmentWriter(folder / f"segment-{number:06d}", {})
        parts = [place_M[start : start + SENTENCE] for start in range(0, len(place_M), SENTENCE)]
        pairs = [Pair(f"s{part[0]}", f"t{part[0]}", id=f"p{part[0]}") for part in parts]
        tokens = [token_N[part].tolist() for part in parts]
        writer.append(pairs, [key_ND[part] for part in parts], tokens, [[1]] * len(parts), 0)
        records.append(writer.seal())
    manifest = Manifest(
        model="none",
        fingerprint="0",
        source_lang="de",
        target_lang="en",
        key_layer="output",
        precision="fp32",
        columns=columns,
        cache_columns=columns,
        reduction=reduction.identity,
        reduction_file=FileRecord.of(folder / reduction_name(reduction.identity)),
        calibration=Calibration(1.0, 1.0, 0, 8, 0.5),
        segments=(),
        nearmt="0",
        created="2026-01-01T00:00:00+00:00",
    )
    calibrated(folder, manifest, reduction, records).save(folder)
    return Datastore.open(folder)


def made_entries(
    count: int, seed: int = 0, tokens: int = 3, copies: float = 0.0, clusters: int = 8
) -> tuple[np.ndarray, np.ndarray]:
    """Keys in clusters, some the very same as others, and few tokens."""
    generator = np.random.default_rng(seed)
    centre = generator.normal(scale=2.0, size=(clusters, COLUMNS))
    key = (centre[generator.integers(0, clusters, count)] + generator.normal(size=(count, COLUMNS))).astype(np.float16)
    repeated = np.flatnonzero(generator.random(count) < copies)
    key[repeated] = key[generator.integers(0, max(1, count // 8), len(repeated))]
    return key, generator.integers(0, tokens, count)


def neighbours_by_hand(key_ND: np.ndarray, count: int) -> list[list[int]]:
    """The nearest other entries; ties in corpus order from the entry on, then from the beginning."""
    key, total = key_ND.astype(np.float64), len(key_ND)
    found = []
    for entry in range(total):
        squared = ((key - key[entry]) ** 2).sum(axis=1)
        others = [other for other in range(total) if other != entry]
        found.append(sorted(others, key=lambda other: (squared[other], (other - entry) % total))[:count])
    return found


def merged_by_hand(neighbours: list[list[int]], token_N: np.ndarray, order: list[int]) -> list[int]:
    """The definition, word by word."""
    merged: set[int] = set()
    weight = dict.fromkeys(range(len(token_N)), 1)
    for visited in order:
        if visited in merged:
            continue
        for other in neighbours[visited]:
            if other != visited and other not in merged and token_N[other] == token_N[visited]:
                merged.add(other)
                weight[visited] += weight.pop(other)
    return [weight.get(entry, 0) for entry in range(len(token_N))]


def weights_of(path: Path) -> np.ndarray:
    manifest = Manifest.load(path)
    weights = [Segment(path / r.name, r, manifest.columns).weight_N for r in manifest.segments]
    return np.concatenate([np.asarray(part) for part in weights if part is not None])


# What is merged.


@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(1, 5), st.integers(1, 4))
def test_greedy_merging_is_its_definition(seed: int, entries: int, count: int, tokens: int) -> None:
    generator = np.random.default_rng(seed)
    token = generator.integers(0, tokens, entries)
    neighbours = [
        generator.permutation([other for other in range(entries) if other != entry])[:count].tolist()
        for entry in range(entries)
    ]
    table = np.full((entries, count), -1, dtype=np.int32)
    for entry, row in enumerate(neighbours):
        table[entry, : len(row)] = row
    order = generator.permutation(entries)
    found = greedy_merge(table, token, order, silent)
    assert found.tolist() == merged_by_hand(neighbours, token, order.tolist())
    assert found.sum() == entries


def test_merging_in_blocks_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    key, token = made_entries(120)
    table, order = np.asarray(neighbours_by_hand(key, 3)), visiting_order(120, 0)
    whole = greedy_merge(table, token, order, silent)
    monkeypatch.setitem(greedy_merge.__globals__, "_BLOCK", 7)
    assert greedy_merge(table, token, order, silent).tolist() == whole.tolist()


@pytest.mark.parametrize("copies", [0.0, 0.3, 0.9])
@pytest.mark.parametrize(("count", "segments"), [(1, 1), (2, 3), (5, 2), (64, 1)])
def test_pruning_equals_brute_force(count: int, segments: int, copies: float, tmp_path: Path) -> None:
    for seed in range(2):
        key, token = made_entries(150, seed, copies=copies)
        store = made_store(tmp_path / f"store{seed}", key, token, segments)
        manifest = prune(store.path, PruneConfig(neighbours=count, seed=seed + 5, device="cpu"))
        expected = merged_by_hand(neighbours_by_hand(key, count), token, visiting_order(150, seed + 5).tolist())
        assert weights_of(store.path).tolist() == expected
        assert manifest.kept == sum(weight > 0 for weight in expected) < 150
        assert manifest.entries == sum(expected) == 150
        pruned = [record.pruned for record in manifest.segments]
        assert all(part and (part["neighbours"], part["seed"]) == (count, seed + 5) for part in pruned)
        assert max(part["largest"] for part in pruned if part) == max(expected)
        assert_no_strays(store.path)


def test_keys_that_tie_have_neighbours_as_near_as_any(tmp_path: Path) -> None:
    """On a grid most distances are equal: which of them are taken is open, how near they are is not."""
    generator = np.random.default_rng(3)
    key, token = generator.integers(0, 3, (200, 4)).astype(np.float16), generator.integers(0, 2, 200)
    store = made_store(tmp_path / "store", key, token)
    table = found_neighbours(store.path, 6)
    exact = neighbours_by_hand(key, 6)
    for entry in range(200):
        squared = ((key.astype(float) - key[entry].astype(float)) ** 2).sum(axis=1)
        assert sorted(squared[table[entry]]) == sorted(squared[exact[entry]])
        assert len({entry, *table[entry].tolist()}) == 7
    prune(store.path, PruneConfig(neighbours=6, device="cpu"))
    expected = merged_by_hand(table.tolist(), token, visiting_order(200, 0).tolist())
    assert weights_of(store.path).tolist() == expected


def found_neighbours(path: Path, count: int) -> np.ndarray:
    manifest = Manifest.load(path)
    segments = [Segment(path / record.name, record, manifest.columns) for record in manifest.segments]
    entries = open_entries(segments, torch.device("cpu"))
    groups = group_equal_keys(entries, manifest.columns, silent)
    clusters = cluster(entries, manifest.columns, groups, silent)
    near_UK = nearest_groups(entries, manifest.columns, groups, clusters, count, silent)
    return neighbours_of_entries(groups, near_UK, silent)


def test_a_thing_said_often_is_kept_a_few_times(tmp_path: Path) -> None:
    """All copies name different copies as their nearest, and not all the same ones."""
    key, token = made_entries(600, clusters=1)
    key[:] = key[0]
    token[:] = 5
    store = made_store(tmp_path / "store", key, token)
    assert prune(store.path, PruneConfig(neighbours=2, device="cpu")).kept < 300
    assert Counter(found_neighbours(store.path, 2).flatten().tolist()).most_common(1)[0][1] == 2
    assert prune(store.path, PruneConfig(neighbours=64, device="cpu")).kept < 60


def test_zeros_of_either_sign_are_one_key(tmp_path: Path) -> None:
    key = np.zeros((4, COLUMNS), np.float16)
    key[1], key[3] = -0.0, 1.0
    store = made_store(tmp_path / "store", key, np.asarray([5, 5, 5, 5]))
    assert found_neighbours(store.path, 2).tolist() == [[1, 2], [2, 0], [0, 1], [0, 1]]


def test_a_hash_that_errs_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys with the same values in another order, and a hash that is their sum: it cannot tell them apart."""
    base = made_entries(1)[0][0]
    key = np.stack([np.roll(base, shift) for shift in np.random.default_rng(0).integers(0, COLUMNS, 60)])
    store = made_store(tmp_path / "store", key, np.zeros(60, dtype=np.int64))
    with monkeypatch.context() as patch:
        patch.setattr(torch, "randint", lambda *_, **__: torch.ones(COLUMNS, dtype=torch.long))
        found = found_neighbours(store.path, 3)
    expected = neighbour_distances(key, np.asarray(neighbours_by_hand(key, 3)))
    assert neighbour_distances(key, found) == expected
    assert neighbour_distances(key, found_neighbours(store.path, 3)) == expected


def neighbour_distances(key_ND: np.ndarray, neighbour_NK: np.ndarray) -> list[list[float]]:
    key = key_ND.astype(np.float64)
    distances: list[list[float]] = np.sort(((key[neighbour_NK] - key[:, None]) ** 2).sum(axis=-1), axis=1).tolist()
    return distances


def test_blocks_and_queries_of_any_size_find_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, token = made_entries(100, copies=0.4)
    store = made_store(tmp_path / "store", key, token, segments=2)
    expected = found_neighbours(store.path, 3)
    monkeypatch.setattr("nearmt.datastore.upkeep.neighbours._BLOCK", 9)
    monkeypatch.setattr("nearmt.datastore.upkeep.neighbours._QUERIES", 4)
    assert np.array_equal(found_neighbours(store.path, 3), expected)
    assert expected.tolist() == neighbours_by_hand(key, 3)


@pytest.mark.parametrize("entries", [1, 2, 3])
def test_fewer_entries_than_neighbours(entries: int, tmp_path: Path) -> None:
    key, _ = made_entries(entries)
    store = made_store(tmp_path / "store", key, np.full(entries, 4))
    manifest = prune(store.path, PruneConfig(neighbours=5, device="cpu"))
    assert manifest.kept == 1 and weights_of(store.path).sum() == entries


# Cells.


def test_one_cell_is_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, token = made_entries(150, copies=0.3)
    store = made_store(tmp_path / "store", key, token)
    monkeypatch.setattr("nearmt.datastore.upkeep.neighbours.EXACT_UP_TO", 1)
    monkeypatch.setattr("nearmt.datastore.upkeep.neighbours.math.sqrt", lambda _: 1.0)
    prune(store.path, PruneConfig(neighbours=4, device="cpu"))
    expected = merged_by_hand(neighbours_by_hand(key, 4), token, visiting_order(150, 0).tolist())
    assert weights_of(store.path).tolist() == expected


@pytest.mark.parametrize("queries", [3, 1024])
def test_looking_into_all_cells_is_exact(queries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, token = made_entries(150, copies=0.3)
    store = made_store(tmp_path / "store", key, token, segments=2)
    monkeypatch.setattr("nearmt.datastore.upkeep.neighbours.EXACT_UP_TO", 1)
    monkeypatch.setattr("nearmt.datastore.upkeep.neighbours._PROBED", 1000)
    monkeypatch.setattr("nearmt.datastore.upkeep.neighbours._QUERIES", queries)
    assert found_neighbours(store.path, 4).tolist() == neighbours_by_hand(key, 4)


def test_an_own_cell_alone_still_gives_neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer than wanted where a cell has no more."""
    key, token = made_entries(150)
    store = made_store(tmp_path / "store", key, token)
    monkeypatch.setattr("nearmt.datastore.upkeep.neighbours.EXACT_UP_TO", 1)
    monkeypatch.setattr("nearmt.datastore.upkeep.neighbours._PROBED", 1)
    found = found_neighbours(store.path, 20)
    assert (found == -1).any() and (found >= 0).any()
    for entry, row in enumerate(found.tolist()):
        there = [other for other in row if other >= 0]
        assert len({entry, *there}) == len(there) + 1 and row[len(there) :] == [-1] * (20 - len(there))
    prune(store.path, PruneConfig(neighbours=20, device="cpu"))
    assert weights_of(store.path).tolist() == merged_by_hand(
        [[other for other in row if other >= 0] for row in found.tolist()], token, visiting_order(150, 0).tolist()
    )


def test_cells_find_nearly_all_in_clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(1)
    centre = generator.normal(scale=8.0, size=(60, COLUMNS))
    cluster = generator.integers(0, 60, 1500)
    key = (centre[cluster] + generator.normal(size=(1500, COLUMNS))).astype(np.float16)
    store = made_store(tmp_path / "store", key, cluster % 5)
    exact = found_neighbours(store.path, 2)
    monkeypatch.setattr("nearmt.datastore.upkeep.neighbours.EXACT_UP_TO", 100)
    in_cells = found_neighbours(store.path, 2)
    agree = np.mean([len(set(a) & set(b)) / 2 for a, b in zip(exact.tolist(), in_cells.tolist(), strict=True)])
    assert agree > 0.95
    assert bool((in_cells != np.arange(1500)[:, None]).all())
    kept = prune(store.path, PruneConfig(device="cpu")).kept
    assert weights_of(store.path).sum() == 1500
    monkeypatch.undo()
    assert kept == pytest.approx(prune(store.path, PruneConfig(device="cpu")).kept, rel=0.05)


# Searching.

FACTORIES = [("exact", "auto"), ("exact", "exact"), ("exact", "torch"), ("exact", "faiss")]
FACTORIES += [("Flat", "auto"), ("IVF8,SQ8", "faiss"), ("HNSW32", "faiss"), ("IVF8,SQ8", "torch")]


@pytest.mark.parametrize(("factory", "nominate"), FACTORIES)
@pytest.mark.parametrize("segments", [1, 2])
def test_searches_find_kept_entries_only(factory: str, nominate: str, segments: int, tmp_path: Path) -> None:
    key, token = made_entries(700, copies=0.3)
    store = made_store(tmp_path / "store", key, token, segments)
    manifest = prune(store.path, PruneConfig(neighbours=3, index=factory, device="cpu"))
    assert [record.index["kind"] for record in manifest.segments] == ["exact" if factory == "exact" else "faiss"] * (
        segments
    )
    store = Datastore.open(store.path, nominate=nominate, verify=True)
    kept = weights_of(store.path) > 0
    query = some_queries(store, 12)
    some = torch.from_numpy(np.random.default_rng(0).random(700) < 0.5)
    few = torch.zeros(700, dtype=torch.bool)
    few[np.flatnonzero(kept)[:3].tolist()] = few[np.flatnonzero(~kept)[:20].tolist()] = True
    squared = (all_keys(store).double()[None] - query.double()[:, None]).square().sum(dim=-1).numpy()
    for mask in (None, some, few, torch.zeros(700, dtype=torch.bool)):
        live = kept if mask is None else kept & mask.numpy()
        for k in (1, 8, 800):
            found = store.snapshot().search(query, k, mask)
            there = min(k, int(live.sum()))
            assert ((found.entry_BK >= 0).sum(dim=1) == there).all()
            assert bool(live[found.entry_BK[:, :there]].all()) and bool((found.entry_BK[:, there:] == -1).all())
            assert bool(torch.isinf(found.distance_BK[:, there:]).all())
            assert all(len(set(row[:there])) == there for row in found.entry_BK.tolist())
            if factory in ("exact", "Flat") or nominate == "torch":
                nearest = np.sort(np.where(live, squared, np.inf), axis=1)[:, :there]
                np.testing.assert_allclose(found.distance_BK[:, :there], nearest, rtol=1e-3, atol=1e-3)


def test_a_segment_that_lost_all_its_entries(tmp_path: Path) -> None:
    """Merged into another segment, every one."""
    key, _ = made_entries(12, clusters=1)
    key[9:] = key[0]
    token = np.asarray([5, *range(6, 14), 5, 5, 5])
    for nominate in ("auto", "exact", "torch", "faiss"):
        for seed in range(40):
            store = made_store(tmp_path / f"{nominate}-{seed}", key, token, segments=4)
            manifest = prune(store.path, PruneConfig(neighbours=3, seed=seed, index="Flat", device="cpu"))
            if manifest.segments[-1].kept == 0:
                break
        assert [record.kept for record in manifest.segments] == [3, 3, 3, 0]
        found = Datastore.open(store.path, nominate=nominate).snapshot().search(some_queries(store, 3), 12)
        assert {int(entry) for entry in found.entry_BK.flatten()} == {-1, *range(9)}
        assert reindex(store.path, "Flat").kept == unprune(store.path).kept - 3 == 9


def test_weights_make_up_for_what_is_missing(tmp_path: Path) -> None:
    """A store of copies, pruned: equation 2 over all entries is equation 2 over those kept, by their weights."""
    key, token = made_entries(10, tokens=10)
    number = np.random.default_rng(0).integers(0, 10, 300)
    store = made_store(tmp_path / "store", key[number], token[number])
    query = some_queries(store, 6)
    assert store.snapshot().weights(torch.tensor([[0, -1]])) is None

    def distribution(opened: Datastore) -> torch.Tensor:
        found = opened.snapshot().search(query, 300)
        voice = torch.exp(-found.distance_BK.double() / 40.0)
        weight = opened.snapshot().weights(found.entry_BK)
        voice = voice if weight is None else voice * weight
        spoken = torch.zeros(6, 10, dtype=torch.double).scatter_add_(1, opened.snapshot().tokens(found.entry_BK), voice)
        return spoken / spoken.sum(dim=1, keepdim=True)

    whole = distribution(store)
    prune(store.path, PruneConfig(neighbours=20, device="cpu"))
    pruned = Datastore.open(store.path)
    assert pruned.manifest.kept < 100
    torch.testing.assert_close(distribution(pruned), whole, rtol=1e-5, atol=1e-9)


def test_weights_of_any_shape(tmp_path: Path) -> None:
    key, token = made_entries(100, copies=0.5)
    store = made_store(tmp_path / "store", key, token)
    prune(store.path, PruneConfig(device="cpu"))
    store, expected = Datastore.open(store.path), weights_of(store.path)
    found = store.snapshot().weights(torch.arange(100).view(4, 5, 5))
    assert found is not None and found.dtype == torch.float32
    assert found.flatten().tolist() == expected.tolist()
    nothing = store.snapshot().weights(torch.tensor([-1, 3]))
    assert nothing is not None and nothing.tolist() == [1, expected[3]]


def test_only_the_index_shrinks(tiny: TranslationModel, tmp_path: Path) -> None:
    pairs = [*make_pairs(40), *make_pairs(30)]
    store = Datastore.build(tmp_path / "store", pairs, tiny)
    before = {name: data for name, data in contents(store.path).items() if name not in ("manifest.json", ".lock")}
    prune(store.path, PruneConfig(neighbours=8, device="cpu"))
    pruned = Datastore.open(store.path, verify=True)
    assert pruned.manifest.kept < len(pruned) == len(store)
    every = torch.arange(len(store))
    assert torch.equal(pruned.snapshot().chunks(every[:, None], 6), store.snapshot().chunks(every[:, None], 6))
    assert torch.equal(pruned.snapshot().tokens(every), store.snapshot().tokens(every))
    assert torch.equal(all_keys(pruned), all_keys(store))
    assert list(pruned.pairs()) == list(store.pairs())
    after = contents(store.path)
    assert {name: after[name] for name in before} == before
    assert pruned.manifest.identity != store.snapshot().identity


def test_distances_are_measured_among_the_kept(tmp_path: Path) -> None:
    key, token = made_entries(240, copies=0.4)
    store = made_store(tmp_path / "store", key, token)
    manifest = prune(store.path, PruneConfig(neighbours=4, device="cpu"))
    kept = np.flatnonzero(weights_of(store.path))
    assert len(kept) <= 256  # so all are sampled
    distances = []
    for entry in kept:
        others = kept[kept // SENTENCE != entry // SENTENCE]
        squared = ((key[others].astype(np.float64) - key[entry].astype(np.float64)) ** 2).sum(axis=1)
        distances += np.sort(squared)[:8].tolist()
    assert manifest.calibration.search_scale == pytest.approx(float(np.median(distances)), rel=0.01)
    assert manifest.calibration.search_scale > store.snapshot().profile.search_scale
    assert manifest.calibration.queries == len(kept)


# Undoing, doing again, adding, indexing.


@pytest.mark.parametrize("factory", ["exact", "Flat"])
def test_undoing_gives_back_the_store(factory: str, tiny: TranslationModel, tmp_path: Path) -> None:
    store = Datastore.build(tmp_path / "store", make_pairs(60), tiny)
    before, query = reindex(store.path, factory), some_queries(store)
    expected = store.snapshot().search(query, 8)
    prune(store.path, PruneConfig(neighbours=8, device="cpu"))
    after = unprune(store.path, factory)
    assert after.identity == before.identity and after.calibration == before.calibration
    if factory == "exact":
        assert dataclasses.replace(after, replaced={}) == before
    again = Datastore.open(store.path, verify=True)
    found = again.snapshot().search(query, 8)
    assert torch.equal(found.entry_BK, expected.entry_BK) and torch.equal(found.distance_BK, expected.distance_BK)
    assert again.snapshot().weights(found.entry_BK) is None
    assert_no_strays(store.path)


def test_pruning_again_begins_with_all_entries(tmp_path: Path) -> None:
    key, token = made_entries(200, copies=0.3)
    store = made_store(tmp_path / "store", key, token)
    first = prune(store.path, PruneConfig(neighbours=4, device="cpu"))
    other = prune(store.path, PruneConfig(neighbours=1, seed=3, device="cpu"))
    again = prune(store.path, PruneConfig(neighbours=4, device="cpu"))
    assert first.identity == again.identity != other.identity
    assert first.kept == again.kept < other.kept
    seed = prune(store.path, PruneConfig(neighbours=4, seed=1, device="cpu"))
    assert seed.identity != first.identity
    assert_no_strays(store.path)


@pytest.mark.parametrize("factory", ["auto", "Flat", "IVF8,SQ8"])
def test_a_new_index_keeps_the_pruning(factory: str, tmp_path: Path) -> None:
    key, token = made_entries(300, copies=0.3)  # too few for a reduction
    store = made_store(tmp_path / "store", key, token)
    before = prune(store.path, PruneConfig(device="cpu"))
    weights, query = weights_of(store.path).tolist(), some_queries(store)
    expected = Datastore.open(store.path).snapshot().search(query, 5)
    after = reindex(store.path, factory)
    assert after.identity == before.identity and after.kept == before.kept
    assert weights_of(store.path).tolist() == weights
    found = Datastore.open(store.path, verify=True).snapshot().search(query, 5)
    # Of equally far entries with other tokens either may come first.
    agree = torch.isclose(found.distance_BK, expected.distance_BK, rtol=1e-4).float().mean()
    assert float(agree) > 0.9 if "IVF" in factory else float(agree) == 1.0
    assert_no_strays(store.path)


def test_whole_keys_that_get_their_reduction_stay_pruned(tiny: TranslationModel, tmp_path: Path) -> None:
    store = Datastore.build(tmp_path / "store", make_pairs(10, seed=8), tiny)
    store.add(make_pairs(50, seed=9), tiny)
    prune(store.path, PruneConfig(neighbours=8, device="cpu"))
    weights = weights_of(store.path).tolist()
    assert not reduction_of(store.path).fitted
    reindex(store.path)
    assert reduction_of(store.path).fitted
    assert weights_of(store.path).tolist() == weights
    found = Datastore.open(store.path, verify=True).snapshot().search(some_queries(Datastore.open(store.path)), 8)
    assert min(weights[entry] for entry in found.entry_BK.flatten().tolist()) >= 1
    assert_no_strays(store.path)


@pytest.mark.parametrize("count", [8, 40])
def test_pairs_added_to_a_pruned_store_are_whole(count: int, tiny: TranslationModel, tmp_path: Path) -> None:
    """Also when the weight of neighbours is measured only then (8 pairs are too few)."""
    store = Datastore.build(tmp_path / "store", make_pairs(count), tiny)
    prune(store.path, PruneConfig(neighbours=8, device="cpu"))
    pruned, size = Datastore.open(store.path), len(store)
    kept = pruned.manifest.kept
    assert kept < size
    pruned.add(make_pairs(20, seed=4), tiny)
    for opened in (pruned, Datastore.open(store.path, verify=True)):
        findable = opened.snapshot().findable()
        assert opened.manifest.kept == kept and findable == kept + len(opened) - size
        weight = opened.snapshot().weights(torch.arange(len(opened)))
        assert weight is not None and weight.sum() == len(opened)
        assert bool((weight[size:] == 1).all()) and int((weight > 0).sum()) == findable
        found = opened.snapshot().search(all_keys(opened), len(opened)).entry_BK
        assert {int(entry) for entry in found.flatten()} - {-1} == set((weight > 0).nonzero().flatten().tolist())
        assert 0 <= (opened.snapshot().profile.likely_weight or 0) <= 1
    assert prune(store.path, PruneConfig(device="cpu")).segments[1].pruned is not None
    assert unprune(store.path).kept == len(pruned)


def test_a_store_opened_before_goes_on_searching(tmp_path: Path) -> None:
    key, token = made_entries(100)
    store = made_store(tmp_path / "store", key, token)
    query = some_queries(store)
    expected = store.snapshot().search(query, 8)
    prune(store.path, PruneConfig(device="cpu"))
    assert torch.equal(store.snapshot().search(query, 8).entry_BK, expected.entry_BK)
    pruned = Datastore.open(store.path)
    found, weight = pruned.snapshot().search(query, 8), pruned.snapshot().weights(torch.arange(100))
    unprune(store.path)
    assert torch.equal(pruned.snapshot().search(query, 8).entry_BK, found.entry_BK)
    assert weight is not None and weight.sum() == 100


# What goes wrong.


@pytest.fixture
def pruned(tmp_path: Path) -> Path:
    key, token = made_entries(200, copies=0.3)
    path = made_store(tmp_path / "store", key, token, segments=2).path
    prune(path, PruneConfig(device="cpu"))
    return path


def test_a_damaged_file_of_weights_is_refused(pruned: Path) -> None:
    file = next(pruned.glob("segment-000002/weight-*.i32"))
    good = file.read_bytes()
    file.write_bytes(b"\x07" + good[1:])
    with pytest.raises(DatastoreError, match=r"weight-\w+\.i32: altered"):
        Datastore.open(pruned)
    file.write_bytes(good[:-4])
    with pytest.raises(DatastoreError, match=r"weight-\w+\.i32: has \d+ bytes instead of"):
        prune(pruned)
    file.unlink()
    with pytest.raises(DatastoreError, match=r"weight-\w+\.i32: missing"):
        unprune(pruned)


def test_a_manifest_of_before_is_read(tmp_path: Path) -> None:
    """Stores that were never pruned say nothing about it."""
    store = made_store(tmp_path / "store", *made_entries(20))
    raw = json.loads((store.path / "manifest.json").read_text(encoding="utf-8"))
    assert raw["segments"][0]["index"] == {"kind": "exact"} and set(raw["segments"][0]["files"]) == set(FILES)
    manifest = Manifest.load(store.path)
    assert manifest.kept == manifest.entries == 20 and manifest.segments[0].pruned is None


@pytest.mark.parametrize("calls", range(6))
def test_an_interruption_leaves_the_store(calls: int, pruned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearmt.datastore.upkeep.neighbours.EXACT_UP_TO", 10)
    before = contents(pruned)
    seen: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        prune(pruned, PruneConfig(neighbours=7, device="cpu"), stop_after(calls))
    assert contents(pruned) == before
    Datastore.open(pruned, verify=True)
    prune(pruned, PruneConfig(neighbours=7, device="cpu"), lambda done, total: seen.append(done))
    assert seen == sorted(seen) and seen[-1] <= 5 * 200 and len(seen) > 5


@pytest.mark.parametrize("index", ["exact", "Flat"])
@pytest.mark.parametrize("undo", [False, True])
def test_a_full_disk_leaves_the_store(index: str, undo: bool, pruned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, weights = Manifest.load(pruned), weights_of(pruned).tolist()
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full_disk)
        config = PruneConfig(neighbours=7, index=index, device="cpu")
        with pytest.raises(OutputError, match="the disk is full"):
            _ = unprune(pruned, index) if undo else prune(pruned, config)
    assert Datastore.open(pruned, verify=True).manifest == before
    assert weights_of(pruned).tolist() == weights
    unprune(pruned)
    assert_no_strays(pruned)


def test_one_writer_at_a_time(pruned: Path) -> None:
    refused: list[int] = []

    def meanwhile(done: int, total: int) -> None:
        for change in (prune, unprune, reindex):
            with pytest.raises(DatastoreError, match="another process is writing to it"):
                change(pruned)
        refused.append(done)

    prune(pruned, PruneConfig(device="cpu"), meanwhile)
    assert refused


def test_what_cannot_be_pruned_says_so(tiny: TranslationModel, tmp_path: Path) -> None:
    with pytest.raises(DatastoreError, match="no such datastore"):
        prune(tmp_path / "nowhere")
    empty = Datastore.build(tmp_path / "empty", [], tiny)
    with pytest.raises(DatastoreError, match="has no entries; there is nothing to prune"):
        prune(empty.path)
    with pytest.raises(DatastoreError, match="is not pruned; there is nothing to undo"):
        unprune(empty.path)
    store = made_store(tmp_path / "store", *made_entries(20))
    with pytest.raises(ConfigError, match="index = 'nonsense'"):
        prune(store.path, PruneConfig(index="nonsense"))
    with pytest.raises(ConfigError, match="device = 'abacus'"):
        prune(store.path, PruneConfig(device="abacus"))
    assert Manifest.load(store.path) == store.manifest


@pytest.mark.parametrize("setting", [{"neighbours": 0}, {"neighbours": 65}, {"seed": -1}, {"neighbours": 1.5}])
def test_bad_settings_are_refused(setting: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(setting))):
        PruneConfig(**setting)  # type: ignore[arg-type]


# The command.


def test_the_command_says_what_it_did(nearmt: Nearmt, tmp_path: Path) -> None:
    store = made_store(tmp_path / "store", *made_entries(200, copies=0.5))
    result = nearmt("prune", store.path, "--neighbours", 4, "--seed", 2, "--index", "Flat", "--device", "cpu", "--json")
    assert result.code == 0, result.err
    found, weights = json.loads(result.out), weights_of(store.path)
    kept = int((weights > 0).sum())
    assert (found["entries"], found["kept_entries"], found["largest_weight"]) == (200, kept, weights.max())
    assert found["share_kept"] == pytest.approx(kept / 200) and found["mean_weight"] == pytest.approx(200 / kept, 1e-3)
    assert found["recall"] == 1.0 and found["index"] == "Flat"
    assert json.loads(nearmt("info", store.path, "--json").out)["kept_entries"] == kept
    assert f"{kept}" in nearmt("info", store.path).out
    undone = nearmt("prune", store.path, "--undo", "--json")
    assert (
        json.loads(undone.out)["kept_entries"] == 200
        and json.loads(undone.out)["identity"] == store.snapshot().identity
    )
    assert "kept entries" in nearmt("prune", store.path).out


def test_the_command_refuses(nearmt: Nearmt, tmp_path: Path) -> None:
    store = made_store(tmp_path / "store", *made_entries(20))
    for arguments, code, message in [
        ((tmp_path / "nowhere",), 1, "no such datastore"),
        ((store.path, "--undo"), 1, "there is nothing to undo"),
        ((store.path, "--undo", "--seed", 3), 2, "--undo goes with --index only, not with --seed"),
        ((store.path, "--neighbours", 0), 2, "neighbours = 0: must be between 1 and 64"),
    ]:
        result = nearmt("prune", *arguments)
        assert result.code == code and message in result.err and result.err.count("\n") == 1
