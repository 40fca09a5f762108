"""Changing a store without a model: the same as with one, only that pairs wait."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.datastore.disk import Manifest, stored_pairs
from nearmt.datastore.disk.ledger import Ledger
from nearmt.datastore.disk.pairs import blocks_of
from nearmt.errors import DatastoreError, InputError
from nearmt.models import TranslationModel
from tests.conftest import make_pairs
from tests.datastore.helpers import contents


@pytest.fixture
def path(tiny: TranslationModel, tmp_path: Path) -> Path:
    return Datastore.build(tmp_path / "store", make_pairs(6), tiny).path


def stored(path: Path) -> list[Pair]:
    return list(stored_pairs(path, Manifest.load(path)))


def test_a_ledger_does_what_a_datastore_does(path: Path, tiny: TranslationModel, tmp_path: Path) -> None:
    other = Path(shutil.copytree(path, tmp_path / "other"))
    first, second = stored(path)[:2]
    more = [*make_pairs(2, seed=1), *make_pairs(2, seed=1), Pair("a", "b", first.id), Pair(first.source, first.target)]
    with Ledger.changing(path) as ledger:
        assert ledger.add(more) == 6
        assert ledger.update(second.id, "the motor").source == second.source
        assert ledger.delete([first.id, first.id]) == 1
        assert (ledger.pairs, ledger.pending) == (10, 6)
    store = Datastore.open(other)
    assert store.add(more) == 6
    store.update(second.id, "the motor")
    assert store.delete([first.id, first.id]) == 1
    assert stored(path) == stored(other)
    assert [finding.name for finding in path.glob("log-*")] == [finding.name for finding in other.glob("log-*")]
    assert next(path.glob("log-*")).read_bytes() == next(other.glob("log-*")).read_bytes()
    for changed in (Datastore.open(path), store):
        assert changed.catch_up(tiny) == 6 and changed.pending == 0
        assert list(changed.pairs()) == stored(other)
    again = Ledger(path)
    assert (again.pairs, again.pending) == (10, 0)


def test_what_was_refused_changed_nothing(path: Path) -> None:
    with Ledger.changing(path) as ledger:
        ledger.add([Pair("a", "b", "x")])
    before = contents(path)
    with Ledger.changing(path) as ledger:
        with pytest.raises(DatastoreError, match="has no pair with the id 'nowhere'; nothing was changed"):
            ledger.delete(["x", "nowhere"])
        with pytest.raises(DatastoreError, match="has no pair with the id 'nowhere'; nothing was changed"):
            ledger.update("nowhere", "text")
        with pytest.raises(InputError, match="half a character"):
            ledger.add([Pair("c", "d"), Pair("\ud800", "d")])
        assert ledger.delete([]) == 0 and ledger.add([]) == 0
        assert ledger.pairs == 7
    assert contents(path) == before


def test_many_pairs_are_logged_in_blocks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearmt.datastore.disk.pairs.BLOCK", 4)
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        # Told only of what is on disk.
        seen.append((done, len(stored(path)) - 6))

    with Ledger.changing(path) as ledger:
        assert ledger.add(make_pairs(10, seed=2), progress) == 10
    assert seen == [(4, 4), (8, 8), (10, 10)]


def test_one_writer_at_a_time(path: Path) -> None:
    with (
        Ledger.changing(path),
        pytest.raises(DatastoreError, match="another process is writing to it"),
        Ledger.changing(path),
    ):
        pass
    with Ledger.changing(path) as ledger:
        ledger.add([Pair("a", "b")])
    with pytest.raises(DatastoreError, match="no such datastore"), Ledger.changing(path / "nowhere"):
        pass
    assert not (path / "nowhere").exists()


def test_an_open_store_sees_what_was_logged(path: Path, tiny: TranslationModel) -> None:
    store = Datastore.open(path)
    with Ledger.changing(path) as ledger:
        ledger.add([Pair("die pumpe", "the pump", "x")])
        ledger.delete([stored(path)[0].id])
    assert store.refresh() and store.pending == 1 and len(list(store.pairs())) == 5
    store.catch_up(tiny)
    assert [pair.id for pair in store.pairs()][-1] == "x"


def test_blocks_of_large_pairs_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearmt.datastore.disk.pairs._CHARACTERS", 10)
    pairs = [Pair("a" * size, "b", str(size)) for size in (3, 4, 9, 20, 1, 2)]
    assert [[pair.id for pair in block] for block in blocks_of(pairs)] == [["3", "4", "9"], ["20"], ["1", "2"]]
