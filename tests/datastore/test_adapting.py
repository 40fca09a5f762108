"""Datastores of a model with an adapter: their files, additions, upkeep, and what is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from nearmt.contracts import Pair
from nearmt.datastore import BuildConfig, Datastore, JoinedStore, rebuild, reindex
from nearmt.datastore.disk import Manifest
from nearmt.datastore.disk.files import json_text
from nearmt.datastore.disk.ids import digest_of
from nearmt.datastore.disk.manifest import FILE_NAME, sealed
from nearmt.datastore.edit.adapting import read_adapter
from nearmt.datastore.search import calibrate
from nearmt.datastore.upkeep.description import describe
from nearmt.datastore.upkeep.repair import repair
from nearmt.datastore.upkeep.verify import verify
from nearmt.errors import DatastoreError
from nearmt.models import TranslationModel
from nearmt.translator import Translator
from tests.adapting import random_adapter
from tests.conftest import make_pairs
from tests.datastore.editing_helpers import named
from tests.datastore.helpers import assert_no_strays, contents
from tests.datastore.mutations import refit

PAIRS = named(make_pairs(24, seed=40))
TEXTS = [pair.source for pair in make_pairs(6, seed=41)]


@pytest.fixture(scope="module")
def adapted(tiny: TranslationModel) -> TranslationModel:
    return tiny.adapted(random_adapter(tiny, pairs=PAIRS))


@pytest.fixture
def store(adapted: TranslationModel, tmp_path: Path) -> Datastore:
    return Datastore.build(tmp_path / "store", PAIRS, adapted)


def newer(path: Path) -> int:
    found: int = describe(path, Manifest.load(path))["pairs_newer_than_adapter"]
    return found


def texts(store: Datastore, model: TranslationModel) -> list[str]:
    return [found.text for found in Translator(model, store, "knn").translate(TEXTS)]


def test_the_adapter_is_a_file_that_the_manifest_names(adapted: TranslationModel, store: Datastore) -> None:
    record, adapter = store.manifest.adapter, store.adapter
    assert record is not None and adapter is not None and adapted.adapter is not None
    assert adapter.fingerprint == adapted.fingerprint == store.manifest.fingerprint == record.fingerprint
    assert record.file.bytes == (store.path / record.name).stat().st_size
    assert (record.trained, record.held_out, record.known, record.loss) == (16, 8, 24, 2.0)
    assert record.name in {finding.file for finding in verify(store.path) if finding.verdict == "sound"}
    assert_no_strays(store.path)
    with safe_open(store.path / record.name, "pt") as file:
        assert json.loads(file.metadata()["adapter"])["base"] == record.base


def test_a_translator_of_names_merges_it(tiny: TranslationModel, adapted: TranslationModel, store: Datastore) -> None:
    translator = Translator(tiny.config, str(store.path), "knn")
    assert translator.model.fingerprint == adapted.fingerprint
    assert [found.text for found in translator.translate(TEXTS)] == texts(store, adapted)


def test_models_without_the_adapter_are_refused(tiny: TranslationModel, store: Datastore, tmp_path: Path) -> None:
    with pytest.raises(DatastoreError, match=r"built with an adapter of model .* which is not merged into this one"):
        Translator(tiny, store)
    other = tiny.adapted(random_adapter(tiny, seed=1))
    with pytest.raises(DatastoreError, match=r"built with model .*\+.* not with .*\+"):
        Translator(other, store)
    plain = Datastore.build(tmp_path / "plain", PAIRS, tiny)
    with pytest.raises(DatastoreError, match="not with"):
        Translator(other, plain)


def test_memories_with_different_adapters_are_not_searched_together(
    tiny: TranslationModel, store: Datastore, tmp_path: Path
) -> None:
    plain = Datastore.build(tmp_path / "plain", PAIRS, tiny)
    other = Datastore.build(tmp_path / "other", PAIRS, tiny.adapted(random_adapter(tiny, seed=1)))
    for second in (plain, other):
        with pytest.raises(DatastoreError, match="their models have different adapters") as error:
            JoinedStore([store, second])
        assert "\n" not in str(error.value)
    assert JoinedStore([store, Datastore.open(store.path)]).adapter is not None


def test_additions_are_counted_as_newer(adapted: TranslationModel, store: Datastore) -> None:
    assert newer(store.path) == 0
    store.add(named(make_pairs(5, seed=42), "new"), adapted)
    store.add([Pair("motor prüfen", "check the motor", id="waiting")])
    store.update(PAIRS[3].id, "changed", adapted)
    assert newer(store.path) == 7
    store.delete([PAIRS[0].id, PAIRS[5].id, next(pair.id for pair in store.pairs() if pair.id.startswith("new"))])
    assert newer(store.path) == 6
    store.compact(adapted)
    assert newer(store.path) == 6 and store.manifest.pairs == 24 - 2 + 5 - 1 + 1
    rebuild(store.path, adapted, BuildConfig())
    assert newer(store.path) == 6
    assert_no_strays(store.path)


def test_segments_that_are_merged_keep_the_count(
    adapted: TranslationModel, store: Datastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearmt.datastore.edit.editor.LIVE_ENTRIES", 1)
    store.delete([PAIRS[1].id])
    for number in range(4):
        store.add(named(make_pairs(3, seed=50 + number), f"n{number}"), adapted)
        assert newer(store.path) == 3 * (number + 1)


def test_encoding_with_another_model_takes_the_adapter_out(
    tiny: TranslationModel, adapted: TranslationModel, store: Datastore, tmp_path: Path
) -> None:
    rebuild(store.path, tiny, BuildConfig(keep_replaced=0))
    plain = Datastore.build(tmp_path / "plain", PAIRS, tiny)
    assert Manifest.load(store.path).adapter is None and "adapter" not in describe(
        store.path, Manifest.load(store.path)
    )
    assert texts(Datastore.open(store.path), tiny) == texts(plain, tiny)


def test_reindexing_and_compacting_keep_it(adapted: TranslationModel, store: Datastore) -> None:
    before = store.manifest.adapter
    reindex(store.path, "IVF2,SQ8")
    assert Manifest.load(store.path).adapter == before
    Datastore.open(store.path).compact()
    assert Manifest.load(store.path).adapter == before
    assert Datastore.open(store.path).adapter is not None


def test_an_interrupted_encoding_leaves_the_old_store_and_is_continued(
    tiny: TranslationModel, adapted: TranslationModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Datastore.build(tmp_path / "store", PAIRS, tiny)
    before, found = contents(store.path), texts(store, tiny)
    monkeypatch.setattr("nearmt.datastore.disk.pairs.BLOCK", 6)

    def interrupt(done: int, of: int) -> None:
        if done > 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rebuild(store.path, adapted, BuildConfig(), interrupt)
    assert contents(store.path) == before | {
        name: data for name, data in contents(store.path).items() if name == ".lock"
    }
    assert texts(Datastore.open(store.path), tiny) == found
    encoded: list[int] = []
    rebuild(store.path, adapted, BuildConfig(), lambda done, of: encoded.append(done))
    assert encoded[0] > 6  # what was written stays
    whole = Datastore.build(tmp_path / "whole", PAIRS, adapted)
    assert texts(Datastore.open(store.path), adapted) == texts(whole, adapted)


# Calibration.


def test_the_likely_weight_is_that_of_held_out_pairs(
    tiny: TranslationModel, adapted: TranslationModel, store: Datastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model knows the others by heart, and would leave neighbours nothing to do."""
    numbers = calibrate._new_to(adapted, store.snapshot())
    assert [store.snapshot().pair(number).id for number in numbers] == [pair.id for pair in PAIRS[::3]]
    assert calibrate._new_to(tiny, store.snapshot()) == list(range(24))
    monkeypatch.setattr(calibrate, "_FEWEST_PAIRS", 8)
    seen: list[int] = []
    real = calibrate._knn_probabilities

    def spied(store: Any, number: int, *others: Any) -> Any:
        seen.append(number)
        return real(store, number, *others)

    monkeypatch.setattr(calibrate, "_knn_probabilities", spied)
    assert calibrate.likely_settings(adapted, store.snapshot(), 1.0)["likely_weight"] is not None
    assert sorted(seen) == numbers
    assert adapted.adapter is not None
    assert {digest_of(store.snapshot().pair(number).id) for number in seen} == adapted.adapter.held_out


