"""One line for each kind of finding, and counts."""

from __future__ import annotations

import json

import pytest

from nearmt.documents.checks import Finding, Severity
from nearmt.documents.checks.summary import FindingSummary

SCRIPT = Finding("characters", Severity.WARNING, "not in a script of the source language")
GERMAN = "die pumpe prüfen und reinigen "


def test_one_line_for_each_kind() -> None:
    summary = FindingSummary()
    for line in range(1, 1001):
        summary.add(line, [SCRIPT] if line % 2 else [])
    summary.add(7, [Finding("numbers", Severity.ERROR, "numbers are missing", "17"), SCRIPT])
    summary.add(9, [Finding("numbers", Severity.ERROR, "numbers are missing", "18")])
    summary.add(9, [Finding("capitals", Severity.INFO, "the case differs")])
    assert summary.notes() == [
        "lines 7, 9: numbers are missing: 17; 18",
        "lines 1, 3, 5, 7, 9 and 496 more: not in a script of the source language",
    ]
    assert summary.notes(Severity.INFO)[-1] == "line 9: the case differs"
    assert summary.counted() == "2 errors (numbers 2), 501 warnings (characters 501), 1 info (capitals 1)"
    assert summary.units == 1003 and summary.units_with[Severity.ERROR] == 2


def test_details_are_bounded() -> None:
    summary = FindingSummary()
    for line in range(10):
        summary.add(line, [Finding("numbers", Severity.ERROR, "numbers are missing", str(line) * 100)])
    (note,) = summary.notes()
    assert note.endswith("…; …") and len(note) < 300
    assert len(json.dumps(summary.state())) < 2000


def test_the_state_restores_everything() -> None:
    summary = FindingSummary()
    for line in (3, 3, 4, 5, 6, 7, 8):
        finding = Finding("numbers", Severity.ERROR, "numbers are missing", str(line))
        summary.add(line, [SCRIPT, finding], GERMAN, GERMAN)
    again = FindingSummary.of_state(json.loads(json.dumps(summary.state())))
    for each in (summary, again):
        each.add(9, [SCRIPT], GERMAN, GERMAN)
    assert again.notes(Severity.INFO) == summary.notes(Severity.INFO)
    assert again.fields() == summary.fields() and again.is_copied == summary.is_copied


def test_text_that_is_copied() -> None:
    summary = FindingSummary()
    for line in (1, 2, 3):
        summary.add(line, [], "Check the pump before the motor is opened", "Check the pump before the motor is opened")
    summary.add(4, [], "die Pumpe", "the pump")
    assert summary.notes() == ["lines 1, 2, 3: most words were copied unchanged; is this the source language?"]


@pytest.mark.parametrize(("source", "target"), [("Nokia Siemens Bosch", "Nokia Siemens Bosch"), (GERMAN * 9, "")])
def test_names_and_translations_are_no_copies(source: str, target: str) -> None:
    summary = FindingSummary()
    summary.add(1, [], source, target)
    assert summary.notes() == [] and summary.counted() == ""
