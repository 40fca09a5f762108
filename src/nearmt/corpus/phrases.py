"""Terms as they stand in texts: inflected, and in any case unless they are names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from nearmt.corpus.glossary import Term, TermStatus

_WORD = re.compile(r"\w+")
#: Longer words may be inflected: what comes after their stem, and letters that the stem may lack.
_INFLECTED_FROM, _ENDING = 4, 4
#: Letters by which terms are looked up.
_KEY = 3


@dataclass(frozen=True)
class Phrase:
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


class FixedTerms:
    """The terms of a glossary that have a translation, or stay as they are."""

    def __init__(self, terms: Iterable[Term]) -> None:
        self._by_key: dict[str, list[tuple[Phrase, str]]] = defaultdict(list)
        known: set[str] = set()
        for term in terms:
            translation = "" if term.status is TermStatus.KEEP else term.target
            # Of several translations the first counts.
            if term.source and term.status is not TermStatus.FORBIDDEN and term.source not in known:
                known.add(term.source)
                phrase = Phrase(term.source)
                self._by_key[phrase.key()].append((phrase, translation))

    def find(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Where terms begin and end, and their translations, empty for terms that stay; longer terms come first."""
        candidates = [each for key in keys_in(text) for each in self._by_key.get(key, ())]
        candidates.sort(key=lambda each: -len(each[0].text))
        found: list[tuple[int, int, str]] = []
        for phrase, translation in candidates:
            for match in phrase.pattern.finditer(text):
                if not any(match.start() < end and start < match.end() for start, end, _ in found):
                    found.append((*match.span(), translation))
        yield from sorted(found)


def keys_in(text: str) -> Sequence[str]:
    """The keys under which terms in a text are found; those without a letter have an empty one."""
    return ["", *dict.fromkeys(word[:_KEY].casefold() for word in _WORD.findall(text))]


def _inflected(word: str) -> str:
    """A pattern for a word in its forms: *Pumpe, Pumpen*; *battery, batteries*."""
    if len(word) < _INFLECTED_FROM:
        return re.escape(word)
    stem = word[:-1] if len(word) > _INFLECTED_FROM and word[-1] in "aeiouy" else word
    return rf"{re.escape(stem)}\w{{0,{_ENDING}}}"
