"""Appending changes to the log, and replaying it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.datastore.disk import Manifest
from nearmt.datastore.disk.ids import with_ids
from nearmt.datastore.disk.ledger import Ledger
from nearmt.datastore.disk.log import Added, Deleted
from nearmt.datastore.disk.replay import remaining_pairs, replayed
from nearmt.models import TranslationModel
from tests.conftest import make_pairs
from tests.datastore.helpers import contents


@pytest.fixture
def path(tiny: TranslationModel, tmp_path: Path) -> Path:
    return Datastore.build(tmp_path / "store", make_pairs(6), tiny).path


@pytest.mark.parametrize("with_model", [False, True])
def test_adding_what_is_there_changes_nothing(with_model: bool, path: Path, tiny: TranslationModel) -> None:
    """Pairs get the same ids each time a file is read, so an interrupted import can simply be repeated."""
    more = [*make_pairs(4, seed=5), *make_pairs(4, seed=5), Pair("a", "b", "x")]
    store, model = Datastore.open(path), tiny if with_model else None
    assert store.add(with_ids(more[:5]), model) == 5
    assert store.add(with_ids(more), model, skip_unchanged=True) == 4
    before, identity = contents(path), store.snapshot().identity
    assert store.add(with_ids(more), model, skip_unchanged=True) == 0
    with Ledger.changing(path) as ledger:
        assert ledger.add(with_ids(more), skip_unchanged=True) == 0
    assert contents(path) == before and store.snapshot().identity == identity
    assert store.total_pairs == 15


def test_a_pair_that_is_changed_back_is_not_skipped(path: Path) -> None:
    old, new = Pair("a", "b", "x"), Pair("a", "c", "x")
    with Ledger.changing(path) as ledger:
        ledger.add([old])
        assert ledger.add([old, new, new, old, old], skip_unchanged=True) == 2
        assert ledger.find("x") == old
        assert ledger.add([new], skip_unchanged=True) == 1
    assert Ledger(path).find("x") == new


def test_what_operations_leave_behind() -> None:
    first, second, third = Pair("a", "b", "1"), Pair("c", "d", "2"), Pair("a", "e", "1")
    assert remaining_pairs([]) == ([], set())
    assert remaining_pairs([Added(first), Added(second), Added(third)]) == ([second, third], {"1", "2"})
    assert remaining_pairs([Added(first), Deleted(("1", "3")), Added(second)]) == ([second], {"1", "2", "3"})


def test_a_log_is_followed_from_one_reading_to_the_next(path: Path, tiny: TranslationModel) -> None:
    with Ledger.changing(path) as ledger:
        ledger.add([Pair("a", "b", "x")])
    reader = replayed(path, Manifest.load(path))
    assert reader.content.find("x") == Pair("a", "b", "x") and reader.follow() == []
    store = Datastore.open(path)
    store.catch_up(tiny)
    store.add([Pair("c", "d", "y")], tiny)
    assert reader.follow() == [Added(Pair("c", "d", "y"))]
    assert reader.content.encoded == 2 and reader.content.pending() == []
    assert list(reader.content.pairs()) == list(store.pairs())