# Files from others.


def manifest_with(path: Path, changes: dict[str, Any], **others: Any) -> None:
    """Alter the adapter's record, with a checksum that fits."""
    file = path / FILE_NAME
    raw = json.loads(file.read_text(encoding="utf-8"))
    del raw["checksum"]
    raw["adapter"] |= changes
    file.write_text(json_text(sealed(raw | others)), encoding="utf-8")


@pytest.mark.parametrize(
    "changes",
    [
        {"identity": "../../etc/passwd"},
        {"identity": "0" * 16},
        {"base": 5},
        {"rank": 0},
        {"known": -1},
        {"loss": None},
        {"trained": 1.5},
        {"file": {"bytes": -1, "sha256": "x"}},
        {"file": 3},
        {"new": 3},
    ],
)
def test_altered_records_are_refused(store: Datastore, changes: dict[str, Any]) -> None:
    manifest_with(store.path, changes)
    with pytest.raises(DatastoreError, match=r"manifest\.json: damaged") as error:
        Manifest.load(store.path)
    assert "\n" not in str(error.value)


def test_names_that_lead_elsewhere_are_refused(store: Datastore) -> None:
    record = store.manifest.adapter
    assert record is not None
    name = f"../{record.identity}"
    manifest_with(store.path, {"identity": name}, fingerprint=f"{record.base}+{name}")
    with pytest.raises(DatastoreError, match="is no name of a datastore's file"):
        Manifest.load(store.path)


