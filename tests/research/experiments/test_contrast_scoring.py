"""What counts as right, and how judgements are counted."""

from __future__ import annotations

import pytest

from nearmt.research.experiments.contrast_scoring import Ask, count, divided, occurs, percent, position_of


@pytest.mark.parametrize(
    ("phrase", "text", "found"),
    [
        ("hot", "The engine is HOT.", True),
        ("hot", "The hotel is cold.", False),
        ("hot", "A shot.", False),
        ("hot", "hot-water tap", True),
        ("n't", "It isn't cold.", True),
        ("n't", "It isn\N{RIGHT SINGLE QUOTATION MARK}t cold.", True),
        ("n't", "an'tony", False),
        ("charge note", "The charge\n note was paid.", True),
        ("charge note", "The charge notes were paid.", False),
        ("11", "At 11 o'clock.", True),
        ("11", "In 2011.", False),
        ("U.S.", "in the u.s. today", True),
        ("U.S.", "in the uxsx today", False),
        ("5 %", "It is 5 % cheaper.", True),
        ("größer", "Es ist GRÖSSER, nein größer.", True),
    ],
)
def test_phrases_occur_as_whole_words(phrase: str, text: str, found: bool) -> None:
    assert occurs([phrase], text) is found


def test_no_phrase_occurs_nowhere() -> None:
    assert not occurs([], "anything")


def test_one_of_each_list_is_needed_and_no_forbidden_one() -> None:
    ask = Ask("a/1", "noun", "", "", ("water", "waters"), ("hot", "warm"), ("engine", "cold"))
    assert ask.is_right("The water is warm.")
    assert not ask.is_right("The water is there.")
    assert not ask.is_right("It is hot.")
    assert not ask.is_right("The water is hot, the engine cold.")
    assert ask.is_copied("The engine is hot.") and not ask.is_copied("The water is warm.")
    assert ask.judged("The water is warm.") == {
        **{"id": "a/1", "kind": "noun", "length": None, "words": None, "position": None},
        **{"right": True, "copied": False},
    }


def test_without_forbidden_words_the_accepted_decide() -> None:
    ask = Ask("a/1", "negation", "", "", ("not", "n't"))
    assert ask.is_right("It doesn't work.") and not ask.is_right("It works.")


@pytest.mark.parametrize(
    ("source", "position"),
    [
        ("Das Kabel ist am Morgen kalt.", "early"),
        ("Der Motor ist gegen Morgen kalt.", "middle"),
        ("Der Motor ist am Morgen heiß.", "late"),
        ("Der Motor ist am Morgen nicht kalt.", "late"),
        ("Der Motor ist am Morgen.", "late"),
        ("Der Motor ist am Morgen kalt!", None),
    ],
)
def test_position_of_the_words_that_differ(source: str, position: str | None) -> None:
    assert position_of("Der Motor ist am Morgen kalt.", source) == position


def judgement(
    name: str, right: bool, kind: str, length: str = "short", position: str | None = "late"
) -> dict[str, object]:
    return {"id": name, "right": right, "kind": kind, "length": length, "words": 1, "position": position}


def test_kept_are_those_that_the_model_alone_gets_right() -> None:
    judged = [judgement("a", True, "noun"), judgement("b", False, "noun"), judgement("c", True, "verb")]
    alone = {"a": True, "b": True, "c": False}
    assert count(judged, alone) == {"asks": 3, "right": 2, "alone": 2, "kept": 1}
    assert count(judged, None) == {"asks": 3, "right": 2}


def test_counts_are_divided() -> None:
    judged = [
        judgement("a", True, "verb", "long", "late"),
        judgement("b", False, "noun", "short", "early"),
        judgement("c", True, "noun", "medium", None),
    ]
    found = divided(judged, None)
    assert found["kind"] == {"noun": {"asks": 2, "right": 1}, "verb": {"asks": 1, "right": 1}}
    assert list(found["length"]) == ["short", "medium", "long"]
    assert list(found["position"]) == ["early", "late"]
    assert found["words"] == {"1": {"asks": 3, "right": 2}}


def test_percentages_of_nothing_are_unknown() -> None:
    assert percent(1, 3) == 33.33
    assert percent(0, 0) is None and percent(None, None) is None
