"""Which of some languages a text is in."""

from __future__ import annotations

import pytest

from nearmt.corpus.stop_words import likely_languages

KNOWN = ["de", "en", "fr", "ru"]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Der Motor ist nicht an der Pumpe", "de"),
        ("The motor is not at the pump", "en"),
        ("Le moteur n'est pas sur la pompe", "fr"),
        ("Насос не работает", "ru"),
        ("Motorüberlaß", "de"),
    ],
)
def test_frequent_words_letters_and_scripts_tell(text: str, language: str) -> None:
    likely = likely_languages(text, KNOWN)
    assert likely[0][0] == language
    assert likely[0][1] > likely[1][1]


def test_confidences_add_up_to_one() -> None:
    assert sum(share for _, share in likely_languages("der the motor", KNOWN)) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("text", ["", "123 %", "\x00"])
def test_a_text_without_letters_says_nothing(text: str) -> None:
    assert likely_languages(text, ["de", "en"]) == [("de", 0.0), ("en", 0.0)]


def test_regions_count_as_their_language() -> None:
    assert likely_languages("der Motor", ["en-US", "de_AT"])[0][0] == "de"
