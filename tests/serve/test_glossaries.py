"""Stored glossaries."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearmt.corpus.glossary import Term, TermStatus
from nearmt.errors import InputError
from nearmt.serve import glossaries as module
from nearmt.serve.errors import Forbidden, NotFound, TooMany
from nearmt.serve.glossaries import Glossaries, terms_of_tsv
from nearmt.serve.keys import ANONYMOUS, Principal

OTHER = Principal("other", None, frozenset())
DE_EN = ("de", "en")


@pytest.fixture
def glossaries(tmp_path: Path) -> Glossaries:
    return Glossaries(tmp_path / "glossaries")


def texts(terms: tuple[Term, ...]) -> list[tuple[str, str]]:
    return [(term.source, term.target) for term in terms]


def test_a_glossary_is_there_after_a_restart(glossaries: Glossaries) -> None:
    terms = [Term(" Pumpe ", "pump"), Term("Welle", "wave", TermStatus.FORBIDDEN)]
    made = glossaries.create(ANONYMOUS, "Pumpen", {("de-AT", "EN"): terms, ("de", "fr"): [Term("Welle", "arbre")]})
    again = Glossaries(glossaries.folder)
    assert again.all(ANONYMOUS) == [made]
    assert texts(again.terms(ANONYMOUS, made.id, "de", "en-US")) == [("Pumpe", "pump"), ("Welle", "wave")]
    assert again.terms(ANONYMOUS, made.id, "de", "en")[1].status is TermStatus.FORBIDDEN


def test_a_glossary_is_changed_by_direction(glossaries: Glossaries) -> None:
    made = glossaries.create(ANONYMOUS, "a", {DE_EN: [Term("a", "b")]})
    glossaries.change(ANONYMOUS, made.id, name="b")
    glossaries.change(ANONYMOUS, made.id, terms={("de", "fr"): [Term("c", "d")]})
    found = glossaries.get(ANONYMOUS, made.id)
    assert (found.name, list(found.terms)) == ("b", [DE_EN, ("de", "fr")])
    glossaries.change(ANONYMOUS, made.id, terms={DE_EN: []})
    assert list(Glossaries(glossaries.folder).get(ANONYMOUS, made.id).terms) == [("de", "fr")]
    with pytest.raises(InputError, match="is for de to fr"):
        glossaries.terms(ANONYMOUS, made.id, *DE_EN)


def test_a_deleted_glossary_leaves_nothing(glossaries: Glossaries) -> None:
    made = glossaries.create(ANONYMOUS, "a", {DE_EN: [Term("a", "b")]})
    glossaries.delete(ANONYMOUS, made.id)
    assert list(glossaries.folder.iterdir()) == []
    assert glossaries.all(ANONYMOUS) == []


def test_others_do_not_see_it(glossaries: Glossaries) -> None:
    made = glossaries.create(ANONYMOUS, "a", {DE_EN: [Term("a", "b")]})
    assert glossaries.all(OTHER) == []
    with pytest.raises(NotFound):
        glossaries.get(OTHER, made.id)
    with pytest.raises(NotFound):
        glossaries.change(OTHER, made.id, name="b")
    with pytest.raises(NotFound):
        glossaries.delete(OTHER, made.id)
    with pytest.raises(NotFound):
        glossaries.get(ANONYMOUS, "../../etc/passwd")


@pytest.mark.parametrize(
    ("name", "direction", "terms"),
    [
        ("", DE_EN, [Term("a", "b")]),
        (" ", DE_EN, [Term("a", "b")]),
        ("a\nb", DE_EN, [Term("a", "b")]),
        ("\ud800", DE_EN, [Term("a", "b")]),
        ("a", ("../x", "en"), [Term("a", "b")]),
        ("a", DE_EN, []),
        ("a", DE_EN, [Term("a", " ")]),
        ("a", DE_EN, [Term("\ud800", "b")]),
        ("a", DE_EN, [Term("a", "b" * 301)]),
        ("a", DE_EN, [Term("a", "b")] * 10_001),
    ],
)
def test_what_is_no_glossary_is_refused(
    glossaries: Glossaries, name: str, direction: tuple[str, str], terms: list[Term]
) -> None:
    with pytest.raises(InputError):
        glossaries.create(ANONYMOUS, name, {direction: terms})
    assert glossaries.all(ANONYMOUS) == []


def test_glossaries_are_bounded(glossaries: Glossaries, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_GLOSSARIES", 1)
    glossaries.create(ANONYMOUS, "a", {DE_EN: [Term("a", "b")]})
    with pytest.raises(TooMany):
        glossaries.create(ANONYMOUS, "b", {DE_EN: [Term("a", "b")]})
    glossaries.create(OTHER, "b", {DE_EN: [Term("a", "b")]})


def test_a_damaged_file_is_passed_over(glossaries: Glossaries) -> None:
    made = glossaries.create(ANONYMOUS, "a", {DE_EN: [Term("a", "b")]})
    (glossaries.folder / "broken.json").write_text('{"id": 1')
    (glossaries.folder / "other.json").write_text("[]")
    assert Glossaries(glossaries.folder).all(ANONYMOUS) == [made]


def test_a_server_that_only_reads_changes_none(glossaries: Glossaries) -> None:
    made = glossaries.create(ANONYMOUS, "a", {DE_EN: [Term("a", "b")]})
    reading = Glossaries(glossaries.folder, read_only=True)
    assert reading.all(ANONYMOUS) == [made]
    with pytest.raises(Forbidden):
        reading.create(ANONYMOUS, "b", {DE_EN: [Term("a", "b")]})
    with pytest.raises(Forbidden):
        reading.delete(ANONYMOUS, made.id)


def test_entries_are_read_from_lines() -> None:
    assert terms_of_tsv("a\tb\r\n\nc d\te f\n") == [Term("a", "b", line=1), Term("c d", "e f", line=3)]
    for bad in ("a", "a\tb\tc"):
        with pytest.raises(InputError, match="line 1"):
            terms_of_tsv(bad)
