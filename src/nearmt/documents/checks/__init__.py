"""Checks of a translation against its source, by their texts: one file per check. They need no model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from nearmt.documents.checks.addresses import AddressCheck
from nearmt.documents.checks.base import Check, CheckedUnit, Finding, Severity
from nearmt.documents.checks.capitals import CapitalCheck
from nearmt.documents.checks.characters import CharacterCheck
from nearmt.documents.checks.copies import UntranslatedCheck
from nearmt.documents.checks.length import LengthCheck
from nearmt.documents.checks.negation import NegationCheck
from nearmt.documents.checks.numbers import NumberCheck
from nearmt.documents.checks.placeholders import PlaceholderCheck
from nearmt.documents.checks.punctuation import PunctuationCheck
from nearmt.documents.checks.repetition import RepetitionCheck
from nearmt.documents.checks.space import SpaceCheck
from nearmt.documents.checks.tags import TagCheck

__all__ = ["TEXT_CHECKS", "Check", "CheckedUnit", "Finding", "Severity", "findings_of", "ordered", "text_checks"]

_ALL: tuple[type[Check], ...] = (
    UntranslatedCheck,
    CharacterCheck,
    PlaceholderCheck,
    TagCheck,
    AddressCheck,
    NumberCheck,
    NegationCheck,
    LengthCheck,
    RepetitionCheck,
    SpaceCheck,
    PunctuationCheck,
    CapitalCheck,
)
#: Checks that need nothing but the texts, by name.
TEXT_CHECKS: dict[str, type[Check]] = {check.name: check for check in _ALL}


def text_checks(without: Collection[str] = ()) -> list[Check]:
    return [check() for name, check in TEXT_CHECKS.items() if name not in without]


def findings_of(unit: CheckedUnit, checks: Sequence[Check]) -> tuple[Finding, ...]:
    """Everything that the checks find, the most severe first."""
    return ordered(finding for check in checks for finding in check(unit))


def ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda finding: -finding.severity))
