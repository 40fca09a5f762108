"""Text that was not translated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from nearmt.corpus.stop_words import is_stop_word
from nearmt.documents.checks.base import CheckedUnit, Finding, Severity

#: Words of a copied text, or of a copied part of it, from which on it is no title or list of names.
_FEWEST, _RUN = 5, 6
_WORD = re.compile(r"[^\W\d_]+(?:['’\-][^\W\d_]+)*")
_AROUND_WORDS = "\"'“”‘’«»„‹›()[]*.,;:!?…"
#: Languages that write all nouns with a capital.
_CAPITAL_NOUNS = frozenset({"de", "lb"})
#: A long text is copied in shorter parts as well; more would only take time.
_MOST_WORDS = 20_000


class UntranslatedCheck:
    """A translation that equals its source, or has a long part of it."""

    name = "untranslated"

    def __call__(self, unit: CheckedUnit) -> Iterator[Finding]:
        if not unit.source_text.strip() and unit.target_text.strip():
            yield Finding(self.name, Severity.WARNING, "there is no source")
        if unit.source_lang == unit.target_lang != "" or not unit.source_words:
            return
        if not unit.target_text.strip():
            yield Finding(self.name, Severity.ERROR, "there is no translation")
            return
        source, target = _words(unit.source_prose), _words(unit.target_prose)
        if source == target:
            severity = _severity_of_copy(source, unit.source_lang, unit.target_lang)
            if severity is not None:
                yield Finding(self.name, severity, "equals the source")
        elif run := _longest_run(source, target):
            yield Finding(self.name, Severity.WARNING, "a part was copied from the source", " ".join(run))


def _words(text: str) -> list[str]:
    """The words between blanks, without punctuation; empty for paths, code and the like."""
    words = [word.strip(_AROUND_WORDS) for word in text.split()[:_MOST_WORDS]]
    return [word if _WORD.fullmatch(word) else "" for word in words]


def _is_prose(words: Sequence[str]) -> bool:
    """Whether most are words in lower case, unlike in names, titles and code."""
    return 2 * sum(word.islower() for word in words) > len(words)


def _severity_of_copy(words: Sequence[str], source_lang: str, target_lang: str) -> Severity | None:
    """How surely a copy should have been translated; None if it may be a name."""
    is_prose = _is_prose(words)
    if is_prose and len(words) >= _FEWEST:
        return Severity.ERROR
    if len(words) < _FEWEST and _is_phrase(words, source_lang, target_lang):
        return Severity.WARNING
    return Severity.INFO if is_prose else None


def _is_phrase(words: Sequence[str], source_lang: str, target_lang: str) -> bool:
    """Whether words begin with a function word that only the source language has, before a word that is no name.

    Names have articles as well, before a capital: *La Scala*. In German, where all nouns have one, *Der Spiegel*
    cannot be told from *Der Hund*.
    """
    if not words or not is_stop_word(words[0], source_lang) or is_stop_word(words[0], target_lang):
        return False
    others = [word for word in words[1:] if word and not is_stop_word(word, source_lang)]
    return any(word.islower() or source_lang in _CAPITAL_NOUNS for word in others)


def _longest_run(source: Sequence[str], target: Sequence[str]) -> Sequence[str]:
    """The longest run of prose that both have, if it is long."""
    starts: dict[tuple[str, ...], int] = {}
    for start in range(len(source) - _RUN + 1):
        starts.setdefault(tuple(source[start : start + _RUN]), start)
    best: Sequence[str] = ()
    position = 0
    while starts and position + _RUN <= len(target):
        start = starts.get(tuple(target[position : position + _RUN]), -1)
        if start < 0:
            position += 1
            continue
        size = _RUN
        while start + size < len(source) and [source[start + size]] == target[position + size : position + size + 1]:
            size += 1
        run = source[start : start + size]
        if len(run) > len(best) and _is_prose(run) and "" not in run:
            best = run
        position += size
    return best
