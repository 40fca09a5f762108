"""Filled units: the result of filling."""

from __future__ import annotations

from dataclasses import dataclass

from nearmt.contracts import Translation
from nearmt.corpus import Filling
from nearmt.documents.checks import Finding, Severity


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
