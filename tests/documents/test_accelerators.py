"""Accelerator markers of units."""

from __future__ import annotations

from nearmt.corpus import Tag, Unit
from nearmt.documents.accelerators import with_accelerator, without_accelerator


def test_the_marker_is_taken_out_and_set_on_a_letter_of_the_translation() -> None:
    unit = Unit(("&Datei öffnen",))
    assert without_accelerator(unit).source == ("Datei öffnen",)
    assert with_accelerator(unit, ("Open file",)) == ("&Open file",)
    assert with_accelerator(Unit(("Be&arbeiten",)), ("Make",)) == ("M&ake",)


def test_other_units_stay_as_they_are() -> None:
    for unit in (Unit(("R&D und AT&T",)), Unit(("&Datei", Tag("<x/>"))), Unit(())):
        assert without_accelerator(unit) == unit
        assert with_accelerator(unit, ("a", Tag("<x/>"))) == ("a", Tag("<x/>"))
