"""Pairs that resemble a text, and how they differ."""

from __future__ import annotations

import pytest

from nearmt.contracts import Pair
from nearmt.corpus import Unit
from nearmt.datastore import Datastore, Snapshot
from nearmt.models import TranslationModel
from nearmt.serve.matching import PairFinder, differences, matches_of
from nearmt.serve.values import Difference


@pytest.mark.parametrize(
    ("stored", "text", "expected"),
    [
        ("Open the pump now", "Open the valve now", [Difference(9, 13, "valve")]),
        ("Open pump", "Open the pump", [Difference(5, 5, "the")]),
        ("Open the pump", "Open pump", [Difference(5, 8, "")]),
        ("Open", "Open it.", [Difference(4, 4, "it.")]),
        ("same", "same", []),
        ("a b c", "x b y", [Difference(0, 1, "x"), Difference(4, 5, "y")]),
        ("a " * 2000, "b", []),
    ],
)
def test_differing_words_are_marked(stored: str, text: str, expected: list[Difference]) -> None:
    assert list(differences(stored, text)) == expected


@pytest.fixture(scope="module")
def snapshots(tiny: TranslationModel, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Snapshot]:
    folder = tmp_path_factory.mktemp("memories")
    first = [Pair("die pumpe öffnen .", "open the pump .", "1"), Pair("der motor .", "the motor .", "2")]
    second = [
        Pair("die pumpe öffnen .", "start the pump .", "1", metadata={"context": "menu"}),
        Pair("die pumpe prüfen .", "check the pump .", "3"),
    ]
    stores = {name: Datastore.build(folder / name, pairs, tiny) for name, pairs in (("a", first), ("b", second))}
    return {name: store.snapshot() for name, store in stores.items()}


def test_matches_of_several_memories_come_best_first(snapshots: dict[str, Snapshot]) -> None:
    found = matches_of("die pumpe öffnen .", snapshots, 3, 0.5)
    assert [(match.memory, match.id, match.score == 1.0) for match in found] == [
        ("a", "1", True),
        ("b", "1", True),
        ("b", "3", False),
    ]
    (difference,) = found[2].differences
    assert found[2].source[difference.start : difference.end] == "prüfen"
    assert difference.text == "öffnen"


def test_a_context_match_comes_first(snapshots: dict[str, Snapshot]) -> None:
    found = matches_of(Unit(("die pumpe öffnen .",), context="menu"), snapshots, 2, 0.5)
    assert [(match.memory, match.context) for match in found] == [("b", True), ("a", False)]


@pytest.mark.parametrize("text", ["", "  ", "\x00"])
def test_nothing_resembles_nothing(snapshots: dict[str, Snapshot], text: str) -> None:
    assert matches_of(text, snapshots, 3, 0.0) == ()


def test_the_last_memory_with_an_id_wins(snapshots: dict[str, Snapshot]) -> None:
    finder = PairFinder(snapshots)
    found = finder.find("1")
    assert found is not None
    assert (found[0], found[1].target) == ("b", "start the pump .")
    assert finder.find("none") is None
