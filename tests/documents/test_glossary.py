"""What a memory knows about the terms of a glossary."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from nearmt.config.filling import FillConfig
from nearmt.contracts import Pair
from nearmt.corpus.glossary import Term, TermStatus
from nearmt.datastore.search.matches import SegmentSources, SourceLookup
from nearmt.datastore.search.snapshot import Snapshot
from nearmt.documents.glossary import Glossary, terms_of
from nearmt.errors import InputError
from tests.datastore.helpers import in_memory

PAIRS = [
    Pair("Alle Ventile sind zu.", "All valves are closed.", "1"),
    Pair("Ventile prüfen", "Valves to check", "2"),
    Pair("Der Betreiber haftet.", "The operator is liable.", "3"),
    Pair("Betreiber rufen", "Call the operator", "4"),
    Pair("Der Betreiber zahlt.", "The plant owner pays.", "5"),
]
TERMS = [
    Term("Ventil", "valve"),
    Term("Betreiber", "plant owner"),
    Term("Betreiber", "owner"),
    Term("Pumpe", "pump"),
    Term("Nora", "Nora", TermStatus.KEEP),
]


def glossary(pairs: list[Pair] | None) -> Glossary:
    lookup = None if pairs is None else cast(Snapshot, SourceLookup([SegmentSources(in_memory(pairs))], None))
    return Glossary(TERMS, lookup, "de")


def test_forms_are_those_of_pairs_with_the_same_form() -> None:
    found = glossary(PAIRS)
    assert [options for _, _, options in found.find("Ventile und ein Ventil")] == [("valves",), ("valve",)]
    assert [options for _, _, options in glossary(None).find("Ventile")] == [("valve",)]


def test_terms_that_the_memory_translates_otherwise() -> None:
    found = glossary(PAIRS)
    assert found.contradicted("Die Pumpe und die Ventile von Nora") == [] and found.conflicts == []
    (conflict,) = found.contradicted("Die Betreiber")
    assert found.conflicts == [conflict]
    assert str(conflict) == (
        "glossary: Betreiber → plant owner | owner, but the memory has that in 1 of 3 pairs; not in pair 4"
    )


def test_stored_translations_without_a_term() -> None:
    found = glossary(PAIRS)
    assert found.lacks("Der Betreiber von Nora prüft Ventile", "Nora's operator checks valves") == ["Betreiber"]
    assert found.lacks("Der Betreiber", "the owners") == []


def test_a_list_of_terms_that_stay(tmp_path: Path) -> None:
    path = tmp_path / "names.txt"
    path.write_text("# Namen\nBlaue Wolke\n\n  Nora \nNora\n", encoding="utf-8")
    terms = terms_of(FillConfig(keep=str(path)), ("de", "en"))
    assert [(term.source, term.status) for term in terms] == [
        ("Blaue Wolke", TermStatus.KEEP),
        ("Nora", TermStatus.KEEP),
        ("Nora", TermStatus.KEEP),
    ]
    path.write_text("# nichts\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"names\.txt: has no terms"):
        terms_of(FillConfig(keep=str(path)), ("de", "en"))
