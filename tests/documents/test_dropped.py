"""Parts of a source that nothing is aligned with."""

from __future__ import annotations

from nearmt.documents.checks import CheckedUnit
from nearmt.documents.dropped import dropped_clauses, dropped_where_short, unaligned
from nearmt.models import TranslationModel
from nearmt.models.alignment import WORD, Link

SOURCE = "Die Pumpe läuft, weil der Motor seit gestern wieder warm ist."


def links(source: str, *words: str) -> list[Link]:
    spans = [match.span() for match in WORD.finditer(source)]
    return [Link(span, (0, 1)) for span in spans if source[slice(*span)] in words]


def test_the_longest_part_without_links() -> None:
    assert unaligned(SOURCE, links(SOURCE, "Die", "Pumpe", "läuft", ",", ".")) == (
        "weil der Motor seit gestern wieder warm ist"
    )
    assert unaligned(SOURCE, links(SOURCE, "Die", "Pumpe", "läuft", "seit")) == "gestern wieder warm ist"[:0]
    assert unaligned(SOURCE, links(SOURCE, *SOURCE.replace(",", "").replace(".", "").split())) == ""
    assert unaligned(SOURCE, []) == SOURCE[:-1]
    assert unaligned("", []) == ""


def test_short_words_are_no_clause() -> None:
    assert unaligned("er ist ja da wo sie es war", []) == ""


def test_units_that_cannot_be_aligned_have_no_findings(tiny: TranslationModel) -> None:
    words = "die pumpe und der motor prüfen und reinigen das ventil " * 3
    units = [
        CheckedUnit.of_texts(words, "pump", "de", "en"),
        CheckedUnit.of_texts(words, "", "de", "en"),
        CheckedUnit.of_texts(words * 100, "pump", "de", "en"),
        CheckedUnit.of_texts("die pumpe", "pump", "de", "en"),
    ]
    first, *others = dropped_clauses(tiny, units)
    assert first[0].check == "dropped" and first[0].detail in words
    assert others == [(), (), ()]


def test_translations_of_usual_length_are_not_aligned(tiny: TranslationModel) -> None:
    words = "die pumpe und der motor prüfen und reinigen das ventil " * 3
    units = [CheckedUnit.of_texts(words, target, "de", "en") for target in ("pump", words)]
    assert dropped_where_short(tiny, units) == [dropped_clauses(tiny, units[:1])[0], ()]
    assert dropped_where_short(tiny, [CheckedUnit.of_texts("die pumpe und der motor laufen", "x", "de", "en")]) == [()]
