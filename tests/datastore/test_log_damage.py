"""Damage to the log is an error for everything that reads it, and reading destroys nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.datastore.disk import Manifest, stored_pairs
from nearmt.datastore.disk.ledger import Ledger
from nearmt.datastore.disk.log import Log, read_log
from nearmt.datastore.disk.records import read_records
from nearmt.datastore.upkeep.repair import repair
from nearmt.datastore.upkeep.verify import DAMAGED, verify
from nearmt.errors import DamagedError, DatastoreError
from nearmt.models import TranslationModel
from nearmt.translator import Translator
from tests.conftest import make_pairs
from tests.datastore.damage import altered
from tests.datastore.editing_helpers import named
from tests.datastore.helpers import contents

PAIRS = named(make_pairs(40, seed=21))


@pytest.fixture
def store(tiny: TranslationModel, tmp_path: Path) -> Datastore:
    return Datastore.build(tmp_path / "store", PAIRS[:6], tiny)


def log_of(store: Datastore) -> Path:
    return store.path / str(Manifest.load(store.path).log)


def append(path: Path, model: TranslationModel) -> None:
    with Ledger.changing(path) as ledger:
        ledger.add([Pair("a", "b", "x")])


USES: list[Callable[[Path, TranslationModel], object]] = [
    lambda path, model: Translator(model, Datastore.open(path)).translate("die pumpe"),
    lambda path, model: Datastore.open(path),
    lambda path, model: Ledger(path),
    lambda path, model: list(stored_pairs(path, Manifest.load(path))),
    append,
]


def assert_refused(path: Path, model: TranslationModel, *words: str) -> None:
    """Whatever is done with the store says what is wrong, and changes nothing."""
    before = contents(path)
    for use in USES:
        with pytest.raises(DamagedError) as caught:
            use(path, model)
        message = str(caught.value)
        assert "\n" not in message and "verify --repair" in message
        assert all(word in message for word in words), message
    assert contents(path) == before
    name = str(Manifest.load(path).log)
    assert {finding.file: finding.verdict for finding in verify(path)}[name] == DAMAGED


def test_one_flipped_bit_in_a_large_append(tiny: TranslationModel, store: Datastore) -> None:
    """All of it was taken for an append that had not finished, and the next addition cut it off."""
    store.add(PAIRS[6:36])
    log = log_of(store)
    altered(log, log.read_bytes().index(PAIRS[6].target.encode()))
    assert_refused(store.path, tiny, log.name, "damaged", f"lost: {PAIRS[6].id}")
    done = repair(store.path, verify(store.path), lambda settings: tiny)
    assert done.lost == [PAIRS[6].id] and any(PAIRS[6].id in line for line in done.report)
    again = Datastore.open(store.path)
    again.catch_up(tiny)
    assert list(again.pairs()) == [*PAIRS[:6], *PAIRS[7:36]]


@pytest.mark.parametrize("offset", [0, 3, 5, -1])
def test_a_flip_in_the_last_record_is_damage_too(offset: int, tiny: TranslationModel, store: Datastore) -> None:
    store.add(PAIRS[6:8])
    log = log_of(store)
    before = read_records(log, durable=True).ends[0]
    altered(log, before + offset if offset >= 0 else log.stat().st_size - 1)
    assert_refused(store.path, tiny, log.name)


def test_a_damaged_deletion_brings_no_pair_back(tiny: TranslationModel, store: Datastore) -> None:
    store.add(PAIRS[6:9], tiny)
    store.delete([PAIRS[2].id, PAIRS[7].id])
    store.add(PAIRS[9:11], tiny)
    expected = list(store.pairs())
    log = log_of(store)
    data = log.read_bytes()
    altered(log, data.index(b'"op":"delete"') - 4)  # in its checksum
    assert_refused(store.path, tiny)
    done = repair(store.path, verify(store.path), lambda settings: tiny)
    again = Datastore.open(store.path)
    again.catch_up(tiny)
    assert list(again.pairs()) == expected
    assert any("operations are left" in line for line in done.report)


def test_a_change_that_is_lost_leaves_the_pair_as_it_was(tiny: TranslationModel, store: Datastore) -> None:
    store.update(PAIRS[3].id, "the new words", tiny)
    store.add(PAIRS[6:8], tiny)
    log = log_of(store)
    altered(log, log.read_bytes().index(b"the new words"))
    done = repair(store.path, verify(store.path), lambda settings: tiny)
    assert done.lost == [PAIRS[3].id]
    again = Datastore.open(store.path)
    again.catch_up(tiny)
    assert list(again.pairs()) == PAIRS[:8]


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_a_log_that_was_cut_short(missing: int, tiny: TranslationModel, store: Datastore) -> None:
    """Between two records: nothing in it is wrong, but more was computed from it."""
    for pair in PAIRS[6:10]:
        store.add([pair], tiny)
    log = log_of(store)
    ends = read_records(log, durable=True).ends
    log.write_bytes(log.read_bytes()[: ends[-1 - missing]])
    assert_refused(store.path, tiny, log.name, f"{missing} of its additions are lost")


def test_a_log_that_was_cut_within_a_record(tiny: TranslationModel, store: Datastore) -> None:
    store.add(PAIRS[6:8])
    log = log_of(store)
    log.write_bytes(log.read_bytes()[:-5])
    assert_refused(store.path, tiny, log.name, f"lost: {PAIRS[7].id}")


def test_a_reader_of_a_store_that_is_written_to_sees_no_damage(tiny: TranslationModel, store: Datastore) -> None:
    """What is computed from the log is read before the log, which then has at least as much."""
    reader = Datastore.open(store.path)
    for pair in PAIRS[6:20]:
        store.add([pair], tiny)
        assert reader.refresh() and list(reader.pairs()) == list(store.pairs())
        assert not any(finding.damaged for finding in verify(store.path))


def test_a_torn_append_is_no_damage(tiny: TranslationModel, store: Datastore, tmp_path: Path) -> None:
    """However much of it arrived before its commit."""
    store.add(PAIRS[6:8], tiny)
    log = log_of(store)
    acknowledged = log.read_bytes()
    with Log(log) as writer:
        writer.append(read_log(log).operations)
    whole = log.read_bytes()
    for size in range(len(acknowledged) + 4, len(whole), 7):
        copy = Path(shutil.copytree(store.path, tmp_path / "copy"))
        (copy / log.name).write_bytes(acknowledged + bytes(4) + whole[len(acknowledged) + 4 : size])
        assert list(Datastore.open(copy).pairs()) == PAIRS[:8]
        assert not any(finding.damaged for finding in verify(copy))
        with pytest.warns(UserWarning, match="bytes were cut off"):
            Datastore.open(copy).add([replace(PAIRS[8], id="next")], tiny)
        assert len(list(Datastore.open(copy).pairs())) == 9
        shutil.rmtree(copy)


def test_damage_to_the_log_is_a_datastore_error() -> None:
    assert issubclass(DamagedError, DatastoreError)
