"""Short ways to check a pair."""

from __future__ import annotations

from nearmt.corpus import Segment
from nearmt.documents.checks import Check, CheckedUnit


def found(check: Check, source: str, target: str, languages: str = "de en") -> list[str]:
    """What a check says about a pair: `severity: message: detail`."""
    unit = CheckedUnit.of_texts(source, target, *languages.split()) if languages else CheckedUnit((source,), (target,))
    return [f"{finding.severity.label}: {finding}" for finding in check(unit)]


def found_in_segments(check: Check, source: Segment, target: Segment) -> list[str]:
    return [f"{finding.severity.label}: {finding}" for finding in check(CheckedUnit(source, target))]
