"""Terms of a glossary."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from nearmt.corpus.glossary import Term, TermStatus
from nearmt.documents.checks.base import CheckedUnit, Finding, Severity, listed

_WORD = re.compile(r"\w+")
#: Longer words may be inflected: what comes after their stem, and letters that the stem may lack.
_INFLECTED_FROM, _ENDING = 4, 4
#: Letters by which terms are looked up.
_KEY = 3


@dataclass(frozen=True)
class _Phrase:
    """A term as it may stand in a text: inflected, and in any case unless it is an abbreviation."""

    text: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        words = _WORD.findall(self.text)
        is_name = any(word[1:] != word[1:].lower() for word in words)
        parts = [_inflected(word) if word in words and not is_name else re.escape(word) for word in self._pieces()]
        return re.compile(rf"(?<!\w){''.join(parts)}(?!\w)", 0 if is_name else re.IGNORECASE)

    def _pieces(self) -> list[str]:
        """Words, and what is between them."""
        return [piece for piece in re.split(r"(\W+)", self.text) if piece]

    def key(self) -> str:
        found = _WORD.search(self.text)
        return found.group()[:_KEY].casefold() if found else ""


@dataclass
class _Concept:
    """A source term with everything that the glossary says about it."""

    source: _Phrase
    allowed: list[_Phrase]
    forbidden: list[_Phrase]
    keep: bool = False


class TermCheck:
    """Terms without the translation that the glossary gives, forbidden translations, names that were translated."""

    name = "terms"

    def __init__(self, terms: Iterable[Term] = ()) -> None:
        self._concepts: dict[str, list[_Concept]] = defaultdict(list)
        self._banned: dict[str, list[_Phrase]] = defaultdict(list)
        by_source: dict[str, _Concept] = {}
        for term in terms:
            target = _Phrase(term.target)
            if not term.source:
                self._banned[target.key()].append(target)
                continue
            concept = by_source.get(term.source)
            if concept is None:
                concept = by_source[term.source] = _Concept(_Phrase(term.source), [], [])
                self._concepts[concept.source.key()].append(concept)
            concept.keep = concept.keep or term.status is TermStatus.KEEP
            (concept.forbidden if term.status is TermStatus.FORBIDDEN else concept.allowed).append(target)

    def __call__(self, unit: CheckedUnit) -> Iterator[Finding]:
        target = unit.target_text
        if not target.strip():
            return
        missing, bad, translated = list[str](), list[str](), list[str]()
        for concept in self._in(unit.source_text):
            bad += [phrase.text for phrase in concept.forbidden if phrase.pattern.search(target)]
            if concept.keep:
                translated += [] if concept.source.text in target else [concept.source.text]
            elif concept.allowed and not any(phrase.pattern.search(target) for phrase in concept.allowed):
                missing.append(f"{concept.source.text} → {' | '.join(phrase.text for phrase in concept.allowed)}")
        if self._banned:
            keys = _keys(target)
            bad += [p.text for key in keys for p in self._banned.get(key, ()) if p.pattern.search(target)]
        yield from self._findings(missing, bad, translated)

    def _findings(self, missing: list[str], bad: list[str], translated: list[str]) -> Iterator[Finding]:
        if bad:
            yield Finding(self.name, Severity.ERROR, "the glossary forbids these terms", listed(bad))
        if translated:
            yield Finding(self.name, Severity.ERROR, "these terms must not be translated", listed(translated))
        if missing:  # inflection may go beyond what is recognised
            yield Finding(self.name, Severity.WARNING, "terms of the glossary are missing", listed(missing))

    def _in(self, text: str) -> list[_Concept]:
        """The terms in a text, without those that are part of a longer one."""
        candidates = [concept for key in _keys(text) for concept in self._concepts.get(key, ())]
        candidates.sort(key=lambda concept: -len(concept.source.text))
        found = []
        for concept in candidates:
            if concept.source.pattern.search(text):
                found.append(concept)
                text = concept.source.pattern.sub(" ", text)
        return found


def _keys(text: str) -> Sequence[str]:
    """The keys under which terms in a text are found; those without a letter have an empty one."""
    return ["", *dict.fromkeys(word[:_KEY].casefold() for word in _WORD.findall(text))]


def _inflected(word: str) -> str:
    """A pattern for a word in its forms: *Pumpe, Pumpen*; *battery, batteries*."""
    if len(word) < _INFLECTED_FROM:
        return re.escape(word)
    stem = word[:-1] if len(word) > _INFLECTED_FROM and word[-1] in "aeiouy" else word
    return rf"{re.escape(stem)}\w{{0,{_ENDING}}}"
