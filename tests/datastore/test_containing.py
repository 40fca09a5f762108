"""Pairs found by any text in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.datastore.search import containing
from nearmt.models import TranslationModel

PAIRS = [
    Pair("Die Pumpe öffnen", "Open the pump", id="1"),
    Pair("Überdruck prüfen", 'Check the "excess" pressure', id="2"),
    Pair("Насос", "A pump\\valve", id="3"),
    Pair("das ventil", "the VALVE", id="source"),
]

Open = Callable[[bool], Datastore]


@pytest.fixture
def open_store(tiny: TranslationModel, tmp_path: Path) -> Open:
    def build(live: bool) -> Datastore:
        store = Datastore.build(tmp_path / "store", [] if live else PAIRS, tiny)
        if live:
            store.add(PAIRS, tiny)
        return store

    return build


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("pump", ["1", "3"]),
        ("PUMPE", ["1"]),
        ("überdruck", ["2"]),
        ("DRUCK  PRÜ", ["2"]),
        ("f überd", []),
        ("Ö", ["1"]),
        ("насос", ["3"]),
        ("НАСОС", ["3"]),
        ('"excess"', ["2"]),
        ("p\\v", ["3"]),
        ("valve", ["3", "source"]),
        ("source", []),
        ("target", []),
        ('", "target', []),
        ("ori", []),
        ("ö", ["1"]),
        ("", ["1", "2", "3", "source"]),
        ("\\", ["3"]),
        ("\n", ["1", "2", "3", "source"]),
    ],
)
def test_letter_case_does_not_count_and_ids_are_not_searched(
    open_store: Open, live: bool, text: str, ids: list[str]
) -> None:
    found = open_store(live).snapshot().pairs_containing(text, 0, 10)
    assert ([pair.id for pair in found.pairs], found.total, found.complete) == (ids, len(ids), True)


def test_deleted_pairs_are_not_found(open_store: Open) -> None:
    store = open_store(False)
    store.delete(["1"])
    assert [pair.id for pair in store.snapshot().pairs_containing("pump", 0, 10).pairs] == ["3"]


def test_some_of_the_pairs_are_returned_and_all_are_counted(open_store: Open) -> None:
    found = open_store(False).snapshot().pairs_containing("e", 1, 1)
    assert ([pair.id for pair in found.pairs], found.total) == (["2"], 4)


def test_pages_of_all_pairs_leave_out_deleted_ones(open_store: Open, tiny: TranslationModel) -> None:
    store = open_store(False)
    store.add([Pair("neu", "new", id="5")], tiny)
    store.delete(["2"])
    pages = [store.snapshot().pairs_containing("", offset, 2) for offset in (0, 2, 4)]
    assert [[pair.id for pair in page.pairs] for page in pages] == [["1", "3"], ["source", "5"], []]
    assert {page.total for page in pages} == {4}


def test_small_windows_find_the_same(open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containing, "_WINDOW", 10)
    found = open_store(False).snapshot().pairs_containing("pump", 0, 10)
    assert [pair.id for pair in found.pairs] == ["1", "3"]


def test_a_search_is_bounded(open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containing, "MOST_READ", 2)
    found = open_store(False).snapshot().pairs_containing("e", 0, 10)
    assert (found.total, found.complete) == (2, False)
