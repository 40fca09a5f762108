"""The columns of a table that hold source and target, by the names in its first row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nearmt.corpus.report import Request
from nearmt.errors import InputError
from nearmt.languages import CODE_OF_NAME, ENGLISH_NAME, base_language, best_fit

_SOURCE_NAMES = frozenset({"source", "source text", "src"})
_TARGET_NAMES = frozenset({"target", "target text", "tgt", "translation"})
_CODE = re.compile(r"[A-Za-z]{2,3}(?:[-_@][A-Za-z0-9]{2,8})*")
# `German (de)`, `Text [de-AT]`
_IN_BRACKETS = re.compile(r"(.*?)\s*[(\[]([^()\[\]]*)[)\]]")
#: Codes that are usual names of other columns; they count only if their language is asked for.
_OTHER_WORDS = frozenset({"id", "no"})


@dataclass(frozen=True)
class Columns:
    """Columns of a table, counted from 0, and the names of all columns if it has a header."""

    source: int = 0
    target: int = 1
    names: tuple[str, ...] = ()

    @property
    def last(self) -> int:
        return max(self.source, self.target)

    def named(self, column: int) -> str:
        return f" '{self.names[column]}'" if self.names else ""

    def metadata(self, row: Sequence[str]) -> dict[str, str]:
        """Return the texts of the other columns by their names."""
        others = [number for number in range(len(self.names)) if number not in (self.source, self.target)]
        cells = {self.names[number]: row[number] for number in others if number < len(row)}
        return {name: text for name, text in cells.items() if name and text}


@dataclass(frozen=True)
class HalfHeader:
    """A header that names only one of the two languages."""

    name: str
    missing: str

    def error(self, path: Path) -> InputError:
        return InputError(
            f"{path}: the first row names the column '{self.name}', but none for the {self.missing}; "
            "name both by language (de, German) or as source and target"
        )


def columns_of(row: Sequence[str], request: Request) -> Columns | HalfHeader | None:
    """Find the columns that a first row names; None if it is no header."""
    names = tuple(cell.strip().removeprefix("\ufeff") for cell in row)
    source = _by_language(names, request.source_lang)
    target = _by_language(names, request.target_lang)
    half = (source is None) != (target is None)
    named = source if source is not None else target
    source = _by_word(names, _SOURCE_NAMES) if source is None else source
    target = _by_word(names, _TARGET_NAMES) if target is None else target
    if (source is None or target is None) and not (request.source_lang and request.target_lang):
        source, target = _first_languages(names)
    if source is not None and target is not None and source != target:
        return Columns(source, target, names)
    if half and named is not None:
        return HalfHeader(names[named], "target language" if target is None else "source language")
    return None


def _by_language(names: Sequence[str], wanted: str | None) -> int | None:
    if not wanted:
        return None
    columns = [(code, number) for number, name in enumerate(names) for code in _codes(name)]
    # Of `ID` and `id`, the second is more likely a language.
    return best_fit(sorted(columns, key=lambda column: column[0] != wanted), wanted)


def _by_word(names: Sequence[str], words: frozenset[str]) -> int | None:
    return next((number for number, name in enumerate(names) if name.lower() in words), None)


def _first_languages(names: Sequence[str]) -> tuple[int | None, int | None]:
    """Return the first two columns that name languages, where no languages are asked for."""
    found = [number for number, name in enumerate(names) if name.lower() not in _OTHER_WORDS and _codes(name)]
    return (found[0], found[1]) if len(found) > 1 else (None, None)


def _codes(name: str) -> list[str]:
    """Return the language codes that a name stands for: its own, that of its beginning, or that in brackets."""
    brackets = _IN_BRACKETS.fullmatch(name)
    for text in (name, *(brackets.groups() if brackets else ())):
        if text.lower() in CODE_OF_NAME:
            return [CODE_OF_NAME[text.lower()]]
        if _CODE.fullmatch(text) and base_language(text) in ENGLISH_NAME:
            return [text]
    return []
