"""Looking up sources: the same, and similar ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.datastore.search.matches import SegmentSources, SourceLookup
from nearmt.models import TranslationModel
from tests.datastore.helpers import in_memory

PAIRS = [
    Pair("die pumpe prüfen", "check the pump", id="1", origin="a"),
    Pair("die pumpe  ölen", "oil the pump", id="2"),
    Pair("die pumpe prüfen", "inspect the pump", id="3"),
    Pair("der motor", "the motor", id="4"),
    Pair("der motor", "the motor", id="5"),
]


def lookup(pairs: list[Pair]) -> SourceLookup:
    """Of pairs in two segments."""
    return SourceLookup([SegmentSources(in_memory(part)) for part in (pairs[:2], pairs[2:])], None)


def test_the_latest_of_the_same_source() -> None:
    found = lookup(PAIRS).exact("die pumpe prüfen")
    assert found is not None and found.id == "3"


def test_white_space_does_not_matter_and_case_does() -> None:
    found = lookup(PAIRS).exact(" die  pumpe ölen\n")
    assert found is not None and found.id == "2"
    assert lookup(PAIRS).exact("Die Pumpe ölen") is None
    assert lookup(PAIRS).exact("") is None


def test_an_empty_memory() -> None:
    assert lookup([]).exact("x") is None
    assert lookup([]).fuzzy("x", 3, 0.5) == []


def test_similar_sources_best_first_each_pair_once() -> None:
    found = lookup(PAIRS).fuzzy("die pumpe prüfen", 3, 0.5)
    assert [(match.target, match.similarity) for match in found[:2]] == [
        ("check the pump", 1.0),
        ("inspect the pump", 1.0),
    ]
    assert found[2].target == "oil the pump" and 0.5 <= found[2].similarity < 1
    assert [match.pair_id for match in lookup(PAIRS).fuzzy("der motor", 3, 0.9)] == ["4"]


def test_hidden_pairs_are_not_found() -> None:
    parts = [SegmentSources(in_memory(part)) for part in (PAIRS[:2], PAIRS[2:])]

    def without(*hidden: int) -> SourceLookup:
        seen_P = np.ones(len(PAIRS), dtype=bool)
        seen_P[list(hidden)] = False
        return SourceLookup(parts, seen_P)

    def exact(*hidden: int) -> str | None:
        found = without(*hidden).exact("die pumpe prüfen")
        return None if found is None else found.id

    assert [exact(), exact(2), exact(0), exact(0, 2)] == ["3", "1", "3", None]
    assert [match.pair_id for match in without(0, 3).fuzzy("die pumpe prüfen", 3, 0.5)] == ["3", "2"]
    assert [match.pair_id for match in without(3).fuzzy("der motor", 1, 0.9)] == ["5"]


def test_hidden_pairs_do_not_push_out_others() -> None:
    pairs = [Pair("der motor", "the motor", id=str(number)) for number in range(60)]
    found = SourceLookup([SegmentSources(in_memory(pairs))], np.arange(60) == 59).fuzzy("der motor", 3, 0.5)
    assert [match.pair_id for match in found] == ["59"]


@pytest.mark.parametrize(("other", "similarity"), [("der motoren", 1 - 2 / 11), ("motor", 1 - 4 / 9)])
def test_similarity_is_one_minus_edits_over_the_longer_length(other: str, similarity: float) -> None:
    (found,) = lookup([Pair("der motor", "x")]).fuzzy(other, 3, 0.0)
    assert found.similarity == pytest.approx(similarity)


def test_a_store_finds_what_was_just_added(tmp_path: Path, tiny: TranslationModel) -> None:
    store = Datastore.build(tmp_path / "store", PAIRS[:2], tiny)
    assert store.snapshot().exact("der motor") is None
    store.add([Pair("der motor", "the engine"), Pair("die pumpe prüfen", "look at the pump")], tiny)
    found, changed = store.snapshot().exact("der motor"), store.snapshot().exact("die pumpe prüfen")
    assert found is not None and found.target == "the engine"
    assert changed is not None and changed.target == "look at the pump"
    assert [match.target for match in store.matches("der motor", limit=1)] == ["the engine"]
