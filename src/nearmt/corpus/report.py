"""What happened while files were read: nothing is left out without being counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearmt.corpus.limits import USUAL_LIMITS, LimitsConfig
from nearmt.errors import InputError

#: Problems that are kept word for word; beyond them only their number is.
_KEPT = 1000
#: Characters of a problem: some quote the file.
_LONGEST = 500
_LONGEST_CODE = 50


@dataclass(frozen=True)
class Request:
    """What readers are asked for."""

    source_lang: str | None = None
    target_lang: str | None = None
    #: Also what nobody has confirmed: fuzzy entries, states before `translated`.
    unconfirmed: bool = False
    limits: LimitsConfig = USUAL_LIMITS
    #: What the ids of a file's units begin with, if not with its name.
    file_name: str = ""

    def identity(self, path: Path, *names: str) -> str:
        """The id of a unit of a file, by what it is called there."""
        return ":".join([self.file_name or path.name, *(name for name in names if name)])


@dataclass
class Report:
    """Counts of one reading. In strict mode the first problem ends it."""

    strict: bool = False
    #: Units met, whatever became of them.
    units: int = 0
    #: Pairs given out.
    pairs: int = 0
    #: Units left out for what they are (`fuzzy`, `untranslated`, ...), by reason.
    skipped: Counter[str] = field(default_factory=Counter)
    #: Pairs dropped and pairs changed, by cleaning rule.
    dropped: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)
    #: Segments by language code, where files name their languages.
    languages: Counter[str] = field(default_factory=Counter)
    #: Units and files that could not be read: one line each, with file, line and reason.
    problems: list[str] = field(default_factory=list)
    problem_count: int = 0

    def problem(self, path: Path, line: int | None, reason: str) -> None:
        """Something cannot be read: go on without it, or not at all."""
        where = f"{path}, line {line}" if line else str(path)
        self.failure(InputError(f"{where}: {reason}"))

    def failure(self, error: InputError) -> None:
        """The same, for an error that ended the reading of a file."""
        if self.strict:
            raise error
        self.problem_count += 1
        if len(self.problems) < _KEPT:
            self.problems.append(_shortened(str(error)))

    def count_language(self, code: str) -> None:
        """Count a segment of a language; codes beyond all measure are one language."""
        known = len(code) <= _LONGEST_CODE and (code in self.languages or len(self.languages) < _KEPT)
        self.languages[code if known else "…"] += 1

    def summary(self) -> dict[str, Any]:
        """As plain values, for machines."""
        return {
            "units": self.units,
            "pairs": self.pairs,
            "skipped": dict(self.skipped),
            "dropped": dict(self.dropped),
            "changed": dict(self.changed),
            "languages": dict(self.languages),
            "problems": self.problems,
            "problem_count": self.problem_count,
        }


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
