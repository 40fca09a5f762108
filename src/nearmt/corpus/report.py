"""Counts and problems of reading files; everything left out is counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearmt.corpus.labels import NO_LABELS, LabelsConfig
from nearmt.corpus.limits import DEFAULT_LIMITS, LimitsConfig
from nearmt.errors import InputError
from nearmt.languages import same_language

#: Maximum number of problems kept as text; further ones are only counted.
_KEPT = 1000
#: Maximum length of a problem, which may quote the file.
_LONGEST = 500
_LONGEST_CODE = 50


@dataclass(frozen=True)
class Request:
    """What readers should return."""

    source_lang: str | None = None
    target_lang: str | None = None
    #: Include unconfirmed pairs: fuzzy entries, states before `translated`.
    unconfirmed: bool = False
    limits: LimitsConfig = DEFAULT_LIMITS
    #: The languages of files that the user gives, whatever the files say.
    labels: LabelsConfig = NO_LABELS
    #: Prefix of the ids of a file's units, if not its name.
    file_name: str = ""

    def is_reversed(self, source: str | None, target: str | None) -> bool | None:
        """Whether the sides of a file of these languages have to be swapped; None if it is of other languages.

        The languages that the user gives take the place of those of the file. A missing language fits all.
        """
        source, target = self.labels.pair or (source, target)
        if same_language(source, self.source_lang) and same_language(target, self.target_lang):
            return False
        if same_language(target, self.source_lang) and same_language(source, self.target_lang):
            return True
        return None

    def identity(self, path: Path, *names: str) -> str:
        """Make the id of a unit from its names within the file."""
        return ":".join([self.file_name or path.name, *(name for name in names if name)])


@dataclass
class Report:
    """Counts of one reading. In strict mode the first problem is raised as an error."""

    strict: bool = False
    #: All units, including those left out.
    units: int = 0
    #: Pairs returned.
    pairs: int = 0
    #: Units left out, by reason (`fuzzy`, `untranslated`, ...).
    skipped: Counter[str] = field(default_factory=Counter)
    #: Pairs dropped and pairs changed, by cleaning rule.
    dropped: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)
    #: Segments by language code, if files name their languages.
    languages: Counter[str] = field(default_factory=Counter)
    #: Unreadable units and files: one line each, with file, line and reason.
    problems: list[str] = field(default_factory=list)
    problem_count: int = 0
    #: How a file was understood where that is not certain, one line each: the columns of a table.
    notes: list[str] = field(default_factory=list)

    def note(self, path: Path, text: str) -> None:
        """Record how a file was understood."""
        if len(self.notes) < _KEPT:
            self.notes.append(_shortened(f"{path}: {text}"))

    def problem(self, path: Path, line: int | None, reason: str) -> None:
        """Record an unreadable unit, or raise an error in strict mode."""
        where = f"{path}, line {line}" if line else str(path)
        self.failure(InputError(f"{where}: {reason}"))

    def failure(self, error: InputError) -> None:
        """Record an error that ended the reading of a file, or raise it in strict mode."""
        if self.strict:
            raise error
        self.problem_count += 1
        if len(self.problems) < _KEPT:
            self.problems.append(_shortened(str(error)))

    def count_language(self, code: str) -> None:
        """Count a segment of a language; overlong codes, and those beyond a maximum, are counted together."""
        known = len(code) <= _LONGEST_CODE and (code in self.languages or len(self.languages) < _KEPT)
        self.languages[code if known else "…"] += 1

    def summary(self) -> dict[str, Any]:
        """Convert to plain values, for JSON."""
        return {
            "units": self.units,
            "pairs": self.pairs,
            "skipped": dict(self.skipped),
            "dropped": dict(self.dropped),
            "changed": dict(self.changed),
            "languages": dict(self.languages),
            "problems": self.problems,
            "problem_count": self.problem_count,
            "notes": self.notes,
        }


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
