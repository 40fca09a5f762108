"""Negation that only one side has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from nearmt.documents.checks.base import CheckedUnit, Finding, Severity
from nearmt.documents.checks.negation_words import NEGATIONS, NO_NEGATIONS, RELATED

_TOKEN = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]*)?")


@dataclass(frozen=True)
class _Words:
    negation: re.Pattern[str]
    related: re.Pattern[str]


class NegationCheck:
    """A negated source whose translation has no negation nor a word that may stand for one; and the reverse."""

    name = "negation"

    def __call__(self, unit: CheckedUnit) -> Iterator[Finding]:
        source, target = _words(unit.source_lang), _words(unit.target_lang)
        if source is None or target is None:
            return
        texts = (
            _without_others(unit.source_prose, unit.source_lang),
            _without_others(unit.target_prose, unit.target_lang),
        )
        said, answered = _found(source.negation, texts[0]), _found(target.negation, texts[1])
        if said and not answered and not _found(target.related, unit.target_prose):
            yield Finding(self.name, Severity.WARNING, "the source is negated, the translation is not", said)
        elif answered and not said and not _found(source.related, unit.source_prose):
            yield Finding(self.name, Severity.WARNING, "the translation is negated, the source is not", answered)


@cache
def _words(language: str) -> _Words | None:
    if language not in NEGATIONS:
        return None
    return _Words(_pattern(NEGATIONS[language]), _pattern(RELATED[language]))


def _pattern(words: str) -> re.Pattern[str]:
    return re.compile("|".join(words.replace("*", r"[\w'’]*").split()), re.IGNORECASE)


def _without_others(text: str, language: str) -> str:
    """Leave out phrases that negate nothing."""
    return NO_NEGATIONS[language].sub(" ", text) if language in NO_NEGATIONS else text


def _found(pattern: re.Pattern[str], text: str) -> str:
    """The first word that fits, or nothing."""
    return next((word for word in _TOKEN.findall(text) if pattern.fullmatch(word)), "")
