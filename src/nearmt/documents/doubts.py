"""Signs that a model was given what it cannot translate: another script, unknown characters, another language."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from enum import Enum

from nearmt.corpus.scripts import is_in_wrong_script
from nearmt.models import TranslationModel

_REPLACEMENT = "\ufffd"
_WORD = re.compile(r"[^\W\d_]{3,}")
#: A text of fewer words may well be names, which stay as they are.
_FEWEST_WORDS = 20
#: Words that stay as they are in a translation from another language: mostly names, a tenth or so of all. Of a text
#: in a language that the model does not know most do.
_MOST_COPIED = 0.7
_LINES_NAMED = 5


class Doubt(Enum):
    """Why a unit may not have been translated, for the people who see it next."""

    SCRIPT = "not in a script of the source language"
    UNKNOWN = "mostly characters that the model does not know"
    BROKEN = "the translation has characters that could not be formed (U+FFFD)"


def doubt_about(model: TranslationModel, source: str, target: str) -> Doubt | None:
    """What speaks against the translation of a text."""
    if is_in_wrong_script(source, model.language_pair[0]):
        return Doubt.SCRIPT
    if model.codec.unknown_share(source) > 0.5:
        return Doubt.UNKNOWN
    return Doubt.BROKEN if _REPLACEMENT in target and _REPLACEMENT not in source else None


class Doubts:
    """Doubts about the units of a document, told in a line each, however many units there are."""

    def __init__(self) -> None:
        self._lines: dict[Doubt, list[int]] = defaultdict(list)
        self._words = self._copied = 0
        self._untouched: list[int] = []

    def add(self, line: int, doubt: Doubt | None, source: str, target: str) -> None:
        """Take a unit that was translated into account."""
        if doubt is not None:
            self._lines[doubt].append(line)
            return
        words, found = Counter(_WORD.findall(source.lower())), set(_WORD.findall(target.lower()))
        copied = sum(count for word, count in words.items() if word in found)
        self._words += words.total()
        self._copied += copied
        if copied > _MOST_COPIED * words.total():
            self._untouched.append(line)

    def notes(self) -> list[str]:
        notes = [f"{_named(lines)}: {doubt.value}" for doubt, lines in self._lines.items()]
        if self._words >= _FEWEST_WORDS and self._copied > _MOST_COPIED * self._words:
            told = "most words came out as they are; is this the source language?"
            notes.append(f"{_named(self._untouched)}: {told}")
        return notes


def _named(lines: list[int]) -> str:
    """The first lines, and how many more there are."""
    different = list(dict.fromkeys(lines))
    first, hidden = different[:_LINES_NAMED], len(different) - _LINES_NAMED
    named = ("line " if len(different) == 1 else "lines ") + ", ".join(map(str, first))
    return f"{named} and {hidden:,} more" if hidden > 0 else named
