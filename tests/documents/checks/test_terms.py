"""Terms of a glossary in texts."""

from __future__ import annotations

import pytest

from nearmt.corpus.glossary import Term, TermStatus
from nearmt.documents.checks.terms import TermCheck
from tests.documents.checks.helpers import found

TERMS = [
    Term("Ventil", "valve"),
    Term("Hauptventil", "master valve"),
    Term("Batterie", "battery"),
    Term("Batterie", "cell"),
    Term("Störung", "fault"),
    Term("Störung", "error", TermStatus.FORBIDDEN),
    Term("Tropfwart", "Tropfwart", TermStatus.KEEP),
    Term("ACK", "receipt"),
    Term("öffentliches Netz", "public network"),
    Term("", "utilize", TermStatus.FORBIDDEN),
]
CHECK = TermCheck(TERMS)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Das Hauptventil ist auf.", "The master valve is open."),
        ("Die Ventile sind auf.", "The valves are open."),
        ("Die Batterien sind leer.", "The batteries are empty."),
        ("Die Batterie ist leer.", "The cell is empty."),
        ("Nach einer Störung", "After a fault"),
        ("Der Tropfwart läuft.", "The Tropfwart is running."),
        ("ein Ack ist kein Wort", "an ack is no word"),
        ("in öffentlichen Netzen", "in public networks"),
        ("kein Begriff", "no term"),
        ("Das Hauptventil", " "),
    ],
)
def test_right_terms(source: str, target: str) -> None:
    assert found(CHECK, source, target) == []


def test_forms_that_are_listed_are_terms_of_their_own() -> None:
    check = TermCheck([Term("Ventil", "valve"), Term("Ventile", "valves")], "de")
    assert found(check, "Das Ventil klemmt.", "The valve is stuck.") == []
    assert found(check, "Ventil und Ventile", "valve") == [
        "warning: terms of the glossary are missing: Ventile → valves"
    ]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (
            "Das Hauptventil ist auf.",
            "The main valve is open.",
            ["warning: terms of the glossary are missing: Hauptventil → master valve"],
        ),
        ("Batterie", "accu", ["warning: terms of the glossary are missing: Batterie → battery | cell"]),
        ("Störung", "error, fault", ["error: the glossary forbids these terms: error"]),
        ("Der Tropfwart", "The drip guard", ["error: these terms must not be translated: Tropfwart"]),
        ("das ACK", "the ack", ["warning: terms of the glossary are missing: ACK → receipt"]),
        ("irgendwas", "to utilize it", ["error: the glossary forbids these terms: utilize"]),
    ],
)
def test_wrong_terms(source: str, target: str, expected: list[str]) -> None:
    assert found(CHECK, source, target) == expected


def test_a_term_inside_a_longer_one_does_not_count() -> None:
    check = TermCheck([Term("Ventil", "valve"), Term("Ventil auf", "go ahead")])
    assert found(check, "Ventil auf", "go ahead") == []
    assert len(found(check, "Ventil auf, Ventil zu", "go ahead")) == 1


def test_signs_and_single_letters_are_terms() -> None:
    check = TermCheck([Term("C++", "C plus plus"), Term("(a.)", "[b.]"), Term("→", "to")])
    assert found(check, "in C++ und (a.) →", "in C plus plus and [b.]") == [
        "warning: terms of the glossary are missing: → → to"
    ]
