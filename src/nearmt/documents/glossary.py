"""A glossary with what a memory knows about its terms: their forms, and translations that contradict the glossary."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nearmt.config.filling import FillConfig
from nearmt.contracts import Pair
from nearmt.corpus.glossary import Term, TermStatus, read_glossary, read_kept
from nearmt.corpus.phrases import FixedTerms, Phrase
from nearmt.datastore.search.snapshot import Snapshot

#: The most pairs with a term that are looked at, and the least share of a form among those that they have.
_PAIRS, _SHARE = 50, 0.1


@dataclass(frozen=True)
class Conflict:
    """A term that most of the memory's pairs translate otherwise than the glossary."""

    term: str
    targets: tuple[str, ...]
    #: Pairs that contain the term, those of them that have the glossary's translation, and one that has not.
    pairs: int
    agreeing: int
    example: str

    def __str__(self) -> str:
        return (
            f"glossary: {self.term} → {' | '.join(self.targets)}, but the memory has that in {self.agreeing} of "
            f"{self.pairs} pairs; not in pair {self.example}"
        )


class Glossary:
    """The terms for translating: those of the files that a configuration names."""

    def __init__(self, terms: Iterable[Term], memory: Snapshot | None, source_lang: str) -> None:
        self.terms = list(terms)
        self._memory = memory
        self._fixed = FixedTerms(self.terms, source_lang, self._forms)
        self._targets: dict[str, list[str]] = defaultdict(list)
        for term in self.terms:
            if term.source and term.status is not TermStatus.FORBIDDEN:
                self._targets[term.source].append(term.target)
        self._known: dict[tuple[str, str], tuple[str, ...]] = {}
        #: Terms of the texts so far, with the conflict of each if it has one.
        self._conflicts: dict[str, Conflict | None] = {}

    def find(self, text: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
        """Where terms begin and end, and the forms of their translations."""
        return self._fixed.find(text)

    def forbidden(self, text: str) -> re.Pattern[str] | None:
        """What the translation of a text must not have."""
        return self._fixed.forbidden(text)

    def contradicted(self, text: str) -> list[Conflict]:
        """The terms of a text that the memory translates otherwise."""
        found = (self._conflict(source) for source in self._fixed.sources(text))
        return [conflict for conflict in found if conflict is not None]

    def lacks(self, source: str, target: str) -> list[str]:
        """The terms of a text whose translation a stored target lacks."""
        sources = self._fixed.sources(source)
        return [term for term in sources if not _has_one(target, self._targets[term])]

    @property
    def conflicts(self) -> list[Conflict]:
        """The conflicts of all texts so far."""
        return [conflict for conflict in self._conflicts.values() if conflict is not None]

    def _forms(self, surface: str, target: Phrase) -> tuple[str, ...]:
        """The forms of a translation in pairs whose source has the term in this form, the most frequent first."""
        key = surface, target.text
        if key not in self._known:
            counts: Counter[str] = Counter()
            for pair in self._containing(surface):
                counts.update(_form(found, target) for found in target.pattern.finditer(pair.target))
            least = _SHARE * counts.total()
            self._known[key] = tuple(form for form, count in counts.most_common() if count >= least)
        return self._known[key]

    def _containing(self, term: str) -> list[Pair]:
        return [] if self._memory is None else self._memory.containing(term, _PAIRS)

    def _conflict(self, source: str) -> Conflict | None:
        if source not in self._conflicts:
            pairs, targets = self._containing(source), self._targets[source]
            others = [pair for pair in pairs if not _has_one(pair.target, targets)]
            conflict = Conflict(source, tuple(targets), len(pairs), len(pairs) - len(others), "")
            is_one = 2 * len(others) > len(pairs)
            self._conflicts[source] = _with_example(conflict, others[0]) if is_one else None
        return self._conflicts[source]


def terms_of(config: FillConfig, languages: tuple[str | None, str | None]) -> list[Term]:
    """Read the terms of the files that a configuration names."""
    terms = read_glossary(config.glossary, *languages) if config.glossary else []
    return [*terms, *(read_kept(config.keep) if config.keep else [])]


def _with_example(conflict: Conflict, pair: Pair) -> Conflict:
    return Conflict(conflict.term, conflict.targets, conflict.pairs, conflict.agreeing, pair.id)


def _has_one(text: str, targets: Iterable[str]) -> bool:
    return any(Phrase(target).pattern.search(text) for target in targets)


def _form(found: re.Match[str], target: Phrase) -> str:
    """A form as within a sentence: at the beginning of one, it has the case of the glossary."""
    form = found[0]
    is_first = not found.string[: found.start()].strip()
    return target.text[:1] + form[1:] if is_first and form[:1].casefold() == target.text[:1].casefold() else form
