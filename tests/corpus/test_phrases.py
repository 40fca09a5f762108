"""Terms in texts, and their fixed translations."""

from __future__ import annotations

from nearmt.corpus.glossary import Term, TermStatus
from nearmt.corpus.marks import marked
from nearmt.corpus.phrases import FixedTerms, Phrase

TERMS = FixedTerms(
    [
        Term("Kessel", "boiler"),
        Term("Kessel", "kettle"),
        Term("Kessel der Anlage", "plant boiler"),
        Term("HydroLux", "HydroLux", TermStatus.KEEP),
        Term("Ventil", "tap", TermStatus.FORBIDDEN),
    ]
)


def test_terms_are_found_in_their_forms() -> None:
    assert Phrase("Pumpe").pattern.search("zwei Pumpen") and not Phrase("Pumpe").pattern.search("Pumpernickel")
    text = "Die Kessel und der Kessel der Anlage"
    assert [(text[start:end], target) for start, end, target in TERMS.find(text)] == [
        ("Kessel", "boiler"),
        ("Kessel der Anlage", "plant boiler"),
    ]


def test_forbidden_translations_are_not_written() -> None:
    assert list(TERMS.find("Das Ventil")) == []


def test_terms_are_marks_with_their_translation() -> None:
    found = marked("Der Kessel von HydroLux hat %d bar", terms=TERMS)
    assert found.text == "Der [1] von [2] hat [3] bar" and found.spans == ("Kessel", "HydroLux", "%d")
    assert found.restored("[2]: the [1] has [3] bar") == "HydroLux: the boiler has %d bar"
    assert found.restored("[1] of [2]: [3] bar") == "Boiler of HydroLux: %d bar"


def test_terms_in_protected_spans_are_part_of_them() -> None:
    assert marked("Siehe https://kessel.example/Kessel", terms=TERMS).spans == ("https://kessel.example/Kessel",)


def test_without_a_term_nothing_changes() -> None:
    text = "Die Pumpe läuft seit %d Tagen."
    assert marked(text, terms=TERMS) == marked(text)