def test_altered_files_are_refused_in_one_line(tiny: TranslationModel, store: Datastore) -> None:
    record = store.manifest.adapter
    assert record is not None
    path = store.path / record.name
    content = path.read_bytes()

    def refused(match: str) -> None:
        with pytest.raises(DatastoreError, match=match) as error:
            Translator(tiny.config, str(store.path))
        assert "\n" not in str(error.value)

    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    refused("altered")
    path.write_bytes(content[:-9])
    refused("bytes instead of")
    path.unlink()
    refused("missing")
    path.symlink_to("/etc/passwd")
    refused("a link, or no ordinary file")


def test_files_with_fitting_checksums_are_checked_too(tiny: TranslationModel, store: Datastore) -> None:
    record = store.manifest.adapter
    assert record is not None and store.adapter is not None
    path = store.path / record.name
    another = dataclasses.replace(store.adapter, scale=1.0)
    for content in (b"no adapter", None):
        if content is None:
            another.save(path)
        else:
            path.write_bytes(content)
        refit(store.path)
        manifest = Manifest.load(store.path)
        with pytest.raises(DatastoreError, match=r"not a readable adapter|altered"):
            read_adapter(store.path, manifest)


# Repair.


@pytest.mark.parametrize("lost", ["key", "adapter", "manifest"])
def test_repair_encodes_with_the_adapter_if_that_is_left(
    tiny: TranslationModel, adapted: TranslationModel, store: Datastore, lost: str
) -> None:
    before, record = texts(store, adapted), store.manifest.adapter
    assert record is not None
    names = {"key": "segment-000001/key.f16", "adapter": record.name, "manifest": FILE_NAME}
    content = (store.path / names[lost]).read_bytes()
    damaged = (
        content.replace(b'"precision": "fp32"', b'"precision": "fp33"')
        if lost == "manifest"
        else content[:-3] + b"\xff\xff\xff"
    )
    (store.path / names[lost]).write_bytes(damaged)
    done = repair(store.path, verify(store.path), lambda settings: tiny)
    assert done.pairs == len(PAIRS) and not any(finding.damaged for finding in verify(store.path))
    again = Datastore.open(store.path)
    if lost == "adapter":
        assert again.manifest.adapter is None and again.manifest.fingerprint == tiny.fingerprint
        assert f"{record.name}: is lost: all pairs are encoded again with the model alone" in done.report
    else:
        assert again.manifest.fingerprint == adapted.fingerprint
        assert texts(again, adapted) == before
