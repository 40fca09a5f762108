"""Stores in a real Milvus: the same translations, and what happens when it is killed, stopped, slow or emptied."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nearmt.config.building import BuildConfig
from nearmt.datastore import Datastore, reindex
from nearmt.datastore.disk import Manifest
from nearmt.datastore.search.index_store import Indexing
from nearmt.datastore.upkeep.verify import LOST, verify
from nearmt.engines.devices import DEVICES
from nearmt.errors import IndexServerError, NearmtWarning
from nearmt.index.milvus import Collection, RemoteUse, Tell
from nearmt.index.milvus_client import MilvusServer as MilvusClient
from nearmt.index.vector_server import Address
from nearmt.models import TranslationModel
from nearmt.translator import Translator
from tests.conftest import make_pairs
from tests.datastore.editing_helpers import BEAM, KNN, TEXTS, assert_same, built_alike, named, translations
from tests.milvus import address_of, real_server
from tools.milvus_server import MilvusServer

pytestmark = pytest.mark.services

PAIRS = named(make_pairs(60, seed=71))
KINDS = ("?type=HNSW&M=8&efConstruction=64", "?type=IVF_SQ8&nlist=4")
#: While the server is up, it may be slow: other tests run beside it.
PATIENT, IMPATIENT = RemoteUse(60.0), RemoteUse(1.0)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pair is encoded by itself: the same pair has the same keys to the last bit."""
    monkeypatch.setitem(DEVICES, "cpu", replace(DEVICES["cpu"], forced_tokens=1))
    monkeypatch.setattr("nearmt.index.milvus._PAUSE", 0.0)


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[MilvusServer]:
    """A server that a test may kill."""
    server = MilvusServer(tmp_path / "milvus")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def store(victim: MilvusServer, tiny: TranslationModel, tmp_path: Path) -> Datastore:
    Datastore.build(tmp_path / "store", PAIRS[:30], tiny, BuildConfig(index=address_of(victim)))
    return Datastore.open(tmp_path / "store", remote=PATIENT)


def parts_on(server: MilvusServer, folder: Path) -> dict[int, int]:
    """Rows of the parts that a store names."""
    found = {}
    for record in Manifest.load(folder).segments:
        collection = Collection(Address.parse(address_of(server)), record.index["collection"], PATIENT)
        collection.wait_for({record.index["part"]: record.kept})
        found[record.index["part"]] = record.kept
    return found


