"""Filled units: the result of filling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from nearmt.contracts import Translation
from nearmt.corpus import Filling, FillingOrigin, Unit, plain_text
from nearmt.documents.checks import Finding, Severity
from nearmt.documents.placeholders import without_placeholders

#: Maximum number of pairs named as the origin of a translation.
_PAIRS_NAMED = 3
MISSED = Finding("index", Severity.WARNING, "the index did not answer: translated without neighbours of the memory")


@dataclass(frozen=True)
class FilledUnit:
    """A unit's filling, its translation, and what was found about it, the most severe first."""

    filling: Filling
    translation: Translation
    findings: tuple[Finding, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to look at, without findings that are only for information."""
        return tuple(str(finding) for finding in self.findings if finding.severity >= Severity.WARNING)


def copied(unit: Unit) -> FilledUnit | None:
    """Copy a unit that has no letters outside of placeholders."""
    text = plain_text(unit.source)
    if any(character.isalpha() for character in without_placeholders(text, unit.printf)):
        return None
    return FilledUnit(Filling(unit.source, FillingOrigin.COPY), Translation(source=text, text=text, score=0.0))


def main_pairs(translation: Translation) -> tuple[str, ...]:
    """Return the pairs with the largest shares in an explained translation."""
    shares: Counter[str] = Counter()
    for token in translation.provenance or ():
        for witness in token.witnesses:
            shares[witness.pair_id] += witness.share  # type: ignore[assignment]  # a Counter adds up floats too
    return tuple(pair_id for pair_id, _ in shares.most_common(_PAIRS_NAMED))


def search_findings(parts: Sequence[Translation]) -> tuple[Finding, ...]:
    """A finding about translations that lack neighbours, because the server of an index did not answer."""
    return (MISSED,) if any(part.missed for part in parts) else ()


def length_findings(parts: Sequence[Translation], positions: int) -> tuple[Finding, ...]:
    """Findings about translations that were cut, or made in several parts to fit the model's positions."""
    findings = []
    if cuts := max((part.source_parts for part in parts), default=1) - 1:
        message = f"longer than the model's {positions} tokens; translated in {cuts + 1} segments"
        findings.append(Finding("length", Severity.WARNING, message))
    if any(part.truncated for part in parts):
        message = "the translation reached its length limit and was cut (see the setting max-new-tokens)"
        findings.append(Finding("length", Severity.ERROR, message))
    return tuple(findings)
