"""Adding and indexing anew: the same store as one built at once, and nothing left behind."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from nearmt.contracts import Pair
from nearmt.datastore import BuildConfig, Datastore, reindex
from nearmt.datastore.disk import Manifest
from nearmt.errors import DatastoreError, OutputError
from nearmt.models import TranslationModel
from tests.conftest import make_pairs
from tests.datastore.helpers import (
    all_keys,
    assert_no_strays,
    contents,
    count_encoded,
    full_disk,
    nearest_by_hand,
    reduction_of,
    some_queries,
    states_by_hand,
    stop_after,
)


def assert_same_search(mine: Datastore, other: Datastore, model: TranslationModel, pairs: list[Pair]) -> None:
    """The same distances for the same states; the same entries wherever no two are as good as equally far."""
    states = torch.cat(states_by_hand(model, pairs)[0])[::3] + 0.01
    found, expected = (
        mine.snapshot().search(mine.snapshot().query(states), 8),
        other.snapshot().search(other.snapshot().query(states), 8),
    )
    # Each store rounds its own coordinates to fp16.
    torch.testing.assert_close(found.distance_BK, expected.distance_BK, rtol=0.02, atol=5e-3)
    agree = (found.entry_BK == expected.entry_BK).float().mean()
    assert float(agree) > 0.9


@pytest.mark.parametrize("count", [16, 80])
def test_added_pairs_are_as_if_built_at_once(count: int, tiny: TranslationModel, tmp_path: Path) -> None:
    """With whole keys (16 pairs) and with a fitted reduction (80)."""
    pairs = make_pairs(count, seed=7)
    whole = Datastore.build(tmp_path / "whole", pairs, tiny)
    grown = Datastore.build(tmp_path / "grown", pairs[: count * 3 // 4], tiny)
    assert grown.add(pairs[count * 3 // 4 : -1], tiny) == count - count * 3 // 4 - 1
    assert grown.add(pairs[-1:], tiny) == 1
    assert reduction_of(whole.path).fitted is reduction_of(grown.path).fitted is (count == 80)
    assert list(grown.pairs()) == list(whole.pairs())
    every = torch.arange(len(whole))
    assert torch.equal(grown.snapshot().tokens(every), whole.snapshot().tokens(every))
    assert_same_search(grown, whole, tiny, pairs)
    if count == 16:
        torch.testing.assert_close(all_keys(grown), all_keys(whole), rtol=1e-3, atol=1e-3)
    assert_no_strays(grown.path)


def test_an_empty_store_grows(tiny: TranslationModel, tmp_path: Path) -> None:
    pairs = make_pairs(12, seed=7)
    grown = Datastore.build(tmp_path / "grown", [], tiny)
    assert [grown.add(pairs[:1], tiny), grown.add(pairs[1:], tiny)] == [1, 11]
    whole = Datastore.build(tmp_path / "whole", pairs, tiny)
    assert list(grown.pairs()) == list(whole.pairs())
    assert_same_search(grown, whole, tiny, pairs)
    assert grown.snapshot().profile.search_scale == pytest.approx(whole.snapshot().profile.search_scale, rel=0.02)


def test_what_was_added_is_there_after_opening(tiny: TranslationModel, tmp_path: Path) -> None:
    store = Datastore.build(tmp_path / "store", make_pairs(5), tiny)
    before = store.snapshot().identity
    store.add(make_pairs(3, seed=1), tiny)
    again = Datastore.open(store.path, verify=True)
    assert again.snapshot().identity == store.snapshot().identity != before
    assert list(again.pairs()) == list(store.pairs())
    query = some_queries(store)
    assert torch.equal(again.snapshot().search(query, 8).entry_BK, store.snapshot().search(query, 8).entry_BK)


def test_added_pairs_are_found_and_named(tiny: TranslationModel, tmp_path: Path) -> None:
    store = Datastore.build(tmp_path / "store", make_pairs(20), tiny)
    new = make_pairs(1, seed=11)[0]
    size = len(store)
    store.add([new], tiny)
    state = states_by_hand(tiny, [new])[0][0]
    found = store.snapshot().search(store.snapshot().query(state), 1)
    assert found.entry_BK[:, 0].tolist() == list(range(size, len(store)))
    assert store.snapshot().pair_of(size).target == new.target


def test_repetitions_are_numbered_on(tiny: TranslationModel, tmp_path: Path) -> None:
    pair = make_pairs(1)[0]
    store = Datastore.build(tmp_path / "store", [pair], tiny)
    store.add([pair, pair], tiny)
    store.add([pair], tiny)
    first = next(store.pairs()).id
    assert [p.id for p in store.pairs()] == [first, f"{first}-2", f"{first}-3", f"{first}-4"]


def test_adding_nothing_changes_nothing(tiny: TranslationModel, tmp_path: Path) -> None:
    store = Datastore.build(tmp_path / "store", make_pairs(5), tiny)
    before = store.manifest
    assert store.add([], tiny) == 0
    assert Manifest.load(store.path) == before


def test_adding_nothing_leaves_nothing(tiny: TranslationModel, tmp_path: Path) -> None:
    store = Datastore.build(tmp_path / "store", make_pairs(5), tiny)
    store.add([], tiny)
    assert_no_strays(store.path)


def test_an_interrupted_addition_leaves_the_store_and_goes_on(
    tiny: TranslationModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearmt.datastore.disk.pairs.BLOCK", 4)
    pairs = [replace(pair, id=str(number)) for number, pair in enumerate(make_pairs(20, seed=7))]
    store = Datastore.build(tmp_path / "store", pairs[:6], tiny)
    with pytest.raises(KeyboardInterrupt):
        store.add(pairs[6:], tiny, progress=stop_after(2))
    encoded = count_encoded(monkeypatch)
    again = Datastore.open(store.path, verify=True)
    # Two blocks are finished, a third is safe: it waits for a model.
    for handle in (store, again):
        assert list(handle.pairs()) == pairs[:14] and handle.pending == 4
    assert not encoded
    assert again.catch_up(tiny) == 4 and sum(encoded) == 4
    assert list(again.pairs()) == pairs[:18]
    # Said once more, pairs with ids are no others.
    assert again.add(pairs[6:], tiny) == 14
    assert list(again.pairs()) == pairs
    assert_no_strays(store.path)


def test_a_full_disk_while_adding_leaves_the_store(
    tiny: TranslationModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Datastore.build(tmp_path / "store", make_pairs(6), tiny)
    before = Manifest.load(store.path)
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full_disk)
        with pytest.raises(OutputError, match="the disk is full"):
            store.add(make_pairs(3, seed=1), tiny)
    assert Datastore.open(store.path, verify=True).manifest == before
    assert len(store) == before.entries and store.snapshot().search(some_queries(store, 2), 3).entry_BK.shape == (2, 3)
    store.add(make_pairs(3, seed=1), tiny)
    assert_no_strays(store.path)


def test_two_handles_that_add_lose_nothing(tiny: TranslationModel, tmp_path: Path) -> None:
    first = Datastore.build(tmp_path / "store", make_pairs(5), tiny)
    second = Datastore.open(first.path)
    first.add(make_pairs(2, seed=1), tiny)
    second.add(make_pairs(3, seed=2), tiny)
    first.refresh()
    for store in (first, second, Datastore.open(first.path)):
        assert [pair.source for pair in store.pairs()] == [
            pair.source for pair in [*make_pairs(5), *make_pairs(2, seed=1), *make_pairs(3, seed=2)]
        ]


def test_adding_after_a_reindex_keeps_the_store_usable(tiny: TranslationModel, tmp_path: Path) -> None:
    store = Datastore.build(tmp_path / "store", make_pairs(40), tiny, BuildConfig(index="Flat"))
    reindex(store.path, "HNSW32")
    store.add(make_pairs(2, seed=1), tiny)
    assert Datastore.open(store.path).snapshot().pair_count == 42 == store.snapshot().pair_count


def test_a_second_writer_is_refused(tiny: TranslationModel, tmp_path: Path) -> None:
    """While one adds, neither an addition nor a reindex may begin; reading may."""
    store = Datastore.build(tmp_path / "store", make_pairs(5), tiny)
    seen: list[int] = []

    def meanwhile(done: int, total: int) -> None:
        other = Datastore.open(store.path)
        with pytest.raises(DatastoreError, match="another process is writing to it"):
            other.add(make_pairs(1, seed=2), tiny)
        with pytest.raises(DatastoreError, match="another process is writing to it"):
            reindex(store.path)
        seen.append(other.snapshot().pair_count)

    assert store.add(make_pairs(2, seed=1), tiny, progress=meanwhile) == 2
    assert seen == [5]
    assert Datastore.open(store.path).snapshot().pair_count == 7
    assert store.add(make_pairs(1, seed=2), tiny) == 1


def test_a_handle_sees_what_others_added_when_it_adds(tiny: TranslationModel, tmp_path: Path) -> None:
    first = Datastore.build(tmp_path / "store", make_pairs(5), tiny)
    second = Datastore.open(first.path)
    first.add(make_pairs(1, seed=1), tiny)
    second.add(make_pairs(1, seed=1), tiny)
    ids = [pair.id for pair in second.pairs()]
    assert len(set(ids)) == 7 and ids[6] == f"{ids[5]}-2"
    assert_no_strays(first.path)


# Indexing anew.


@pytest.fixture
def flat(tiny: TranslationModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Datastore:
    """A store of two sealed segments."""
    monkeypatch.setattr("nearmt.datastore.edit.editor.LIVE_ENTRIES", 1)
    store = Datastore.build(tmp_path / "store", make_pairs(60), tiny, BuildConfig(index="Flat"))
    store.add(make_pairs(50, seed=1), tiny)
    assert [record.pairs for record in store.manifest.segments] == [60, 50]
    return store


@pytest.mark.parametrize("factory", ["auto", "exact", "Flat", "IVF16,SQ8", "HNSW32"])
def test_another_index_is_the_same_store(factory: str, flat: Datastore) -> None:
    query = some_queries(flat, 40)
    before = {name: data for name, data in contents(flat.path).items() if not re.search("index-|quantiser-", name)}
    expected = flat.snapshot().search(query, 8)
    manifest = reindex(flat.path, factory)
    assert manifest.identity == flat.snapshot().identity
    assert manifest == Manifest.load(flat.path)
    kind = "exact" if factory in ("auto", "exact") else "faiss"
    assert [record.index["kind"] for record in manifest.segments] == [kind] * 2
    store = Datastore.open(flat.path, verify=True)
    found = store.snapshot().search(query, 8)
    if factory in ("auto", "exact", "Flat"):
        assert torch.equal(found.entry_BK, expected.entry_BK)
    entries, _ = nearest_by_hand(flat, query, 8)
    hits = np.mean([len(set(a) & set(b)) / 8 for a, b in zip(entries.tolist(), found.entry_BK.tolist(), strict=True)])
    assert float(hits) >= 0.97
    same = found.entry_BK == expected.entry_BK
    assert torch.equal(found.distance_BK[same], expected.distance_BK[same])
    after = {name: data for name, data in contents(flat.path).items() if not re.search("index-|quantiser-", name)}
    assert {name for name in after if before[name] != after[name]} == {"manifest.json"}
    assert (manifest.calibration.recall is None) == (kind == "exact")
    assert_no_strays(flat.path)


def test_a_failed_reindex_leaves_the_old_index(flat: Datastore, monkeypatch: pytest.MonkeyPatch) -> None:
    query = some_queries(flat)
    before, expected = Manifest.load(flat.path), flat.snapshot().search(query, 8)
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full_disk)
        with pytest.raises(OutputError, match="the disk is full"):
            reindex(flat.path, "HNSW32")
    store = Datastore.open(flat.path, verify=True)
    assert store.manifest == before
    assert torch.equal(store.snapshot().search(query, 8).entry_BK, expected.entry_BK)
    reindex(flat.path, "exact")
    Datastore.open(flat.path)


def test_a_store_opened_before_a_reindex_goes_on_searching(flat: Datastore) -> None:
    query = some_queries(flat)
    expected = flat.snapshot().search(query, 8)
    reindex(flat.path, "exact")
    assert torch.equal(flat.snapshot().search(query, 8).entry_BK, expected.entry_BK)
    assert flat.snapshot().pair_of(0) == next(flat.pairs())


def whole_keys(model: TranslationModel, path: Path) -> Datastore:
    """A store that began too small for a PCA and has grown since."""
    store = Datastore.build(path, make_pairs(10, seed=8), model)
    assert not reduction_of(path).fitted
    store.add(make_pairs(50, seed=9), model)
    assert len(store) >= 320
    return store


@pytest.mark.parametrize("factory", ["auto", "HNSW32"])
def test_whole_keys_get_their_reduction(factory: str, tiny: TranslationModel, tmp_path: Path) -> None:
    store = whole_keys(tiny, tmp_path / "store")
    pairs = [*make_pairs(10, seed=8), *make_pairs(50, seed=9)]
    states = torch.cat(states_by_hand(tiny, pairs)[0])[::4] + 0.01
    expected = store.snapshot().search(store.snapshot().query(states), 8)
    before = list(store.pairs())
    manifest = reindex(store.path, factory)
    assert reduction_of(store.path).fitted
    assert manifest.identity != store.snapshot().identity
    again = Datastore.open(store.path, verify=True)
    assert list(again.pairs()) == before
    every = torch.arange(len(store))
    assert torch.equal(again.snapshot().tokens(every), store.snapshot().tokens(every))
    found = again.snapshot().search(again.snapshot().query(states), 8)
    torch.testing.assert_close(found.distance_BK, expected.distance_BK, rtol=0.02, atol=5e-3)
    assert float((found.entry_BK == expected.entry_BK).float().mean()) > 0.9
    variance = all_keys(again).var(dim=0)
    assert bool((variance.diff() <= 1e-3).all())
    assert again.snapshot().profile.search_scale == pytest.approx(store.snapshot().profile.search_scale, rel=0.02)
    assert_no_strays(store.path)


def test_a_reduced_store_grows_on(tiny: TranslationModel, tmp_path: Path) -> None:
    whole_keys(tiny, tmp_path / "store")
    reindex(tmp_path / "store")
    store = Datastore.open(tmp_path / "store")
    identity = store.manifest.reduction
    new = make_pairs(4, seed=12)
    size = len(store)
    assert store.add(new, tiny) == 4
    state = states_by_hand(tiny, new)[0][0]
    assert store.snapshot().search(store.snapshot().query(state), 1).entry_BK[:, 0].tolist() == list(
        range(size, size + len(state))
    )
    assert reindex(store.path).reduction == identity
    again = Datastore.open(store.path, verify=True)
    assert again.manifest.pairs == 64
    assert len({record.name for record in again.manifest.segments}) == 3
    assert again.snapshot().search(again.snapshot().query(state), 1).entry_BK[:, 0].tolist() == list(
        range(size, size + len(state))
    )
    assert_no_strays(store.path)


def test_too_few_entries_stay_whole(tiny: TranslationModel, tmp_path: Path) -> None:
    store = Datastore.build(tmp_path / "store", make_pairs(10), tiny)
    assert len(store) < 320
    manifest = reindex(store.path)
    assert manifest.identity == store.snapshot().identity and not reduction_of(store.path).fitted
    assert_no_strays(store.path)


def test_a_reduction_that_fails_leaves_whole_keys(
    tiny: TranslationModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = whole_keys(tiny, tmp_path / "store")
    before = Manifest.load(store.path)
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full_disk)
        with pytest.raises(OutputError, match="the disk is full"):
            reindex(store.path)
    again = Datastore.open(store.path, verify=True)
    assert again.manifest == before and torch.equal(all_keys(again), all_keys(store))
    reindex(store.path)
    assert reduction_of(store.path).fitted
    assert_no_strays(store.path)
