"""Counts of findings, and the first lines of each kind."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from nearmt.documents.checks.base import Finding, Severity

_WORD = re.compile(r"[^\W\d_]{3,}")
#: Shorter texts may consist of names, which are copied.
_FEWEST_WORDS = 20
#: Largest plausible share of copied words. Usually about a tenth of the words are names; in a language that the model
#: does not know, most words are copied.
_MOST_COPIED = 0.7
_LINES_NAMED = 5
_DETAILS_NAMED = 3
_LONGEST_DETAIL = 60


@dataclass
class _Kind:
    """The findings with one message."""

    count: int = 0
    lines: list[int] = field(default_factory=list)
    different_lines: int = 0
    details: list[str] = field(default_factory=list)

    def add(self, line: int, detail: str) -> None:
        self.count += 1
        if not self.lines or line != self.lines[-1]:
            self.different_lines += 1
            self.lines[_LINES_NAMED:] = [line]
        if detail and len(self.details) < _DETAILS_NAMED and detail not in self.details:
            self.details.append(detail)

    def named(self) -> str:
        """The first lines, and the number of others."""
        first, hidden = self.lines[:_LINES_NAMED], self.different_lines - _LINES_NAMED
        text = ("line " if self.different_lines == 1 else "lines ") + ", ".join(map(str, first))
        return f"{text} and {hidden:,} more" if hidden > 0 else text


@dataclass
class FindingSummary:
    """Collects the findings of a document and reports each kind in one line."""

    #: Findings by check and severity.
    counts: Counter[tuple[str, Severity]] = field(default_factory=Counter)
    #: Units that were checked, and those with findings by their most severe one.
    units: int = 0
    units_with: Counter[Severity] = field(default_factory=Counter)
    _kinds: dict[tuple[Severity, str], _Kind] = field(default_factory=lambda: defaultdict(_Kind))
    _words: int = 0
    _copied: int = 0
    _copied_lines: _Kind = field(default_factory=_Kind)

    def add(self, line: int, findings: Iterable[Finding], source: str = "", target: str = "") -> None:
        """Add a unit; source and target, if given, count for the share of copied words."""
        found = tuple(findings)
        self.units += 1
        if found:
            self.units_with[max(finding.severity for finding in found)] += 1
        for finding in found:
            self.counts[finding.check, finding.severity] += 1
            self._kinds[finding.severity, finding.message].add(line, finding.detail)
        words, target_words = Counter(_WORD.findall(source.lower())), set(_WORD.findall(target.lower()))
        copied = sum(count for word, count in words.items() if word in target_words)
        self._words += words.total()
        self._copied += copied
        if copied > _MOST_COPIED * words.total():
            self._copied_lines.add(line, "")

    def count(self, severity: Severity) -> int:
        return sum(count for (_, found), count in self.counts.items() if found is severity)

    def notes(self, least: Severity = Severity.WARNING) -> list[str]:
        """One line for each kind of finding of at least this severity, the most severe first."""
        kinds = sorted(self._kinds.items(), key=lambda item: -item[0][0])
        notes = [_note(message, kind) for (severity, message), kind in kinds if severity >= least]
        if self.is_copied:
            copied = self._copied_lines.named()
            notes.append(f"{copied}: most words were copied unchanged; is this the source language?")
        return notes

    @property
    def is_copied(self) -> bool:
        """Whether most words of the document were copied: it may be in the target language already."""
        return self._words >= _FEWEST_WORDS and self._copied > _MOST_COPIED * self._words

    def counted(self) -> str:
        """The counts by severity and check in one line; empty without findings."""
        parts = []
        for severity in sorted(Severity, reverse=True):
            checks = [f"{check} {count:,}" for (check, found), count in self.counts.most_common() if found is severity]
            if checks:
                count = self.count(severity)
                plural = "" if count == 1 or severity is Severity.INFO else "s"
                parts.append(f"{count:,} {severity.label}{plural} ({', '.join(checks)})")
        return ", ".join(parts)

    def fields(self) -> dict[str, Any]:
        """The counts as plain values, for JSON."""
        checks: dict[str, dict[str, int]] = {}
        for (check, severity), count in self.counts.items():
            checks.setdefault(check, {})[severity.label] = count
        units_with = {severity.label: self.units_with[severity] for severity in reversed(Severity)}
        by_severity = {severity.label: self.count(severity) for severity in reversed(Severity)}
        return {"units": self.units, "units_with": units_with, "findings": by_severity, "checks": checks}

    def state(self) -> dict[str, Any]:
        """Everything as plain values, of bounded size."""
        return {
            "counts": [[check, severity.value, count] for (check, severity), count in self.counts.items()],
            "units": self.units,
            "units_with": [[severity.value, count] for severity, count in self.units_with.items()],
            "kinds": [[severity.value, message, vars(kind)] for (severity, message), kind in self._kinds.items()],
            "words": self._words,
            "copied": self._copied,
            "copied_lines": vars(self._copied_lines),
        }

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> FindingSummary:
        found = cls(units=state["units"], _words=state["words"], _copied=state["copied"])
        found.counts.update({(check, Severity(value)): count for check, value, count in state["counts"]})
        found.units_with.update({Severity(value): count for value, count in state["units_with"]})
        found._kinds.update({(Severity(value), message): _Kind(**kind) for value, message, kind in state["kinds"]})
        found._copied_lines = _Kind(**state["copied_lines"])
        return found


def _note(message: str, kind: _Kind) -> str:
    details = [detail if len(detail) <= _LONGEST_DETAIL else detail[:_LONGEST_DETAIL] + "…" for detail in kind.details]
    shown = f": {'; '.join(details)}{'; …' if kind.count > len(kind.details) else ''}" if details else ""
    return f"{kind.named()}: {message}{shown}"
