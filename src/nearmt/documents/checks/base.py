"""What every check has: a unit with its translation in, findings out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Protocol

from nearmt.corpus import Segment, plain_text
from nearmt.documents.checks.spans import prose
from nearmt.languages import base_language

#: A word of letters, with inner apostrophes and hyphens.
_WORD = re.compile(r"[^\W\d_]+(?:['’\-][^\W\d_]+)*")


class Severity(IntEnum):
    """How surely a finding is a mistake that a reader would object to."""

    INFO = 0
    WARNING = 1
    ERROR = 2

    @property
    def label(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Finding:
    """What a check has found in a unit."""

    check: str
    severity: Severity
    #: The same for all findings of a kind.
    message: str
    #: What it is about in this unit: words, numbers, placeholders.
    detail: str = ""

    def fields(self) -> dict[str, str]:
        """As plain values, for JSON."""
        fields = {"check": self.check, "severity": self.severity.label, "message": self.message}
        return fields | ({"detail": self.detail} if self.detail else {})

    def __str__(self) -> str:
        return f"{self.message}: {self.detail}" if self.detail else self.message


@dataclass(frozen=True)
class CheckedUnit:
    """A text and its translation. Languages are base codes such as `de`, and empty if unknown."""

    source: Segment
    target: Segment
    source_lang: str = ""
    target_lang: str = ""
    #: Whether `%s` and similar are placeholders; None if the document does not say.
    printf: bool | None = None

    @classmethod
    def of_texts(cls, source: str, target: str, source_lang: str = "", target_lang: str = "") -> CheckedUnit:
        return cls((source,), (target,), base_language(source_lang), base_language(target_lang))

    @cached_property
    def source_text(self) -> str:
        return plain_text(self.source)

    @cached_property
    def target_text(self) -> str:
        return plain_text(self.target)

    @cached_property
    def source_prose(self) -> str:
        """The text without placeholders and addresses."""
        return prose(self.source_text, self.printf)

    @cached_property
    def target_prose(self) -> str:
        return prose(self.target_text, self.printf)

    @cached_property
    def source_words(self) -> list[str]:
        return _WORD.findall(self.source_prose)

    @cached_property
    def target_words(self) -> list[str]:
        return _WORD.findall(self.target_prose)


class Check(Protocol):
    """Compares a translation with its source."""

    #: What users call it.
    name: str

    def __call__(self, unit: CheckedUnit) -> Iterator[Finding]: ...


def listed(items: list[str], most: int = 5) -> str:
    """The first items in one line, and the number of others."""
    shown = ", ".join(" ".join(item.split()) for item in items[:most])
    return f"{shown} and {len(items) - most:,} more" if len(items) > most else shown
