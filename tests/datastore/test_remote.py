"""Stores with an index on a server: what goes there, what is taken back, and what happens when it fails."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nearmt.config.building import BuildConfig
from nearmt.datastore import Datastore, JoinedStore, PruneConfig, prune, reindex
from nearmt.datastore.disk import Manifest, SegmentRecord
from nearmt.datastore.disk.manifest_checks import check_manifest
from nearmt.datastore.search.remote import number_of
from nearmt.datastore.upkeep.description import describe
from nearmt.datastore.upkeep.prune import unprune
from nearmt.datastore.upkeep.verify import LOST, SOUND, verify
from nearmt.engines.devices import DEVICES
from nearmt.errors import ConfigError, DatastoreError, IndexServerError, NearmtWarning
from nearmt.index.milvus import RemoteUse
from nearmt.models import TranslationModel
from nearmt.translator import Translator
from tests.conftest import make_pairs
from tests.datastore.editing_helpers import BEAM, KNN, TEXTS, assert_same, built_alike, named, translations
from tests.datastore.helpers import assert_no_strays, contents, some_queries
from tests.index.toy_milvus import ADDRESS, Rows, ToyMilvus

PAIRS = named(make_pairs(40, seed=71))
OPTIONAL = RemoteUse(1.0, optional=True)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pair is encoded by itself: the same pair has the same keys to the last bit."""
    monkeypatch.setitem(DEVICES, "cpu", replace(DEVICES["cpu"], forced_tokens=1))


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The live segment is sealed when it has a few pairs."""
    monkeypatch.setattr("nearmt.datastore.edit.editor.LIVE_ENTRIES", 30)


@pytest.fixture
def store(toy: ToyMilvus, tiny: TranslationModel, tmp_path: Path) -> Datastore:
    return Datastore.build(tmp_path / "store", PAIRS[:12], tiny, BuildConfig(index=ADDRESS))


def rows_of(toy: ToyMilvus) -> Rows:
    (rows,) = toy.collections.values()
    return rows


def assert_rows(toy: ToyMilvus, *folders: Path) -> None:
    """The server has the keys of these stores, and nothing else."""
    wanted = [
        record for folder in folders for record in Manifest.load(folder).segments if record.index["kind"] != "exact"
    ]
    assert all(record.index["kind"] == "milvus" for record in wanted)
    found = rows_of(toy).part_N.tolist()
    assert {part: found.count(part) for part in set(found)} == {r.index["part"]: r.kept for r in wanted}


# Building and editing.


def test_a_store_on_a_server_is_one_with_an_index_of_its_own(
    toy: ToyMilvus, store: Datastore, tiny: TranslationModel, tmp_path: Path
) -> None:
    fresh = built_alike(tmp_path / "fresh", PAIRS[:12], tiny, store)
    assert_same(store, fresh, tiny)
    assert_same(Datastore.open(store.path, verify=True), fresh, tiny)
    assert_rows(toy, store.path)
    assert "search" in toy.calls
    (record,) = store.manifest.segments
    assert record.index["factory"] == "milvus://toy:19530/default?type=HNSW&M=16&efConstruction=128"
    assert record.index["recall"] == 1.0 and record.index["memory"] == number_of(store.path)
    (name,) = toy.collections
    for part in (store.manifest.fingerprint[:24], store.manifest.reduction[:24], "HNSW"):
        assert part in name


def test_a_store_grows_on_its_server(
    toy: ToyMilvus, store: Datastore, often: None, tiny: TranslationModel, tmp_path: Path
) -> None:
    for start in range(12, 40, 3):
        store.add(PAIRS[start : start + 3], tiny)
    assert len(store.manifest.segments) > 1
    assert_rows(toy, store.path)
    fresh = built_alike(tmp_path / "fresh", PAIRS, tiny, store)
    assert_same(store, fresh, tiny)
    toy.searched.clear()
    store.snapshot().search(some_queries(store, 5), 4)
    assert len(toy.searched) == 1  # however many segments there are
    store.compact(tiny)
    assert_rows(toy, store.path)
    assert_same(store, fresh, tiny)
    assert_no_strays(store.path)


def test_what_is_deleted_is_hidden_at_once_and_removed_by_compaction(
    toy: ToyMilvus, store: Datastore, tiny: TranslationModel, tmp_path: Path
) -> None:
    store.delete(["3", "7"])
    rest = [pair for pair in PAIRS[:12] if pair.id not in ("3", "7")]
    fresh = built_alike(tmp_path / "fresh", rest, tiny, store)
    assert_same(store, fresh, tiny)
    before = len(rows_of(toy).number_N)
    store.compact(tiny)
    assert len(rows_of(toy).number_N) == len(fresh) < before
    assert_rows(toy, store.path)
    assert_same(store, fresh, tiny)


def test_reindexing_stays_on_the_server_unless_another_index_is_asked_for(
    toy: ToyMilvus, store: Datastore, tiny: TranslationModel
) -> None:
    expected = translations(tiny, store)
    part = store.manifest.segments[0].index["part"]
    manifest = reindex(store.path)
    assert manifest.segments[0].index["kind"] == "milvus" and manifest.segments[0].index["part"] != part
    assert_rows(toy, store.path)
    reindex(store.path, "exact")
    assert_rows(toy, store.path)
    assert not len(rows_of(toy).number_N)
    assert translations(tiny, Datastore.open(store.path)) == expected
    reindex(store.path, ADDRESS)
    assert_rows(toy, store.path)
    assert translations(tiny, Datastore.open(store.path)) == expected


def test_a_lost_collection_is_written_again_from_the_files(
    toy: ToyMilvus, store: Datastore, tiny: TranslationModel
) -> None:
    expected = translations(tiny, store)
    toy.collections.clear()
    lost = Datastore.open(store.path, remote=RemoteUse(0.1))
    with pytest.raises(IndexServerError, match="nearmt reindex"):
        lost.snapshot().search(some_queries(store, 2), 4)
    assert translations(tiny, Datastore.open(store.path, nominate="torch")) == expected
    reindex(store.path)
    assert translations(tiny, Datastore.open(store.path)) == expected


def test_pruning_leaves_merged_entries_out(toy: ToyMilvus, store: Datastore, tiny: TranslationModel) -> None:
    manifest = prune(store.path, PruneConfig(neighbours=4, device="cpu"))
    assert manifest.kept < manifest.entries and manifest.segments[0].index["kind"] == "milvus"
    assert_rows(toy, store.path)
    pruned = translations(tiny, Datastore.open(store.path))
    assert pruned == translations(tiny, Datastore.open(store.path, nominate="exact"))
    unprune(store.path)
    assert_rows(toy, store.path)
    assert len(rows_of(toy).number_N) == manifest.entries


def test_a_store_that_is_encoded_anew_stays_on_its_server(
    toy: ToyMilvus, store: Datastore, tiny: TranslationModel
) -> None:
    from nearmt.datastore import rebuild

    rebuild(store.path, tiny, BuildConfig())
    assert_rows(toy, store.path)
    Datastore.build(store.path, PAIRS[:5], tiny, BuildConfig(index=ADDRESS), overwrite=True)
    assert_rows(toy, store.path)


# Several memories.


def test_memories_share_a_collection_and_see_only_their_own(
    toy: ToyMilvus, store: Datastore, tiny: TranslationModel, tmp_path: Path
) -> None:
    config = BuildConfig(index=ADDRESS, reduction_of=str(store.path))
    other = Datastore.build(tmp_path / "other", PAIRS[12:], tiny, config)
    assert_rows(toy, store.path, other.path)
    for one in (store, other):
        found = one.snapshot().search(some_queries(one, 5), 4)
        exact = Datastore.open(one.path, nominate="exact").snapshot().search(some_queries(one, 5), 4)
        assert torch.equal(found.entry_BK, exact.entry_BK)
    toy.searched.clear()
    joined = JoinedStore([store, other]).snapshot()
    found = joined.search(some_queries(other, 5), 4)
    assert len(toy.searched) == 1
    both = JoinedStore([Datastore.open(one.path, nominate="exact") for one in (store, other)]).snapshot()
    assert torch.equal(found.entry_BK, both.search(some_queries(other, 5), 4).entry_BK)
    reindex(other.path, "exact")
    assert_rows(toy, store.path)


def test_rows_that_an_index_misses_are_searched_exactly(
    toy: ToyMilvus, store: Datastore, tiny: TranslationModel
) -> None:
    query = some_queries(store, 5)
    expected = store.snapshot().search(query, 4)
    toy.missed = set(rows_of(toy).number_N.tolist()[3:])
    found = Datastore.open(store.path).snapshot().search(query, 4)
    assert torch.equal(found.entry_BK, expected.entry_BK)


def test_a_copy_leaves_the_rows_of_the_original_alone(
    toy: ToyMilvus, store: Datastore, tiny: TranslationModel, tmp_path: Path
) -> None:
    expected = translations(tiny, store)
    shutil.copytree(store.path, tmp_path / "copy")
    copied = Datastore.open(tmp_path / "copy")
    with pytest.raises(ConfigError, match=r"index-server=milvus://toy:19530/default.*nearmt reindex"):
        copied.snapshot().search(some_queries(store, 2), 4)
    agreed = Datastore.open(tmp_path / "copy", remote=RemoteUse(server="milvus://toy"))
    assert translations(tiny, agreed) == expected
    reindex(tmp_path / "copy")
    assert_rows(toy, store.path, tmp_path / "copy")
    assert translations(tiny, Datastore.open(tmp_path / "copy")) == expected
    Datastore.open(tmp_path / "copy").compact()
    reindex(tmp_path / "copy", "exact")
    assert_rows(toy, store.path)


# Faults.


@pytest.mark.parametrize("call", ["connect", "parameters", "create", "insert", "flush", "progress", "count", "search"])
def test_a_build_whose_server_fails_leaves_nothing_that_is_used(
    toy: ToyMilvus, tiny: TranslationModel, tmp_path: Path, call: str
) -> None:
    toy.is_down, toy.down_for = True, frozenset([call])
    with pytest.raises(IndexServerError, match="no answer"):
        Datastore.build(tmp_path / "store", PAIRS[:12], tiny, BuildConfig(index=ADDRESS))
    assert not (tmp_path / "store" / "manifest.json").exists()
    toy.is_down = False
    Datastore.build(tmp_path / "store", PAIRS[:12], tiny, BuildConfig(index=ADDRESS))
    assert_rows(toy, tmp_path / "store")


@pytest.mark.parametrize("call", ["insert", "progress", "count", "search"])
def test_a_server_that_dies_while_it_is_written_to_keeps_nothing_after_the_next_build(
    toy: ToyMilvus, store: Datastore, tiny: TranslationModel, call: str
) -> None:
    """Not even what was inserted can be taken back: it is deleted by the next one, and never found until then."""
    expected, files = translations(tiny, store), contents(store.path)
    toy.is_down, toy.down_for = True, frozenset([call, "delete"])
    with pytest.raises(IndexServerError):
        reindex(store.path)
    assert contents(store.path) == files
    toy.is_down = False
    assert translations(tiny, Datastore.open(store.path)) == expected
    reindex(store.path)
    assert_rows(toy, store.path)


def test_rows_that_cannot_be_removed_now_are_removed_later(toy: ToyMilvus, store: Datastore) -> None:
    toy.is_down, toy.down_for = True, frozenset(["delete"])
    with pytest.warns(NearmtWarning, match="until the next reindex"):
        reindex(store.path)
    assert len(set(rows_of(toy).part_N.tolist())) == 2
    toy.is_down = False
    reindex(store.path)
    assert_rows(toy, store.path)


@pytest.mark.parametrize("call", ["connect", "insert", "count"])
def test_what_is_added_does_not_wait_for_a_server(
    toy: ToyMilvus, store: Datastore, often: None, tiny: TranslationModel, tmp_path: Path, call: str
) -> None:
    toy.is_down, toy.down_for = True, frozenset([call])
    with pytest.warns(NearmtWarning, match="searched exactly until `nearmt reindex"):
        store.add(PAIRS[12:30], tiny)
    toy.is_down = False
    assert {record.index["kind"] for record in store.manifest.segments} == {"exact", "milvus"}
    fresh = built_alike(tmp_path / "fresh", PAIRS[:30], tiny, store)
    assert_same(store, fresh, tiny)
    reindex(store.path)
    assert_rows(toy, store.path)
    assert {record.index["kind"] for record in Manifest.load(store.path).segments} == {"milvus"}


def test_a_compaction_whose_server_fails_leaves_the_store_as_it_was(
    toy: ToyMilvus, store: Datastore, tiny: TranslationModel
) -> None:
    store.delete(["3"])
    expected = translations(tiny, store)
    before = store.manifest.segments
    toy.is_down, toy.down_for = True, frozenset(["insert"])
    with pytest.raises(IndexServerError):
        store.compact(tiny)
    toy.is_down = False
    again = Datastore.open(store.path, verify=True)
    assert again.manifest.segments == before
    assert translations(tiny, again) == expected
    again.compact(tiny)
    assert_rows(toy, store.path)
    assert_no_strays(store.path)


@pytest.mark.parametrize("method", ["knn", "chunk"])
def test_without_its_server_a_translation_fails_or_is_the_models_own(
    toy: ToyMilvus, store: Datastore, tiny: TranslationModel, method: str
) -> None:
    plain = Translator(tiny, method="plain", beam=BEAM).translate(TEXTS)
    settings = {**KNN, "give-up": False} | ({"seeds": 0} if method == "chunk" else {})
    strict = Translator(tiny, Datastore.open(store.path), method, settings, BEAM)
    lenient = Translator(tiny, Datastore.open(store.path, remote=OPTIONAL), method, settings, BEAM)
    whole = strict.translate(TEXTS)
    assert [found.missed for found in lenient.translate(TEXTS)] == [0] * len(TEXTS)
    assert [found.text for found in whole] != [found.text for found in plain]
    toy.is_down = True
    with pytest.raises(IndexServerError, match="index-fallback=model"):
        strict.translate(TEXTS)
    with pytest.warns(NearmtWarning, match=f"{len(TEXTS)} units lack neighbours"):
        alone = lenient.translate(TEXTS)
    assert [found.text for found in alone] == [found.text for found in plain]
    assert all(found.missed == found.searches > 0 for found in alone)
    toy.is_down = False
    assert lenient.translate(TEXTS) == whole


def test_verify_and_info_know_the_server(toy: ToyMilvus, store: Datastore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearmt.datastore.search.remote.RemoteUse", lambda *_: RemoteUse(0.05))
    (record,) = store.manifest.segments
    name = f"{record.name} in milvus://toy:19530/default"
    assert {finding.file: finding.verdict for finding in verify(store.path)}[name] == SOUND
    found = describe(store.path, store.manifest)
    assert found["collection"] == record.index["collection"] and found["parts"] == str(record.index["part"])
    rows = rows_of(toy)
    rows.part_N[:2] += 1
    finding = next(finding for finding in verify(store.path) if finding.file == name)
    assert finding.verdict == LOST and f"{record.entries - 2} of {record.entries} keys" in finding.detail
    toy.is_down = True
    finding = next(finding for finding in verify(store.path) if finding.file == name)
    assert finding.verdict == LOST and "no answer" in finding.detail


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("factory", "http://elsewhere"),
        ("factory", "milvus://user:secret@host"),
        ("factory", 7),
        ("collection", "a b"),
        ("collection", "../x"),
        ("memory", -1),
        ("memory", "1"),
        ("part", 0),
        ("part", 1 << 31),
        ("part", "1 or part > 0"),
        ("effort", -1),
    ],
)
def test_descriptions_that_nearmt_never_writes_are_refused(
    toy: ToyMilvus, store: Datastore, name: str, value: object
) -> None:
    (record,) = store.manifest.segments
    wrong: SegmentRecord = replace(record, index={**record.index, name: value})
    check_manifest(store.manifest)
    with pytest.raises(ValueError, match=name):
        check_manifest(replace(store.manifest, segments=(wrong,)))


def test_an_address_that_cannot_be_used_is_refused_before_anything_is_encoded(
    toy: ToyMilvus, tiny: TranslationModel, tmp_path: Path
) -> None:
    for address in ("milvus://", "milvus://toy?type=FLAT"):
        with pytest.raises(ConfigError, match="milvus://HOST:PORT"):
            Datastore.build(tmp_path / "store", PAIRS, tiny, BuildConfig(index=address))
    toy.is_down = True
    with pytest.raises(DatastoreError, match="no answer"):
        Datastore.build(tmp_path / "store", PAIRS, tiny, BuildConfig(index=ADDRESS))
    assert not (tmp_path / "store").exists()
