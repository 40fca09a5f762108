"""Signs that a text could not be translated: another script, unknown characters, another language."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from enum import Enum

from nearmt.corpus.scripts import is_in_wrong_script
from nearmt.models import TranslationModel

_REPLACEMENT = "\ufffd"
_WORD = re.compile(r"[^\W\d_]{3,}")
#: Shorter texts may consist of names, which are copied.
_FEWEST_WORDS = 20
#: Largest plausible share of copied words. Usually about a tenth of the words are names; in a language that the model
#: does not know, most words are copied.
_MOST_COPIED = 0.7
_LINES_NAMED = 5


class Issue(Enum):
    """Why a unit may not have been translated."""

    SCRIPT = "not in a script of the source language"
    UNKNOWN = "mostly characters that the model does not know"
    BROKEN = "the translation has characters that could not be formed (U+FFFD)"


def find_issue(model: TranslationModel, source: str, target: str) -> Issue | None:
    """Return the first sign against a translation."""
    if is_in_wrong_script(source, model.language_pair[0]):
        return Issue.SCRIPT
    if model.codec.unknown_share(source) > 0.5:
        return Issue.UNKNOWN
    return Issue.BROKEN if _REPLACEMENT in target and _REPLACEMENT not in source else None


class IssueSummary:
    """Collects the issues of a document and reports each kind in one line."""

    def __init__(self) -> None:
        self._lines: dict[Issue, list[int]] = defaultdict(list)
        self._words = self._copied = 0
        self._copied_lines: list[int] = []

    def add(self, line: int, issue: Issue | None, source: str, target: str) -> None:
        """Add a translated unit."""
        if issue is not None:
            self._lines[issue].append(line)
            return
        words, found = Counter(_WORD.findall(source.lower())), set(_WORD.findall(target.lower()))
        copied = sum(count for word, count in words.items() if word in found)
        self._words += words.total()
        self._copied += copied
        if copied > _MOST_COPIED * words.total():
            self._copied_lines.append(line)

    def notes(self) -> list[str]:
        notes = [f"{_named(lines)}: {issue.value}" for issue, lines in self._lines.items()]
        if self._words >= _FEWEST_WORDS and self._copied > _MOST_COPIED * self._words:
            notes.append(
                f"{_named(self._copied_lines)}: most words were copied unchanged; is this the source language?"
            )
        return notes


def _named(lines: list[int]) -> str:
    """List the first lines, and the number of others."""
    different = list(dict.fromkeys(lines))
    first, hidden = different[:_LINES_NAMED], len(different) - _LINES_NAMED
    named = ("line " if len(different) == 1 else "lines ") + ", ".join(map(str, first))
    return f"{named} and {hidden:,} more" if hidden > 0 else named
