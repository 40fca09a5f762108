"""Repair of similar matches: numbers, placeholders and one term exchanged, or no repair at all."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.contracts import Pair
from nearmt.corpus import Match
from nearmt.datastore.search.matches import SegmentSources, SourceLookup
from nearmt.datastore.search.snapshot import Snapshot
from nearmt.documents import terms as terms_module
from nearmt.documents.differences import differences
from nearmt.documents.numbers import NUMBER, Number, format_number, parse_number
from nearmt.documents.repair import Repair, Repairer
from nearmt.documents.terms import TermLookup
from nearmt.models import TranslationModel
from nearmt.models.alignment import WORD, Link
from tests.datastore.helpers import in_memory

TERMS = [Pair("Pumpe", "Pump"), Pair("Motor", "Engine"), Pair("Ventil", "Valve"), Pair("Kreis", "circuit")]


def in_order(model: object, sources: Sequence[str], targets: Sequence[str]) -> list[list[Link]]:
    """Align word by word, in order."""
    sides = [[[m.span() for m in WORD.finditer(text)] for text in pair] for pair in zip(sources, targets, strict=True)]
    return [[Link(a, b) for a, b in zip(*each, strict=False)] for each in sides]


@pytest.fixture(autouse=True)
def _aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms_module, "align", in_order)


def repair(
    stored: tuple[str, str], new: str, memory: Sequence[Pair] = (), printf: bool | None = None, to: str = "en"
) -> Repair | None:
    lookup = SourceLookup([SegmentSources(in_memory([*memory, Pair(*stored)]))], None)
    terms = TermLookup(cast(TranslationModel, None), cast(Snapshot, lookup))
    return Repairer(terms, ("de", to)).repaired(new, Match(*stored, 0.9), printf)


def text(stored: tuple[str, str], new: str, *memory: Pair, printf: bool | None = None, to: str = "en") -> str | None:
    found = repair(stored, new, memory, printf, to)
    return None if found is None else found.text


# Numbers


@pytest.mark.parametrize(
    ("stored", "new", "expected"),
    [
        (("Warten Sie 5 Minuten.", "Wait 5 minutes."), "Warten Sie 12 Minuten.", "Wait 12 minutes."),
        (("Druck: 2,5 bar", "Pressure: 2.5 bar"), "Druck: 13,75 bar", "Pressure: 13.75 bar"),
        (("Bis 1.500 Liter", "Up to 1,500 litres"), "Bis 12.000 Liter", "Up to 12,000 litres"),
        (("Bis 1500 Liter", "Up to 1500 litres"), "Bis 2500,5 Liter", "Up to 2500.5 litres"),
        (("Bis 900 Liter", "Up to 900 litres"), "Bis 1.200.000 Liter", "Up to 1,200,000 litres"),
        (("Von 3 bis 8", "From 3 to 8"), "Von 8 bis 3", "From 8 to 3"),
        (("Seite 2 von 30", "Page 2 of 30"), "Seite 7 von 41", "Page 7 of 41"),
        (("Version 2.1.0 laden", "Load version 2.1.0"), "Version 2.2.10 laden", "Load version 2.2.10"),
        (("Länge 5mm", "Length 5mm"), "Länge 7mm", "Length 7mm"),
        (("Code 007", "Code 007"), "Code 012", "Code 012"),
    ],
)
def test_numbers_are_exchanged_as_the_language_writes_them(stored: tuple[str, str], new: str, expected: str) -> None:
    assert text(stored, new) == expected


@pytest.mark.parametrize(
    ("stored", "new"),
    [
        (("5 von 5 Pumpen", "5 of 5 pumps"), "7 von 5 Pumpen"),  # which of them?
        (("Warten Sie 5 Minuten.", "Wait five minutes."), "Warten Sie 12 Minuten."),
        (("5 Pumpen", "5 of 5 pumps"), "7 Pumpen"),
        (("1 Fenster", "1 window"), "2 Fenster"),  # windows
        (("2 Fenster", "2 windows"), "1 Fenster"),
        (("Am 3.5.2021", "On May 3, 2021"), "Am 4.6.2022"),
        (("Pumpe 5", "Pump 5"), "Pumpe A"),
        (("Pumpe 5", "Pump 5"), "Pumpe 5 prüfen"),
        (("Pumpe 5 prüfen", "Check pump 5"), "Pumpe 5"),
        (("Pumpe, 5", "Pump, 5"), "Pumpe: 5"),
    ],
)
def test_what_is_not_certain_is_not_repaired(stored: tuple[str, str], new: str) -> None:
    assert repair(stored, new, TERMS) is None


def test_an_equal_text_needs_no_repair() -> None:
    assert repair(("Pumpe 5", "Pump 5"), " Pumpe  5\n") is None


@pytest.mark.parametrize(
    ("spelling", "language", "value"),
    [
        ("1.234,5", "de", "1234.5"),
        ("1,234.5", "en", "1234.5"),
        ("1\u202f234,5", "fr", "1234.5"),
        ("1’234,5", "de", "1234.5"),
        ("1.234", "de", "1234"),
        ("1.234", "en", "1.234"),
        ("12.34", "de", None),
        ("1.2.3", "de", None),
        ("007", "en", None),
        ("0,5", "de", "0.5"),
        ("1.234\u00a0567", "de", None),
        ("٣", "ar", None),
    ],
)
def test_numbers_of_languages(spelling: str, language: str, value: str | None) -> None:
    found = parse_number(spelling, language)
    assert (None if found is None else found.value) == (None if value is None else Decimal(value))


@given(st.integers(0, 10**15), st.integers(0, 4), st.sampled_from(["de", "en", "fr"]), st.booleans())
def test_written_numbers_are_read_again(digits: int, decimals: int, language: str, grouped: bool) -> None:
    number = Number(Decimal(digits).scaleb(-decimals), decimals, "." if grouped else "")
    written = format_number(number, language, Number(Decimal(0), 0))
    assert NUMBER.fullmatch(written)
    found = parse_number(written, language)
    assert found is not None and (found.value, found.decimals) == (number.value, decimals)


# Placeholders


@pytest.mark.parametrize(
    ("stored", "new", "printf", "expected"),
    [
        (("{name} fehlt", "{name} is missing"), "{user} fehlt", None, "{user} is missing"),
        (("Datei %s in %d", "File %s in %d"), "Datei %s in %i", True, "File %s in %i"),
        (("{a} von {b}", "{a} of {b}"), "{b} von {a}", None, "{b} of {a}"),
        (("{a} von {a}", "{a} of {a}"), "{b} von {a}", None, None),
        (("{a} fehlt", "is missing"), "{b} fehlt", None, None),
        (("{a} fehlt", "{a} is missing"), "5 fehlt", None, None),
    ],
)
def test_placeholders_are_exchanged(
    stored: tuple[str, str], new: str, printf: bool | None, expected: str | None
) -> None:
    assert text(stored, new, printf=printf) == expected


def test_numbers_in_placeholders_are_no_numbers() -> None:
    assert text(("{0} nach 5 s", "{0} after 5 s"), "{0} nach 0 s") == "{0} after 0 s"
    assert text(("{0} nach 5 s", "{0} after 5 s"), "{1} nach 6 s") == "{1} after 6 s"


# Terms


@pytest.mark.parametrize(
    ("stored", "new", "expected"),
    [
        (("Prüfen Sie die Pumpe.", "Check the pump."), "Prüfen Sie den Motor.", "Check the engine."),
        (("Eine Pumpe fehlt", "A pump is missing"), "Ein Motor fehlt", "An engine is missing"),
        (("Ein Motor fehlt", "An engine is missing"), "Eine Pumpe fehlt", "A pump is missing"),
        (("Pumpe 5 prüfen", "Check pump 5"), "Motor 7 prüfen", "Check engine 7"),
        (("Pumpe läuft", "Pump runs"), "Kreis läuft", "Circuit runs"),
        (("Pumpe und Motor", "Pump and engine"), "Ventil und Kreis", None),  # two terms
        (("Die Pumpe läuft", "The pump runs"), "Ein Motor läuft", None),  # another article
        (("Pumpe prüft Pumpe", "Pump checks pump"), "Motor prüft Pumpe", None),
        (("Prüfen Sie die Pumpe.", "Check the pump."), "Prüfen Sie den Lüfter.", None),  # unknown
        (("Prüfen Sie die Pumpe.", "Check the pump."), "Prüfen Sie die Pumpe nie.", None),
    ],
)
def test_one_term_is_exchanged_if_the_memory_has_both(stored: tuple[str, str], new: str, expected: str | None) -> None:
    assert text(stored, new, *TERMS) == expected


def test_terms_are_found_in_aligned_pairs() -> None:
    stored = ("wir prüfen filter heute", "we check filters today")
    known = Pair("wir tauschen filter", "we replace filters")
    uses = [Pair("wir ölen lager oft", "we oil bearings often"), Pair("sie ölen lager", "they oil bearings")]
    new, repaired = "wir prüfen lager heute", "we check bearings today"
    assert text(stored, new, known, *uses) == repaired
    assert text(stored, new, *uses) is None  # a single pair with the old term, and none that confirms it
    assert text(stored, new, known, uses[0]) is None  # a single pair with the new one
    other = Pair("wir sehen lager", "we see camps")
    assert text(stored, new, known, *uses, other) == repaired
    assert text(stored, new, known, *uses, other, Pair("ihr seht lager", "you see camps")) is None


def test_alignment_does_not_touch_placeholders() -> None:
    uses = [Pair("wir %(n)s lager", "we %(n)s bearings"), Pair("sie %(n)s lager", "they %(n)s bearings")]
    stored = ("wir prüfen pumpen heute", "we check pumps today")
    more = [Pair("wir sehen pumpen", "we see pumps")]
    assert text(stored, "wir prüfen lager heute", *uses, *more) == "we check bearings today"


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (Pair("Lüfter", "Fan"), "Check the fan."),
        (Pair("Lüfter", "Fan."), "Check the fan."),
        (Pair("Lüfter", "PSU"), "Check the PSU."),
        (Pair("Lüfter", "cooling fan"), "Check the cooling fan."),
        (Pair("Lüfter", "Choose a fan"), None),  # no translation of the term alone
    ],
)
def test_entries_take_the_case_of_their_place(entry: Pair, expected: str | None) -> None:
    assert text(("Prüfen Sie die Pumpe.", "Check the pump."), "Prüfen Sie den Lüfter.", *TERMS, entry) == expected


@pytest.mark.parametrize(
    ("stored", "new"),
    [
        (("Start mit Pumpe", "Start with pump"), "Start ohne Pumpe"),
        (("Start der pumpe", "Start of pump"), "Start der Pumpe"),
        (("Start der Pumpe", "Start of pump"), "Start der Pumpen"),
        (("Start der Pumpe", "Start of pump"), "Start der Wasserpumpe"),  # translated alike
        (("Pumpe", "Pump"), "Motor"),
        (("{a} Pumpe", "{a} Pump"), "{a} Motor"),
    ],
)
def test_frequent_words_case_and_whole_texts_are_no_terms(stored: tuple[str, str], new: str) -> None:
    memory = [*TERMS, Pair("mit", "with"), Pair("ohne", "without"), Pair("pumpe", "pump")]
    memory += [Pair("Pumpen", "Pumps"), Pair("Wasserpumpe", "Pump")]
    assert repair(stored, new, memory) is None


def test_what_was_exchanged_is_told() -> None:
    found = repair(("Pumpe 5 prüfen", "Check pump 5"), "Motor 7 prüfen", TERMS)
    assert found is not None and found.exchanged == ("Pumpe -> Motor", "5 -> 7")


def test_long_texts_are_not_compared() -> None:
    assert differences("a " * 2000 + "5", "a " * 2000 + "6") is None


WORDS = ["Pumpe", "Motor", "die", "5", "1.000", "{a}", "%s", ".", "é", "\x00"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)


@given(TEXTS, TEXTS, TEXTS)
def test_any_texts_are_repaired_or_not(source: str, target: str, new: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terms_module, "align", in_order)
        found = repair((source, target), new, TERMS)
        assert found is None or (found.exchanged and isinstance(found.text, str))
