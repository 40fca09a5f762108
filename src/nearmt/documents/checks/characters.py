"""Characters that should not be there: another script, broken encodings."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from nearmt.corpus.scripts import is_in_wrong_script
from nearmt.documents.checks.base import CheckedUnit, Finding, Severity, listed

_REPLACEMENT = "\ufffd"


class CharacterCheck:
    """Text in a script of another language, and characters that show damage."""

    name = "characters"

    def __call__(self, unit: CheckedUnit) -> Iterator[Finding]:
        if is_in_wrong_script(unit.source_prose, unit.source_lang):
            yield Finding(self.name, Severity.WARNING, "not in a script of the source language")
        elif is_in_wrong_script(unit.target_prose, unit.target_lang):
            yield Finding(self.name, Severity.ERROR, "not in a script of the target language")
        if _REPLACEMENT in unit.target_text and _REPLACEMENT not in unit.source_text:
            message = "the translation has characters that could not be formed (U+FFFD)"
            yield Finding(self.name, Severity.ERROR, message)
        if controls := sorted(_controls(unit.target_text) - _controls(unit.source_text)):
            detail = listed([f"U+{ord(character):04X}" for character in controls])
            yield Finding(self.name, Severity.WARNING, "the translation has control characters", detail)


def _controls(text: str) -> set[str]:
    if text.isprintable():
        return set()
    return {letter for letter in text if unicodedata.category(letter) == "Cc" and letter not in "\t\n\r"}
