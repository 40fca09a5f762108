"""Terms of a glossary."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nearmt.corpus.glossary import Term, TermStatus
from nearmt.corpus.phrases import Phrase, keys_in, without_overlaps
from nearmt.documents.checks.base import CheckedUnit, Finding, Severity, listed
from nearmt.languages import base_language


@dataclass
class _Concept:
    """A source term with everything that the glossary says about it."""

    source: Phrase
    allowed: list[Phrase]
    forbidden: list[Phrase]
    keep: bool = False


class TermCheck:
    """Terms without the translation that the glossary gives, forbidden translations, names that were translated."""

    name = "terms"

    def __init__(self, terms: Iterable[Term] = (), source_lang: str = "") -> None:
        language = base_language(source_lang)
        self._concepts: dict[str, list[_Concept]] = defaultdict(list)
        self._banned: dict[str, list[Phrase]] = defaultdict(list)
        by_source: dict[str, _Concept] = {}
        for term in terms:
            target = Phrase(term.target)
            if not term.source:
                self._banned[target.key()].append(target)
                continue
            concept = by_source.get(term.source)
            if concept is None:
                is_kept = term.status is TermStatus.KEEP
                concept = by_source[term.source] = _Concept(Phrase(term.source, is_kept, language), [], [])
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
            keys = keys_in(target)
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
        """The terms in a text, without those that are part of a longer one; as listed rather than inflected."""
        candidates = [
            (match, concept)
            for key in keys_in(text)
            for concept in self._concepts.get(key, ())
            for match in concept.source.pattern.finditer(text)
        ]
        found: list[_Concept] = []
        for _, concept in without_overlaps(candidates, lambda concept: concept.source.text):
            if concept not in found:
                found.append(concept)
        return found
