"""Terms in texts, and their fixed translations."""

from __future__ import annotations

import pytest

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
        ("Kessel", ("boiler",)),
        ("Kessel der Anlage", ("plant boiler",)),
    ]


@pytest.mark.parametrize(
    ("term", "forms", "others"),
    [
        ("Ventil", "Ventile Ventilen VENTIL", "Ventilator ventil"),
        ("Feld", "Felder Feldern", "Feldweg felder"),
        ("Block", "Blöcke Blöcken", "Blockade blocken"),
        ("Baum", "Bäume", "Bauchm"),
        ("Druck", "Drücke", "drucken drücken"),
        ("Apfel", "Äpfel", "apfel"),
        ("automatisch", "automatische Automatischen", "Automatik"),
        ("SMS", "SMS", "sms SMSen"),
    ],
)
def test_german_nouns_are_inflected_and_are_no_verbs(term: str, forms: str, others: str) -> None:
    terms = FixedTerms([Term(term, "x")], "de-DE")
    assert [word for word in forms.split() if not terms.sources(f"die {word}.")] == []
    assert [word for word in others.split() if terms.sources(f"die {word}.")] == []


def options(terms: FixedTerms, text: str) -> list[tuple[str, ...]]:
    return [found for _, _, found in terms.find(text)]


def test_a_term_is_written_in_the_form_of_the_glossary_or_of_the_memory() -> None:
    listed = FixedTerms([Term("Ventil", "valve"), Term("Ventile", "valves")], "de")
    assert options(listed, "Ventil und Ventile") == [("valve",), ("valves",)]
    several = FixedTerms([Term("Filter", "strainer"), Term("Filter", "sieve"), Term("Filter", "strainers")], "de")
    assert options(several, "die Filter") == [("strainer", "strainers")]
    known = {"Ventile": ("valves",), "Ventil": ("valve", "valves")}
    by_memory = FixedTerms([Term("Ventil", "valve")], "de", lambda surface, target: known.get(surface, ()))
    assert options(by_memory, "Ventil, Ventile, Ventilen") == [("valve", "valves"), ("valves",), ("valve",)]


def test_an_inflected_name_is_written_as_in_the_glossary() -> None:
    names = FixedTerms([Term("Blaue Wolke", "", TermStatus.KEEP)], "de")
    assert options(names, "Die Blaue Wolke, in der Blauen Wolke, eine blaue Wolke") == [(), ("Blaue Wolke",)]


def test_capitals_are_translated_as_capitals() -> None:
    terms = FixedTerms([Term("Druck", "pressure"), Term("ACK", "ack"), Term("Nora", "Nora", TermStatus.KEEP)], "de")
    assert options(terms, "DRUCK ACK Druck Nora") == [("PRESSURE",), ("ack",), ("pressure",), ()]
    assert options(terms, "nora") == []


def test_forbidden_translations_are_not_written() -> None:
    assert list(TERMS.find("Das Ventil")) == []
    pattern = TERMS.forbidden("Das Ventil")
    assert pattern is not None and pattern.search("The Tap is open") and not pattern.search("stapled tape")
    assert TERMS.forbidden("Die Pumpe") is None
    everywhere = FixedTerms([Term("", "utilize", TermStatus.FORBIDDEN)]).forbidden("Die Pumpe")
    assert everywhere is not None and everywhere.search("Utilizes it")


def test_terms_are_marks_with_their_translation() -> None:
    found = marked("Der Kessel von HydroLux hat %d bar", terms=TERMS)
    assert found.text == "Der [1] von [2] hat [3] bar" and found.spans == ("Kessel", "HydroLux", "%d")
    assert found.restored("[2]: the [1] has [3] bar") == "HydroLux: the boiler has %d bar"
    assert found.restored("[1] of [2]: [3] bar") == "Boiler of HydroLux: %d bar"


def test_terms_in_protected_spans_are_part_of_them() -> None:
    assert marked("Siehe https://kessel.example/Kessel", terms=TERMS).spans == ("https://kessel.example/Kessel",)


def test_a_sentence_begins_with_a_capital_and_articles_fit() -> None:
    terms = FixedTerms([Term("Motor", "engine"), Term("Pumpe", "boiler pump")])
    found = marked("Der Motor. Die Pumpe.", terms=terms)
    assert found.restored("A [1]. [2] runs.", "en-GB") == "An engine. Boiler pump runs."
    assert found.restored("an [2] and “[1]”", "en") == "a boiler pump and “engine”"
    assert found.restored("un [1] de [2]", "fr") == "un engine de boiler pump"


def test_forms_are_tried_one_by_one() -> None:
    terms = FixedTerms([Term("Filter", "strainer"), Term("Filter", "strainers"), Term("Motor", "engine")], "de")
    found = marked("%d Filter im Motor", terms=terms)
    ways = [(way.restored("[1] [2] of [3]"), text) for way, text in found.choices("[1] [2] of [3]")]
    assert ways == [
        ("%d strainer of engine", "[1] strainer of [3]"),
        ("%d strainers of engine", "[1] strainers of [3]"),
    ]
    assert found.source_with_terms() == "[1] Filter im [3]"
    assert list(marked("Motor", terms=terms).choices("[1]")) == []


def test_without_a_term_nothing_changes() -> None:
    text = "Die Pumpe läuft seit %d Tagen."
    assert marked(text, terms=TERMS) == marked(text)
