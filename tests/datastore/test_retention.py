"""Replaced files stay for a while, because processes on other machines may still read them."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nearmt.contracts import Pair
from nearmt.datastore import BuildConfig, Datastore
from nearmt.datastore.disk import Manifest, Segment, retention
from nearmt.datastore.disk.array_checks import Damage
from nearmt.datastore.disk.manifest import FILE_NAME
from nearmt.datastore.upkeep.description import describe, kept_bytes
from nearmt.datastore.upkeep.reindex import rebuild, reindex
from nearmt.datastore.upkeep.repair import repair
from nearmt.datastore.upkeep.verify import verify
from nearmt.decoding import BeamConfig
from nearmt.errors import DatastoreError, NearmtWarning
from nearmt.models import ModelConfig, TranslationModel, load_model
from nearmt.translator import Translator
from tests.conftest import make_pairs
from tests.datastore.disk.test_manifest import edited
from tests.datastore.following import become_ordinary
from tests.datastore.helpers import assert_no_strays, contents
from tests.tiny import tiny_marian_folder

PAIRS = make_pairs(12)
SECRET = Pair("welle geheimnisvoll", "shaft mysterious", "secret")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the time that has passed."""
    start, passed = time.time(), [0.0]
    monkeypatch.setattr(time, "time", lambda: start + passed[0])
    return lambda seconds: passed.__setitem__(0, seconds)


@pytest.fixture
def store(tiny: TranslationModel, tmp_path: Path) -> Datastore:
    return Datastore.build(tmp_path / "store", [*PAIRS, SECRET], tiny)


def present(path: Path) -> bool:
    return b"geheimnisvoll" in b"".join(contents(path).values())


CHANGES: dict[str, Callable[[Datastore, TranslationModel], object]] = {
    "compact": lambda store, model: store.compact(model),
    "rebuild": lambda store, model: rebuild(store.path, model, BuildConfig(keep_replaced=0)),
    "overwrite": lambda store, model: Datastore.build(store.path, list(store.pairs()), model, overwrite=True),
}


@pytest.mark.parametrize("name", CHANGES)
def test_replaced_files_stay_and_go(
    name: str, tiny: TranslationModel, store: Datastore, clock: Callable[[float], None]
) -> None:
    store.delete(["secret"])
    before = contents(store.path)
    CHANGES[name](store, tiny)
    kept = Manifest.load(store.path).replaced
    assert "segment-000001" in kept and "log-000001.log" in kept and present(store.path)
    assert all(contents(store.path)[file] == data for file, data in before.items() if file != FILE_NAME)
    clock(3599)
    store.refresh()
    store.add(make_pairs(1, seed=2), tiny)
    assert "segment-000001" in Manifest.load(store.path).replaced and present(store.path)
    clock(3601)
    reindex(store.path)
    assert "segment-000001" not in Manifest.load(store.path).replaced and not present(store.path)
    assert_no_strays(store.path)


def test_a_time_of_another_clock_keeps_nothing_for_ever() -> None:
    future = time.time() + 10**6
    kept = retention.still_kept({"log-000001.log": future}, set(), set(), 3600)
    assert kept["log-000001.log"] <= time.time()


def test_how_long_is_part_of_the_store(tiny: TranslationModel, tmp_path: Path) -> None:
    store = Datastore.build(tmp_path / "store", PAIRS, tiny, BuildConfig(keep_replaced=7))
    store.compact(tiny)
    assert Manifest.load(store.path).keep_replaced == 7 and kept_bytes(store.path, store.manifest) > 0
    store.compact(tiny, keep_replaced=0)
    assert Manifest.load(store.path).keep_replaced == 0 and Manifest.load(store.path).replaced == {}
    assert [path.name for path in store.path.glob("segment-*")] == [store.manifest.segments[0].name]


def test_verify_knows_files_that_are_kept(tiny: TranslationModel, store: Datastore) -> None:
    store.compact(tiny)
    verdicts = {finding.file: finding.verdict for finding in verify(store.path)}
    assert verdicts["segment-000001/key.f16"] == "replaced" and verdicts["segment-000002/key.f16"] == "sound"


def test_a_lost_manifest_brings_no_replaced_pair_back(tiny: TranslationModel, store: Datastore) -> None:
    store.delete(["secret"])
    store.compact(tiny)
    assert present(store.path)
    (store.path / FILE_NAME).write_text("{", encoding="utf-8")
    repair(store.path, verify(store.path), lambda settings: tiny)
    assert list(Datastore.open(store.path).pairs()) == list(store.pairs())


@pytest.mark.parametrize("name", ["../elsewhere", "notes.txt", "segment-000001/../../x", "segment-000001/notes.txt"])
def test_other_names_are_refused(name: str, store: Datastore) -> None:
    edited(store.path, replaced={name: 0.0})
    with pytest.raises(DatastoreError, match="damaged"):
        Manifest.load(store.path)


# Readers.


