"""A pair that is replaced is found until the one that replaces it is, by everybody who reads the store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.datastore.disk.ledger import Ledger
from nearmt.datastore.edit.encode import encode_block
from nearmt.models import TranslationModel
from tests.conftest import make_pairs
from tests.datastore.editing_helpers import named

PAIRS = named(make_pairs(12, seed=31))
OLD = PAIRS[3]
NEW = replace(OLD, target="the new words")


@pytest.fixture
def store(tiny: TranslationModel, tmp_path: Path) -> Datastore:
    return Datastore.build(tmp_path / "store", PAIRS[:8], tiny)


def targets(store: Datastore) -> list[str]:
    return [pair.target for pair in store.pairs() if pair.id == OLD.id]


def found(path: Path) -> list[str]:
    """What another process finds."""
    return targets(Datastore.open(path))


@pytest.mark.parametrize("live", [False, True])
def test_while_an_update_is_encoded(
    live: bool, tiny: TranslationModel, store: Datastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers saw neither version."""
    if live:  # the old version is in the live segment, not in a sealed one
        store.update(OLD.id, "the words before", tiny)
    before = targets(store)
    reader, seen = Datastore.open(store.path), []

    def watched(model: TranslationModel, pairs: list[Pair], *others: Any) -> Iterator[Any]:
        for encoded in encode_block(model, pairs, *others):
            reader.refresh()
            seen.append((targets(reader), targets(store), found(store.path)))
            yield encoded

    monkeypatch.setattr("nearmt.datastore.edit.editor.encode_block", watched)
    store.update(OLD.id, NEW.target, tiny)
    assert seen == [(before, before, before)]
    reader.refresh()
    assert targets(reader) == targets(store) == found(store.path) == [NEW.target]


def test_what_is_logged_without_a_model_hides_nothing(tiny: TranslationModel, store: Datastore) -> None:
    store.update(OLD.id, "logged first")
    store.update(OLD.id, NEW.target)
    for handle in (store, Datastore.open(store.path)):
        assert targets(handle) == [OLD.target] and handle.pending == 1 and handle.total_pairs == 8
        assert handle.snapshot().exact(OLD.source) == OLD
    assert Ledger(store.path).find(OLD.id) == NEW and Ledger(store.path).pairs == 8
    store.catch_up(tiny)
    assert targets(store) == found(store.path) == [NEW.target]


@pytest.mark.parametrize("compact", [False, True])
def test_a_deleted_pair_is_gone_at_once(compact: bool, tiny: TranslationModel, store: Datastore) -> None:
    """Both versions, also when it comes again later."""
    store.update(OLD.id, NEW.target)
    if compact:
        store.compact()
        assert targets(store) == [OLD.target]
    store.delete([OLD.id])
    assert targets(store) == found(store.path) == []
    store.add([replace(OLD, target="again")])
    assert targets(store) == found(store.path) == [] and store.total_pairs == 8
    store.catch_up(tiny)
    assert targets(store) == found(store.path) == ["again"]


def test_the_latest_encoded_version_is_found(tiny: TranslationModel, store: Datastore) -> None:
    """Not an older one, though the log is replayed before what was computed from it."""
    store.update(OLD.id, "the second", tiny)
    store.update(OLD.id, "the third")
    assert targets(store) == found(store.path) == ["the second"]
    store.add([Pair("neu", "new", "fresh")], tiny)  # encodes the third as well
    store.update("fresh", "newer")
    other = Datastore.open(store.path)
    assert [pair.target for pair in other.pairs() if pair.id == "fresh"] == ["new"]
    assert targets(store) == found(store.path) == ["the third"]


def test_merging_keeps_what_is_found(tiny: TranslationModel, store: Datastore) -> None:
    store.add(PAIRS[8:], tiny)
    store.update(OLD.id, NEW.target)
    store.update(PAIRS[9].id, "also new")
    before = list(store.pairs())
    store.compact()
    assert list(store.pairs()) == list(Datastore.open(store.path, verify=True).pairs()) == before
    assert store.pending == 2 and store.total_pairs == len(PAIRS)
    store.catch_up(tiny)
    changed = [pair for pair in PAIRS if pair.id not in (OLD.id, PAIRS[9].id)]
    assert list(store.pairs()) == [*changed, NEW, replace(PAIRS[9], target="also new")]


def test_a_pair_without_entries_is_seen_until_its_successor_is(tiny: TranslationModel, store: Datastore) -> None:
    """One that is longer than the model's positions is kept as text."""
    long = replace(OLD, id="long", target=" ".join(["welle"] * 100))
    store.add([long], tiny)
    store.update("long", "short now")
    for handle in (store, Datastore.open(store.path)):
        assert [pair.target for pair in handle.pairs() if pair.id == "long"] == [long.target]
    store.catch_up(tiny)
    assert [pair.target for pair in store.pairs() if pair.id == "long"] == ["short now"]
