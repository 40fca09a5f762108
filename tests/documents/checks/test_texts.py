"""Every check of texts: pairs that it accepts, and pairs that it does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.corpus import Tag, TagKind
from nearmt.documents.checks import TEXT_CHECKS, CheckedUnit, Severity, findings_of, text_checks
from tests.documents.checks.helpers import found, found_in_segments

COPY = "check the pump before every start of the motor"


@pytest.mark.parametrize(
    ("check", "source", "target"),
    [
        ("placeholders", "Datei %s in {ordner}", "file %s in {ordner}"),
        ("placeholders", "{g, select, m {Er} other {Sie}} {n}", "{g, select, m {He {n}} other {They {n}}}"),
        ("addresses", "siehe https://a.example/x.", "see https://a.example/x."),
        ("addresses", "an info@a.example, bitte", "to info@a.example please"),
        ("negation", "Die Pumpe läuft nicht.", "The pump is not running."),
        ("negation", "Die Pumpe läuft nicht.", "The pump doesn't run."),
        ("negation", "nicht verfügbar", "unavailable"),
        ("negation", "nicht nur die Pumpe", "the pump as well"),
        ("negation", "Verordnung Nr. 5", "Regulation No 5"),
        ("negation", "kein Öl", "without oil"),
        ("length", "Prüfen Sie die Pumpe.", "Check the pump."),
        ("length", "Abk.", "a rather long explanation"),
        ("untranslated", "Motor", "Motor"),
        ("untranslated", "Anna Schmidt", "Anna Schmidt"),
        ("untranslated", "Ludwig von Mises", "Ludwig von Mises"),
        ("untranslated", "Die", "Die"),
        ("untranslated", "In Arbeit", "In Arbeit"),
        ("untranslated", "/usr/share/doc/pump", "/usr/share/doc/pump"),
        ("untranslated", "123", "123"),
        ("repetition", "die Pumpe, die Pumpe", "the pump, the pump"),
        ("repetition", "ich weiß, dass das so ist", "I know that that is so"),
        ("repetition", "1 1 1 1", "1 1 1 1"),
        ("space", " die Pumpe\n", " the pump\n"),
        ("punctuation", "Ist die Pumpe an?", "Is the pump on?"),
        ("punctuation", "Warten...", "Waiting…"),
        ("punctuation", "„Ja.“", '"Yes."'),
        ("capitals", "Datei", "file"),
        ("capitals", "die Pumpe läuft", "the pump is running"),
        ("capitals", "5 Pumpen", "5 pumps"),
        ("characters", "die Pumpe", "the pump 泵"),
    ],
)
def test_good_pairs(check: str, source: str, target: str) -> None:
    assert found(TEXT_CHECKS[check](), source, target) == []


@pytest.mark.parametrize(
    ("check", "source", "target", "expected"),
    [
        ("placeholders", "Datei %s fehlt", "file missing", "error: placeholders differ from the source: %s"),
        (
            "placeholders",
            "{g, select, m {Er} other {Sie}} {n}",
            "{g, select, m {He} other {They}}",
            "error: placeholders differ from the source: {n}",
        ),
        ("placeholders", "Datei fehlt", "file {x}", "error: placeholders differ from the source: +{x}"),
        ("addresses", "an a@b.example", "to us", "error: addresses of the source are missing: a@b.example"),
        ("addresses", "hier", "see www.b.example/y", "warning: addresses that the source lacks: www.b.example/y"),
        (
            "addresses",
            "https://b.example/de/",
            "https://b.example/en/",
            "info: another page of the same host than in the source: https://b.example/en/",
        ),
        ("negation", "Nie öffnen!", "Open!", "warning: the source is negated, the translation is not: Nie"),
        ("negation", "Öffnen!", "Do not open!", "warning: the translation is negated, the source is not: not"),
        (
            "length",
            "Prüfen Sie die Pumpe, den Motor und das Ventil, bevor Sie beginnen.",
            "Check.",
            "warning: far shorter than usual: 67 and 6 characters",
        ),
        ("length", "Die Pumpe ist an.", "pump " * 80, "error: far longer than usual: 17 and 399 characters"),
        ("untranslated", "die Pumpe", " ", "error: there is no translation"),
        ("untranslated", "", "the pump", "warning: there is no source"),
        ("untranslated", COPY, COPY, "error: equals the source"),
        ("untranslated", "gut so", "gut so", "info: equals the source"),
        ("untranslated", "Der Hund", "Der Hund", "warning: equals the source"),
        ("untranslated", "Nicht öffnen!", "Nicht öffnen!", "warning: equals the source"),
        (
            "untranslated",
            f"Der Text: {COPY}.",
            f"The text: {COPY}.",
            f"warning: a part was copied from the source: {COPY}",
        ),
        ("repetition", "die Pumpe", "the the pump", "warning: a phrase stands twice in a row: the"),
        (
            "repetition",
            "die Pumpe läuft",
            "the pump is the pump is the pump is on",
            "error: a phrase is repeated over and over: the pump is (3 times)",
        ),
        (
            "space",
            "die Pumpe\n",
            "the pump",
            "error: the white space at the end differs from the source: '\\n' became nothing",
        ),
        (
            "space",
            "die Pumpe",
            " the pump",
            "warning: the white space at the beginning differs from the source: nothing became ' '",
        ),
        (
            "punctuation",
            "Ist sie an?",
            "It is on.",
            "warning: the punctuation at the end differs from the source: ? became .",
        ),
        (
            "punctuation",
            "Sie ist an.",
            "It is on",
            "info: the punctuation at the end differs from the source: . became nothing",
        ),
        (
            "capitals",
            "Die Pumpe ist an.",
            "the pump is on.",
            "warning: the case of the first letter differs from the source: D became t",
        ),
        ("characters", "die Pumpe", "насос", "error: not in a script of the target language"),
        ("characters", "насос", "the pump", "warning: not in a script of the source language"),
        (
            "characters",
            "die Pumpe",
            "the \ufffdump",
            "error: the translation has characters that could not be formed (U+FFFD)",
        ),
        ("characters", "die Pumpe", "the\x07 pump", "warning: the translation has control characters: U+0007"),
    ],
)
def test_bad_pairs(check: str, source: str, target: str, expected: str) -> None:
    assert found(TEXT_CHECKS[check](), source, target) == [expected]


@pytest.mark.parametrize(
    ("source", "target", "languages"),
    [
        ("Ne pas ouvrir.", "Open.", "fr en"),
        ("No abrir.", "Open.", "es en"),
        ("Non aprire.", "Open.", "it en"),
        ("Niet openen.", "Open.", "nl en"),
        ("Não abrir.", "Open.", "pt en"),
    ],
)
def test_negation_in_other_languages(source: str, target: str, languages: str) -> None:
    assert [line.partition(":")[0] for line in found(TEXT_CHECKS["negation"](), source, target, languages)] == [
        "warning"
    ]
    assert found(TEXT_CHECKS["negation"](), source, target, "xx en") == []


def test_greek_questions() -> None:
    assert found(TEXT_CHECKS["punctuation"](), "Is it on?", "Λειτουργεί;", "en el") == []


def test_tags_are_compared_by_name_and_id() -> None:
    check = TEXT_CHECKS["tags"]()
    bold, end = Tag('<bpt i="1">x</bpt>', TagKind.OPEN, "1"), Tag('<ept i="1">y</ept>', TagKind.CLOSE, "1")
    assert found_in_segments(check, ("a ", bold, "b", end), (bold, "B", end, " A")) == []
    assert found_in_segments(check, ("a", Tag('<x id="1" a="2"/>')), ("A", Tag('<x  id="1"/>'))) == []
    assert found_in_segments(check, ("a", Tag('<x id="1"/>')), ("A",)) == [
        "error: inline tags differ from the source: <x 1>"
    ]
    assert found_in_segments(check, ("a",), ("A", Tag('<x id="1"/>'))) == [
        "error: inline tags differ from the source: +<x 1>"
    ]
    assert found_in_segments(check, ("a ", bold, "b", end), (end, "B", bold)) == [
        "error: inline tags are closed before they are opened: <ept>"
    ]
    assert found_in_segments(check, ("a",), (Tag('<mrk id="m">', TagKind.OPEN, "m", element=True), "A")) == []


def test_the_most_severe_comes_first() -> None:
    unit = CheckedUnit.of_texts("Nicht öffnen: %s.", "Open", "de", "en")
    severities = [finding.severity for finding in findings_of(unit, text_checks())]
    assert severities == sorted(severities, reverse=True) and severities[0] is Severity.ERROR
    assert {finding.check for finding in findings_of(unit, text_checks({"negation", "placeholders"}))} == {
        "punctuation"
    }


@given(st.text(max_size=60), st.text(max_size=60))
def test_nothing_breaks_the_checks(source: str, target: str) -> None:
    findings_of(CheckedUnit.of_texts(source, target, "de", "en"), text_checks())


@given(st.text(max_size=80))
def test_a_text_is_its_own_translation_but_for_being_a_copy(text: str) -> None:
    unit = CheckedUnit.of_texts(text, text, "de", "")
    assert {f.check for f in findings_of(unit, text_checks())} <= {"untranslated", "characters"}


@pytest.mark.parametrize(
    "text", ["a" * 200_000, "a " * 100_000, "1." * 100_000, "un" * 100_000, "a.a@" * 50_000, "<a" * 50_000]
)
def test_long_texts_take_linear_time(text: str) -> None:
    """Quadratic time would be minutes."""
    unit = CheckedUnit.of_texts(text, text[:-7], "de", "en")
    assert all(finding.severity >= Severity.INFO for finding in findings_of(unit, text_checks()))
