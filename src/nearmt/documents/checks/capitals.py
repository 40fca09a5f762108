"""The first letter: upper or lower case."""

from __future__ import annotations

from collections.abc import Iterator

from nearmt.documents.checks.base import CheckedUnit, Finding, Severity

#: Languages that capitalise nouns, so that a capital says nothing where no sentence begins.
_NOUNS = ("de", "lb")
_SENTENCE_ENDS = (".", "!", "?", "…", "。", "？", "！")


class CapitalCheck:
    """A first letter whose case differs from the source."""

    name = "capitals"

    def __call__(self, unit: CheckedUnit) -> Iterator[Finding]:
        source, target = _first_letter(unit.source_text), _first_letter(unit.target_text)
        if not _cased(source) or not _cased(target) or source.islower() == target.islower():
            return
        is_sentence = unit.target_text.rstrip().endswith(_SENTENCE_ENDS) and len(unit.target_words) > 2
        capital, other = (
            (unit.source_lang, unit.target_lang) if target.islower() else (unit.target_lang, unit.source_lang)
        )
        if not is_sentence and capital in _NOUNS and other not in _NOUNS:
            return
        begins = unit.target_text.lstrip()[:1] == target  # not after a bullet or a bracket
        severity = Severity.WARNING if is_sentence and begins and target.islower() else Severity.INFO
        detail = f"{source} became {target}"
        yield Finding(self.name, severity, "the case of the first letter differs from the source", detail)


def _first_letter(text: str) -> str:
    """The first character that is a letter or a digit."""
    return next((character for character in text if character.isalnum()), "")


def _cased(letter: str) -> bool:
    return letter.islower() != letter.isupper()