def assert_rows(server: MilvusServer, folder: Path) -> None:
    """The memory has the rows that it names, and no others once deletions are seen."""
    index, named_rows = Manifest.load(folder).segments[0].index, sum(parts_on(server, folder).values())
    client = MilvusClient(Address.parse(address_of(server)))
    client.connect(60.0)
    for _ in range(100):
        found = client.count(index["collection"], f"memory == {index['memory']}", 60.0)
        if found == named_rows:
            break
        time.sleep(0.1)
    assert found == named_rows


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_lives_in_milvus(
    kind: str, tiny: TranslationModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearmt.datastore.edit.editor.LIVE_ENTRIES", 60)
    address = address_of(real_server(), kind)
    Datastore.build(tmp_path / "store", PAIRS[:30], tiny, BuildConfig(index=address))
    store = Datastore.open(tmp_path / "store", remote=PATIENT)
    for start in range(30, 60, 10):
        store.add(PAIRS[start : start + 10], tiny)
    store.delete(["3", "45"])
    rest = [pair for pair in PAIRS if pair.id not in ("3", "45")]
    fresh = built_alike(tmp_path / "fresh", rest, tiny, store)
    assert len(store.manifest.segments) > 1
    assert_same(store, fresh, tiny)
    store.compact(tiny)
    assert_same(Datastore.open(store.path, remote=PATIENT), fresh, tiny)
    assert_rows(real_server(), store.path)


@pytest.mark.parametrize("fault", ["killed", "stopped"])
def test_a_fault_while_translating_is_an_error_or_the_models_own_translation(
    fault: str, victim: MilvusServer, store: Datastore, tiny: TranslationModel
) -> None:
    settings = {**KNN, "give-up": False}
    expected = Translator(tiny, store, "knn", settings, BEAM).translate(TEXTS)
    plain = [found.text for found in Translator(tiny, method="plain", beam=BEAM).translate(TEXTS)]
    strict = Translator(tiny, Datastore.open(store.path, remote=IMPATIENT), "knn", settings, BEAM)
    lenient_store = Datastore.open(store.path, remote=replace(IMPATIENT, optional=True))
    lenient = Translator(tiny, lenient_store, "knn", settings, BEAM)
    assert lenient.translate(TEXTS) == expected
    if fault == "killed":
        victim.kill()
    else:
        victim.pause()
    with pytest.raises(IndexServerError, match="index-fallback=model") as caught:
        strict.translate(TEXTS)
    assert "\n" not in str(caught.value)
    with pytest.warns(NearmtWarning, match="lack neighbours"):
        alone = lenient.translate(TEXTS[:2])
    assert [found.text for found in alone] == plain[:2] and all(found.missed for found in alone)
    if fault == "killed":
        victim.restart()
    else:
        victim.resume()
    # It answers again; a restarted one first loads the collection.
    assert Translator(tiny, store, "knn", settings, BEAM).translate(TEXTS) == expected
    assert lenient.translate(TEXTS) == expected


@pytest.mark.parametrize("moment", ["inserting", "indexing"])
@pytest.mark.parametrize("fault", ["killed", "stopped"])
def test_a_fault_while_reindexing_leaves_the_old_index(
    fault: str, moment: str, victim: MilvusServer, store: Datastore, tiny: TranslationModel
) -> None:
    before, expected = store.manifest, translations(tiny, store)
    strike = victim.kill if fault == "killed" else victim.pause
    done: list[str] = []

    def tell(message: str) -> None:
        if not done and (moment == "inserting" or "indexed" in message):
            done.append(message)
            strike()

    if moment == "indexing":
        with pytest.MonkeyPatch.context() as patch:
            settle = Collection.settle

            def struck(self: Collection, parts: dict[int, int], tell_progress: Tell) -> None:
                tell("indexed")
                settle(self, parts, tell_progress)

            patch.setattr(Collection, "settle", struck)
            with pytest.raises(IndexServerError):
                reindex(store.path, Indexing(timeout=2.0))
    else:
        with pytest.raises(IndexServerError):
            reindex(store.path, Indexing(timeout=2.0, tell=tell))
    assert done and Manifest.load(store.path) == before
    if fault == "killed":
        victim.restart()
    else:
        victim.resume()
    again = Datastore.open(store.path, remote=PATIENT)
    assert translations(tiny, again) == expected
    reindex(store.path)
    assert translations(tiny, Datastore.open(store.path, remote=PATIENT)) == expected
    assert_rows(victim, store.path)


def test_a_build_without_its_server_leaves_nothing(
    victim: MilvusServer, tiny: TranslationModel, tmp_path: Path
) -> None:
    victim.kill()
    config = BuildConfig(index=address_of(victim), index_patience=1.0)
    with pytest.raises(IndexServerError):
        Datastore.build(tmp_path / "store", PAIRS, tiny, config)
    assert not (tmp_path / "store").exists()


def test_a_server_that_has_lost_its_data_is_filled_again(
    victim: MilvusServer, store: Datastore, tiny: TranslationModel
) -> None:
    expected = translations(tiny, store)
    victim.stop()
    shutil.rmtree(victim.data)
    victim.start()
    lost = Datastore.open(store.path, remote=RemoteUse(5.0))
    with pytest.raises(IndexServerError, match="nearmt reindex") as caught:
        translations(tiny, lost)
    assert caught.value.lost
    assert LOST in {finding.verdict for finding in verify(store.path)}
    assert translations(tiny, Datastore.open(store.path, nominate="torch")) == expected
    reindex(store.path)
    assert translations(tiny, Datastore.open(store.path, remote=PATIENT)) == expected
    assert not any(finding.damaged or finding.verdict == LOST for finding in verify(store.path))
