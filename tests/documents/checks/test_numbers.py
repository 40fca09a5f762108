"""Numbers in digits and words, in the notation of each language."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.documents.checks import CheckedUnit
from nearmt.documents.checks.number_words import power_of_ten, values_of_word
from nearmt.documents.checks.numbers import NumberCheck
from tests.documents.checks.helpers import found

CHECK = NumberCheck()


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("1.234,5 kg", "1,234.5 kg"),
        ("1.234.567 Stück", "1,234,567 pieces"),
        ("10 000 Liter", "10,000 litres"),
        ("0,75 mm", "0.75 mm"),
        ("am 12.03.2024", "on 12 March 2024"),
        ("am 12.03.2024", "on 2024-03-12"),
        ("am 3. Mai", "on 3 May"),
        ("3 Pumpen", "three pumps"),
        ("drei Pumpen", "3 pumps"),
        ("alle 2 Wochen", "twice a month"),
        ("3 Millionen", "3,000,000"),
        ("2,5 Mio. Euro", "2.5 million euros"),
        ("5 Mrd.", "5 billion"),
        ("um 14:30 Uhr", "at 2:30 pm"),
        ("um 19.30 Uhr", "at 19:30"),
        ("um 14 Uhr", "at 14:00"),
        ("die 70er Jahre", "the 1970s"),
        ("das Wirtschaftsjahr 1998/99", "the 1998/1999 marketing year"),
        ("Artikel IV", "Article 4"),
        ("Version 1.2.3", "version 1.2.3"),
        ("siehe Abschnitt 3.5", "see section 3.5"),
        ("Position 15.07", "heading 15.07"),
        ("007", "7"),
        ("keine Zahl", "no number"),
        ("eine Pumpe", "a pump"),
        ("", ""),
    ],
)
def test_the_same_numbers(source: str, target: str) -> None:
    assert found(CHECK, source, target) == []


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("nach 250 Stunden", "after 260 hours", "error: numbers of the source are missing: 250"),
        ("1.234,5 kg und 17 g", "1,234.5 kg", "error: numbers of the source are missing: 17"),
        ("die Pumpe 5", "the pump", "warning: numbers of the source are missing: 5"),
        ("die Pumpe", "the pump 5", "warning: numbers that the source lacks: 5"),
        ("0,75 mm", "0,75 mm", "warning: numbers are not written as usual in the target language: 0,75"),
        ("1.500 Liter", "1.500 litres", "warning: numbers are not written as usual in the target language: 1.500"),
        ("höchstens 1,5 Bar", "2.5 bar at most", "error: numbers of the source are missing: 1,5"),
        ("drei Pumpen", "four pumps", "warning: another number than in the source: drei became four"),
        ("am 12.03.2024", "on 13 March 2024", "error: numbers of the source are missing: 12.03.2024"),
    ],
)
def test_other_numbers(source: str, target: str, expected: str) -> None:
    assert found(CHECK, source, target) == [expected]


def test_any_notation_will_do_where_the_languages_are_unknown() -> None:
    assert found(CHECK, "1.234,5", "1,234.5", languages="") == []
    assert found(CHECK, "1.234,5", "1,234.6", languages="") == ["error: numbers of the source are missing: 1.234,5"]


def test_numbers_in_placeholders_and_addresses_do_not_count() -> None:
    assert found(CHECK, "Seite {0} auf http://a.example/42", "page on the web") == []


def test_words_of_other_languages() -> None:
    assert found(CHECK, "trois pompes", "3 Pumpen", "fr de") == []
    assert values_of_word("douze", "fr") == {"12"} and values_of_word("août", "fr") == {"8"}
    assert power_of_ten("Milliarden", "de") == power_of_ten("billions", "en") == 9


@given(st.integers(min_value=0, max_value=10**12), st.integers(min_value=0, max_value=99))
def test_every_number_survives_its_conversion(whole: int, cents: int) -> None:
    english = f"{whole:,}.{cents:02}"
    german = english.translate(str.maketrans(",.", ".,"))
    assert found(CHECK, f"{german} Euro", f"{english} euros") == []


@given(st.text(alphabet="0123456789.,:/-' \u00a0²٣abp%", max_size=40), st.text(alphabet="0123456789., ²٣", max_size=20))
def test_nothing_breaks_it(source: str, target: str) -> None:
    assert not list(CHECK(CheckedUnit.of_texts(source, source, "de", "de")))
    list(CHECK(CheckedUnit.of_texts(source, target, "de", "en")))


def test_thousands_of_digits() -> None:
    assert found(CHECK, "9" * 10_000, "8") == [
        "error: numbers of the source are missing: " + "9" * 10_000,
    ]
