"""Repair of similar matches: numbers, placeholders and one term are exchanged in the stored translation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from nearmt.corpus import Match, clean
from nearmt.corpus.articles import with_article
from nearmt.corpus.stop_words import is_stop_word
from nearmt.documents.differences import Difference, Kind, Token, differences, tokens_of
from nearmt.documents.numbers import format_number, parse_number
from nearmt.documents.terms import Exchange, TermLookup, without_articles
from nearmt.languages import base_language

# Most letters of an ending, and fewest of a stem.
_ENDING, _STEM = 3, 2


@dataclass(frozen=True)
class Repair:
    """The repaired translation of a text, and what was exchanged, for reviewers."""

    text: str
    exchanged: tuple[str, ...]


@dataclass(frozen=True)
class Repairer:
    """Repairs matches for one pair of languages."""

    terms: TermLookup
    languages: tuple[str, str]

    def repaired(self, text: str, match: Match, printf: bool | None = None) -> Repair | None:
        """The stored translation with everything exchanged that differs; None unless all of it can be."""
        source, target = clean(match.source), clean(match.target)
        found = differences(source, clean(text), printf)
        if not found:
            return None
        exchanges: list[Exchange] = []
        for difference in found:
            if difference.kind is Kind.WORD:
                exchange = self._term(difference, target)
            else:
                exchange = self._exchange(difference, source, target, printf)
            if exchange is None:
                return None
            exchanges.append(exchange)
        repaired = _exchanged(target, exchanges, base_language(self.languages[1]) == "en")
        if repaired is None:
            return None
        said = [f"{_text(difference.old)} -> {_text(difference.new)}" for difference in found]
        return Repair(repaired, tuple(said))

    def _term(self, difference: Difference, target: str) -> Exchange | None:
        """Exchange a term, but no prepositions and the like, on which other words depend, and no forms of a word."""
        language = self.languages[0]
        old, new = without_articles(
            [token.text for token in difference.old], [token.text for token in difference.new], language
        )
        if any(is_stop_word(word, language) for word in (*old, *new)) or _are_forms(old, new):
            return None
        return self.terms.exchange(" ".join(old), " ".join(new), target) if old and new else None

    def _exchange(self, difference: Difference, source: str, target: str, printf: bool | None) -> Exchange | None:
        (old_token,), (new_token,) = difference.old, difference.new
        if sum(token.text == old_token.text for token in tokens_of(source, printf)) > 1:
            return None
        present = [token for token in tokens_of(target, printf) if token.kind is difference.kind]
        if difference.kind is Kind.PLACEHOLDER:
            return _replaced(old_token.text, new_token.text, present)
        return self._number(old_token.text, new_token.text, present)

    def _number(self, old: str, new: str, present: Sequence[Token]) -> Exchange | None:
        """Exchange a number that occurs once in the target, as the target language writes it."""
        before, after = parse_number(old, self.languages[0]), parse_number(new, self.languages[0])
        if before is None or after is None:
            return _replaced(old, new, present)
        if (before.value == 1) != (after.value == 1):
            return None  # singular and plural
        numbers = [(token, parse_number(token.text, self.languages[1])) for token in present]
        same = [(token, number) for token, number in numbers if number is not None and number.value == before.value]
        if len(same) != 1:
            return None
        token, like = same[0]
        return Exchange(token.span, format_number(after, self.languages[1], like))


def _replaced(old: str, new: str, present: Sequence[Token]) -> Exchange | None:
    """Exchange a token that occurs once, as it is."""
    spans = [token.span for token in present if token.text == old]
    return Exchange(spans[0], new) if len(spans) == 1 else None


def _exchanged(target: str, exchanges: Sequence[Exchange], is_english: bool) -> str | None:
    """Replace all spans at once; None if they overlap."""
    parts, offset = [], 0
    for exchange in sorted(exchanges, key=lambda exchange: exchange.span):
        start, end = exchange.span
        if start < offset:
            return None
        before = target[offset:start]
        parts += [with_article(before, exchange.text) if is_english else before, exchange.text]
        offset = end
    return "".join([*parts, target[offset:]])


def _are_forms(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether two terms are the same but for endings and case: then other words may have to change, too."""
    one, other = (" ".join(words).casefold() for words in (old, new))
    same = sum(1 for _ in takewhile(lambda letters: letters[0] == letters[1], zip(one, other, strict=False)))
    return same >= max(len(one), len(other)) - _ENDING and same >= _STEM


def _text(tokens: Sequence[Token]) -> str:
    return " ".join(token.text for token in tokens)
