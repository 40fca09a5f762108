"""Exact matches by context: the same context, else the latest, marked for a review."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearmt.contracts import Pair
from nearmt.corpus import Unit
from nearmt.datastore import Datastore
from nearmt.datastore.search.contexts import ELSEWHERE, SEVERAL, ExactMatch
from nearmt.datastore.search.matches import SegmentSources, SourceLookup
from nearmt.models import TranslationModel
from tests.datastore.helpers import in_memory


def pair(number: int, target: str, source: str = "Start", **metadata: str) -> Pair:
    return Pair(source, target, id=str(number), metadata=metadata)


def match(pairs: list[Pair], source: str = "Start", **place: str) -> tuple[str, bool, str]:
    found = SourceLookup([SegmentSources(in_memory(pairs))], None).exact_match(Unit((source,), **place))  # type: ignore[arg-type]
    assert isinstance(found, ExactMatch)
    return found.pair.target, found.in_context, found.review


def test_the_same_context_wins_over_later_pairs() -> None:
    pairs = [pair(1, "Home", context="menu"), pair(2, "Begin"), pair(3, "Launch", context="rocket")]
    assert match(pairs, context="menu") == ("Home", True, "")
    assert match(pairs, context="rocket") == ("Launch", True, "")
    assert match(pairs) == ("Begin", False, "")
    assert match(pairs, context="other") == ("Begin", False, "")


def test_another_context_comes_last() -> None:
    pairs = [pair(1, "Begin"), pair(2, "Home", context="menu")]
    assert match(pairs, context="rocket") == ("Begin", False, "")
    assert match(pairs[1:], context="rocket") == ("Home", False, ELSEWHERE)
    assert match(pairs[1:]) == ("Home", False, "")  # the document knows no contexts


def test_the_latest_of_several_is_to_be_reviewed() -> None:
    pairs = [pair(1, "Begin"), pair(2, "Launch")]
    assert match(pairs) == ("Launch", False, SEVERAL)
    assert match([*pairs, pair(3, "Begin")]) == ("Begin", False, SEVERAL)
    assert match([pairs[0], pair(2, " Begin ")]) == (" Begin ", False, "")
    menus = [pair(1, "Begin", context="menu"), pair(2, "Launch", context="menu")]
    assert match(menus, context="menu") == ("Launch", True, SEVERAL)
    assert match(menus, context="tab") == ("Launch", False, f"{SEVERAL}, {ELSEWHERE}")


@pytest.mark.parametrize("name", ["tuid", "resname"])
def test_the_same_name_is_the_same_context(name: str) -> None:
    pairs = [Pair("Start", "Home", "1", metadata={name: "menu.start"}), pair(2, "Begin")]
    assert match(pairs, key="menu.start") == ("Home", True, "")
    assert match(pairs, key="2") == ("Begin", True, "")  # a pair of an exported memory keeps its id
    assert match(pairs, key="x") == ("Begin", False, SEVERAL)


def test_the_same_neighbours_are_the_same_context() -> None:
    order = [("A", "a"), ("Start", "Home"), ("B", "b"), ("Start", "Begin"), ("C", "c")]
    pairs = [pair(number, target, source) for number, (source, target) in enumerate(order)]
    assert match(pairs, previous="A", following="B") == ("Home", True, "")
    assert match(pairs, previous="B", following="C") == ("Begin", True, "")
    assert match(pairs, previous="A", following="C") == ("Begin", False, SEVERAL)
    assert match(pairs) == ("Begin", False, SEVERAL)
    assert match(pairs[3:], previous="", following="C") == ("Begin", True, "")


def test_neighbours_do_not_overrule_another_context() -> None:
    order = [pair(1, "a", "A"), pair(2, "Home", context="menu"), pair(3, "b", "B")]
    assert match(order, previous="A", following="B") == ("Home", True, "")
    assert match(order, previous="A", following="B", context="tab") == ("Home", False, ELSEWHERE)


def test_neighbours_that_are_stored_count_instead_of_the_order() -> None:
    pairs = [pair(1, "a", "A"), pair(2, "Home", prev="X", next="Y"), pair(3, "Begin"), pair(4, "b", "B")]
    assert match(pairs, previous="X", following="Y") == ("Home", True, "")
    assert match(pairs, previous="A", following="Start") == ("Begin", False, SEVERAL)


def test_context_of_a_store_survives_additions(tmp_path: Path, tiny: TranslationModel) -> None:
    pairs = [pair(1, "die a", "die pumpe"), pair(2, "home", "start", context="menu")]
    store = Datastore.build(tmp_path / "store", pairs, tiny)
    store.add([pair(3, "launch", "start", context="rocket"), pair(4, "begin", "start")], tiny)
    again = Datastore.open(tmp_path / "store").snapshot()
    targets = {place: again.exact_match(Unit(("start",), context=place)) for place in ("menu", "rocket", "")}
    assert {place: found and found.pair.target for place, found in targets.items()} == {
        "menu": "home",
        "rocket": "launch",
        "": "begin",
    }
    assert again.exact_match(Unit(("nichts",))) is None
