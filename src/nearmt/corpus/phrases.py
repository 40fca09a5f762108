"""Terms as they stand in texts: inflected, and in any case unless they are names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeVar

from nearmt.corpus.glossary import Term, TermStatus
from nearmt.languages import base_language

Found = TypeVar("Found")
_WORD = re.compile(r"\w+")
#: Longer words may be inflected: short endings, longer ones of the languages that are inflected most, and a vowel that
#: the stem may lack.
_INFLECTED_FROM = 4
_ENDING = r"(?:\w{0,2}|ern|nen|ies|ses|sen|ers|ens|ami|ach|ych|ymi|imi|ego|emu|owie)"
_VOWELS = "aeiouy"
#: The last vowel of a German noun may change in the plural: Block, Blöcke.
_UMLAUT = re.compile(r"(a|o|u)(?=[^aou]*\Z)|a(?=u[^aou]*\Z)")
_UMLAUTS = {"a": "[aä]", "o": "[oö]", "u": "[uü]"}
_CAPITALS = {"A": "[AÄ]", "O": "[OÖ]", "U": "[UÜ]"}
#: Letters by which terms are looked up.
_KEY = 3
_BARE = str.maketrans("äöü", "aou")


@dataclass(frozen=True)
class Phrase:
    """A term as it may stand in a text: inflected, and in any case unless it is an abbreviation or `exact`.

    German nouns, which are known by their capitals, are no verbs: *drucken* is not *Druck*.
    """

    text: str
    exact: bool = False
    language: str = ""

    @cached_property
    def is_name(self) -> bool:
        return self.exact or any(word[1:] != word[1:].lower() for word in _WORD.findall(self.text))

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        parts = [self._pattern_of(piece) for piece in re.split(r"(\W+)", self.text)]
        return re.compile(rf"(?<!\w){''.join(parts)}(?!\w)", 0 if self.is_name else re.IGNORECASE)

    def _pattern_of(self, piece: str) -> str:
        """The pattern of a word, or of what is between words."""
        is_noun = self.language == "de" and piece[:1].isupper()
        inflects = len(piece) >= _INFLECTED_FROM and piece[0].isalnum() and (self.exact or not self.is_name)
        pattern = _inflected(piece, is_noun) if inflects else re.escape(piece)
        capital = _CAPITALS.get(piece[0], re.escape(piece[0])) if is_noun else ""
        return rf"(?-i:{capital}){pattern[1:]}" if capital and not self.is_name else pattern

    def key(self) -> str:
        return next(iter(_keys(self.text)), "")


def _inflected(word: str, is_noun: bool) -> str:
    """A pattern for a word in its forms: *Pumpe, Pumpen*; *battery, batteries*."""
    stem = word[:-1] if len(word) > _INFLECTED_FROM and word[-1] in _VOWELS else word
    pattern = re.escape(stem)
    if is_noun:
        pattern = pattern[0] + _UMLAUT.sub(lambda found: _UMLAUTS[found[0]], pattern[1:], count=1)
    return pattern + _ENDING


#: Forms that a translation has where its source has a term in some form; none if that is not known.
Forms = Callable[[str, Phrase], Sequence[str]]


@dataclass(frozen=True)
class _Entry:
    """A source term with its translations, the first of which counts; none if it stays as it is."""

    source: Phrase
    targets: tuple[str, ...]


class FixedTerms:
    """The terms of a glossary that have a translation, stay as they are, or have forbidden translations."""

    def __init__(self, terms: Iterable[Term], language: str = "", forms: Forms | None = None) -> None:
        """`language` is that of the sources; `forms` knows how translations are inflected."""
        self._forms, language = forms, base_language(language)
        self._by_key: dict[str, list[_Entry]] = defaultdict(list)
        self._forbidden: dict[str, list[tuple[Phrase, Phrase]]] = defaultdict(list)
        self._banned: list[Phrase] = []
        targets: dict[tuple[str, bool], list[str]] = defaultdict(list)
        for term in terms:
            if term.status is not TermStatus.FORBIDDEN:
                kept = term.status is TermStatus.KEEP
                targets[term.source, kept] += [] if kept else [term.target]
            elif term.source:
                source = Phrase(term.source, language=language)
                self._forbidden[source.key()].append((source, Phrase(term.target)))
            else:
                self._banned.append(Phrase(term.target))
        for (source_text, kept), found in targets.items():
            source = Phrase(source_text, exact=kept, language=language)
            self._by_key[source.key()].append(_Entry(source, tuple(dict.fromkeys(found))))

    def find(self, text: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
        """Where terms begin and end, and the forms of their translations; none for terms that stay.

        Longer terms come first, and terms as the glossary has them before those that are inflected.
        """
        yield from sorted((*match.span(), self._options(match[0], entry)) for match, entry in self._matches(text))

    def sources(self, text: str) -> list[str]:
        """The terms of a text as the glossary has them."""
        return list(dict.fromkeys(entry.source.text for _, entry in self._matches(text)))

    def _matches(self, text: str) -> list[tuple[re.Match[str], _Entry]]:
        candidates = [
            (match, entry)
            for key in keys_in(text)
            for entry in self._by_key.get(key, ())
            for match in entry.source.pattern.finditer(text)
        ]
        return without_overlaps(candidates, lambda entry: entry.source.text)

    def _options(self, surface: str, entry: _Entry) -> tuple[str, ...]:
        if not entry.targets:
            # An inflected name is written without the ending of the source language.
            return () if surface == entry.source.text else (entry.source.text,)
        first = Phrase(entry.targets[0])
        # Further translations count if they are forms of the first.
        listed = tuple(target for target in entry.targets if first.pattern.fullmatch(target))
        known = tuple(self._forms(surface, first)) if self._forms else ()
        # An inflected term is written as the memory shows; the form of the glossary is that of its own source.
        is_listed = surface == entry.source.text or len(listed) > 1 or not known
        options = tuple(dict.fromkeys((*listed, *known))) if is_listed else known
        is_loud = len(surface) > 1 and surface.isupper() and not entry.source.text.isupper()
        return tuple(dict.fromkeys(option.upper() for option in options)) if is_loud else options

    def forbidden(self, text: str) -> re.Pattern[str] | None:
        """What the translation of a text must not have."""
        found = list(self._banned)
        for key in keys_in(text) if self._forbidden else ():
            found += [target for source, target in self._forbidden.get(key, ()) if source.pattern.search(text)]
        return _any_of(tuple(found)) if found else None


def without_overlaps(
    matches: Iterable[tuple[re.Match[str], Found]], text_of: Callable[[Found], str]
) -> list[tuple[re.Match[str], Found]]:
    """Of matches of terms that overlap the longest, and of these the term that stands there as it is listed."""

    def rank(each: tuple[re.Match[str], Found]) -> tuple[int, bool]:
        surface = each[0][0]
        return -len(surface), surface.casefold() != text_of(each[1]).casefold()

    kept: list[tuple[re.Match[str], Found]] = []
    for match, term in sorted(matches, key=rank):
        if not any(match.start() < other.end() and other.start() < match.end() for other, _ in kept):
            kept.append((match, term))
    return kept


@lru_cache(maxsize=1024)
def _any_of(phrases: tuple[Phrase, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?{'' if phrase.is_name else 'i'}:{phrase.pattern.pattern})" for phrase in phrases))


def keys_in(text: str) -> Sequence[str]:
    """The keys under which terms in a text are found; those without a letter have an empty one."""
    return ["", *dict.fromkeys(_keys(text))]


def _keys(text: str) -> Iterator[str]:
    return (word[:_KEY].casefold().translate(_BARE) for word in _WORD.findall(text))
