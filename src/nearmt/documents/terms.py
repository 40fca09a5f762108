"""Translations of single terms: from pairs that consist of the term, and from aligned pairs that contain it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from nearmt.corpus import clean
from nearmt.datastore.search.snapshot import Snapshot
from nearmt.documents.differences import Kind, tokens_of
from nearmt.languages import base_language
from nearmt.models import TranslationModel
from nearmt.models.alignment import Link, Span, align

# Pairs that are aligned to find the translation of a term; how many of them must agree, and which share.
_PAIRS, _FEWEST, _SHARE = 12, 2, 2 / 3
_ARTICLE_ROWS = """
de der die das den dem des/ein eine einen einem einer eines|en the/a an|es el la los las/un una unos unas
fr le la les/un une des|it il lo la i gli le/un uno una|nl de het/een|pt o a os as/um uma uns umas
"""
#: Definite and indefinite articles, by language.
_ARTICLES = {
    code: [frozenset(kind.split()) for kind in kinds.split("/")]
    for code, kinds in (row.split(" ", 1) for row in re.split(r"[|\n]", _ARTICLE_ROWS.strip()))
}


@dataclass(frozen=True)
class Exchange:
    """A span of a stored target, and the text that takes its place."""

    span: Span
    text: str


@dataclass(frozen=True)
class _Known:
    """The translation of a term."""

    text: str
    #: Whether it is written as within a sentence; a list of terms may have capitals.
    in_sentence: bool


def without_articles(old: Sequence[str], new: Sequence[str], language: str) -> tuple[Sequence[str], Sequence[str]]:
    """Two terms without their articles, if both have a definite or both an indefinite one."""
    for kind in _ARTICLES.get(base_language(language), ()):
        if old[0].lower() in kind and new[0].lower() in kind:
            return old[1:], new[1:]
    return old, new


class TermLookup:
    """Looks terms up in a memory."""

    def __init__(self, model: TranslationModel, memory: Snapshot) -> None:
        self._model, self._memory = model, memory

    def exchange(self, old: str, new: str, target: str) -> Exchange | None:
        """How to replace a term in the target of a pair, if the memory tells the translations of both terms."""
        wanted = self._translation(new)
        if wanted is None:
            return None
        for known in filter(None, (self._entry(old), self._usual(old))):
            span = only_span(known.text, target)
            if span is not None:
                return Exchange(span, _cased(wanted, target, span)) if wanted.text != known.text else None
        return None

    def _translation(self, term: str) -> _Known | None:
        return self._entry(term) or self._usual(term)

    def _entry(self, term: str) -> _Known | None:
        """The translation of a pair that consists of the term, if it is about as long."""
        pair = self._memory.exact(term)
        if pair is None or len(pair.target.split()) > len(term.split()) + 1:
            return None
        return _Known(clean(pair.target).rstrip(".:!?"), False)

    def _usual(self, term: str) -> _Known | None:
        """The translation that most pairs have that contain the term."""
        pairs = [(pair.source, pair.target) for pair in self._memory.containing(term, _PAIRS)]
        found: Counter[str] = Counter()
        for (_, target), span in zip(pairs, self._aligned(term, pairs), strict=True):
            # At the beginning of a sentence the case of a word is not known.
            if span is not None and target[: span[0]].strip():
                found[target[span[0] : span[1]]] += 1
        if not found:
            return None
        (best, count), *_ = found.most_common(1)
        return _Known(best, True) if count >= _FEWEST and count >= _SHARE * found.total() else None

    def _aligned(self, term: str, pairs: Sequence[tuple[str, str]]) -> list[Span | None]:
        """The span of each target that is aligned with the only occurrence of a term in its source."""
        places = [only_span(term, source) for source, _ in pairs]
        due = [pair for pair, place in zip(pairs, places, strict=True) if place is not None]
        found = iter(align(self._model, [source for source, _ in due], [target for _, target in due]))
        return [
            None if place is None else _linked(place, next(found), target)
            for (_, target), place in zip(pairs, places, strict=True)
        ]


def _linked(place: Span, links: Sequence[Link], target: str) -> Span | None:
    """The span of a target that is linked with a span of the source; None if it is in several parts."""
    kept = [token.span for token in tokens_of(target) if token.kind is Kind.PLACEHOLDER]
    words = [link for link in links if not any(start < link.target[1] and link.target[0] < end for start, end in kept)]
    linked = [place[0] <= link.source[0] and link.source[1] <= place[1] for link in words]
    if not any(linked):
        return None
    first, last = linked.index(True), len(linked) - 1 - linked[::-1].index(True)
    start, end = words[first].target[0], words[last].target[1]
    is_whole = all(linked[first : last + 1]) and re.fullmatch(r"[\w\s-]+", target[start:end])
    return (start, end) if is_whole else None


def only_span(term: str, text: str) -> Span | None:
    """Where a term occurs, if it occurs once as whole words."""
    found = [match.span() for match in re.finditer(rf"(?<!\w){re.escape(term)}(?!\w)", text, re.IGNORECASE)]
    return found[0] if len(found) == 1 else None


def _cased(known: _Known, target: str, span: Span) -> str:
    """A term with the case of the one whose place it takes; names and abbreviations keep theirs."""
    text, present = known.text, target[slice(*span)]
    if present[:1].isupper() and not target[: span[0]].strip():
        return text[:1].upper() + text[1:]
    if present[:1].islower() and not known.in_sentence and not text[1:2].isupper():
        return text[:1].lower() + text[1:]
    return text