def test_who_keeps_on_reading_follows_in_time(
    tiny: TranslationModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quarter of the time that replaced files stay, a snapshot is renewed without being asked."""
    store = Datastore.build(tmp_path / "store", PAIRS, tiny, BuildConfig(keep_replaced=400))
    start, passed = time.monotonic(), [0.0]
    monkeypatch.setattr("nearmt.datastore.edit.open_store.time.monotonic", lambda: start + passed[0])
    reader = Datastore.open(store.path)
    before = reader.snapshot()
    store.compact(tiny)
    passed[0] = 99
    assert reader.snapshot() is before
    passed[0] = 101
    assert reader.snapshot() is not before
    assert [segment.record.name for segment in reader.snapshot().segments] == ["segment-000002"]


def test_a_store_of_another_model_ends_a_long_reading(
    tiny: TranslationModel, store: Datastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    other = load_model(ModelConfig(model=str(tiny_marian_folder(tmp_path / "model", seed=5)), device="cpu"))
    reader = Datastore.open(store.path)
    translator = Translator(tiny, reader, "knn", beam=BeamConfig(max_new_tokens=4))
    rebuild(store.path, other, BuildConfig())
    monkeypatch.setattr(reader._store, "_renew_at", 0.0)
    with pytest.raises(DatastoreError, match="encoded again with another model"):
        reader.snapshot()
    with pytest.raises(DatastoreError, match="built with model"):
        translator.translate("welle")


def test_unchanged_segments_are_not_read_again(
    tiny: TranslationModel, store: Datastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add(make_pairs(3, seed=4), tiny)
    reader = Datastore.open(store.path)
    key_ND = reader.snapshot().segments[0].key_ND
    mapped: list[str] = []

    def damage(segment: Segment) -> Iterator[Damage]:
        mapped.append(segment.record.name)
        yield from ()

    monkeypatch.setattr(Segment, "damage", damage)
    monkeypatch.setattr("nearmt.datastore.edit.editor.LIVE_ENTRIES", 1)
    store.delete([next(store.pairs()).id])
    store.add(make_pairs(1, seed=5), tiny)
    mapped.clear()
    assert reader.refresh() and mapped == ["segment-000002"]
    assert reader.snapshot().segments[0].key_ND is key_ND and list(reader.pairs()) == list(store.pairs())


def in_another_process(work: Callable[[], None]) -> None:
    """Run something as an ordinary user, if this one may become one."""
    child = os.fork()
    if not child:
        code = 1
        try:
            if os.getuid() == 0:
                become_ordinary()
            work()
            code = 0
        finally:
            if code:
                traceback.print_exc()
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


@pytest.fixture
def read_only(tiny: TranslationModel) -> Iterator[Datastore]:
    """A store with a log and a pending pair, in a folder where an ordinary user may only read."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        store = Datastore.build(Path(folder) / "store", PAIRS, tiny)
        store.add(make_pairs(2, seed=3), tiny)
        store.add([Pair("motor", "engine", "pending")])
        for path in [store.path, *store.path.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        yield store
        for path in [store.path, *store.path.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)


def test_a_reader_needs_no_write_permission(tiny: TranslationModel, read_only: Datastore) -> None:
    before = contents(read_only.path)

    def work() -> None:
        assert not os.access(read_only.path, os.W_OK)
        store = Datastore.open(read_only.path, verify=True)
        assert [pair.id for pair in store.pairs()] == [pair.id for pair in read_only.pairs()]
        assert not any(finding.damaged for finding in verify(read_only.path))
        assert describe(read_only.path, store.manifest)["pending_pairs"] == 1
        with pytest.warns(NearmtWarning, match="1 logged pairs are not used yet: .*cannot be written"):
            translator = Translator(tiny, store, "knn", beam=BeamConfig(max_new_tokens=4))
        translator.translate(PAIRS[0].source)
        with pytest.raises(Exception, match="cannot be written"):
            store.add(PAIRS[:1], tiny)

    in_another_process(work)
    assert contents(read_only.path) == before


# Locks.


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks_is_named(
    number: int, tiny: TranslationModel, store: Datastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(handle: int, how: int) -> None:
        raise OSError(number, os.strerror(number))

    before = contents(store.path)
    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(DatastoreError, match=r"its file system gives no locks .*nothing was changed; mount it"):
        store.add(PAIRS[:1], tiny)
    assert {**contents(store.path), ".lock": b""} == {**before, ".lock": b""}
    assert Datastore.open(store.path).snapshot().pair_count == len(PAIRS) + 1


@pytest.mark.parametrize("options", ["rw,vers=3,nolock", "rw,vers=3,local_lock=all", "rw,vers=4.2,local_lock=none"])
def test_locks_that_other_machines_do_not_see(
    options: str, tiny: TranslationModel, store: Datastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = (store.path / FILE_NAME).stat().st_dev
    mounted = f"36 35 {os.major(device)}:{os.minor(device)} / /data rw,noatime shared:1 - nfs server:/data {options}\n"
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"21 1 0:19 / /proc rw - proc proc rw\n{mounted}", encoding="utf-8")
    monkeypatch.setattr("nearmt.datastore.disk.mounts._MOUNTS", mounts)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        store.add(PAIRS[:1], tiny)
    told = [str(warning.message) for warning in caught if issubclass(warning.category, NearmtWarning)]
    assert any("mounted without locks between machines" in line for line in told) == ("none" not in options)
