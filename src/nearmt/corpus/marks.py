"""Marks: what stands for protected spans while a text is translated, and in the stored tokens of a pair.

The spans of a source are written `[1]`, `[2]`, ... in their order, which models copy far more reliably than the spans
themselves (docs/log.md). A target has the mark of the source's span wherever it has the same span. Brackets of the text
itself are spans as well, so every bracket of a marked text belongs to a mark. Blanks separate
marks from words that touch them, which would be other subwords without.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from math import prod
from typing import Protocol

from nearmt.corpus.articles import with_article
from nearmt.corpus.spans import find_spans
from nearmt.languages import base_language

#: The name of this way of marking, which changes with the rules that find spans; a datastore keeps it.
MARKS = "brackets-2"
#: Marks without blanks.
_OLD_MARKS = "brackets-1"
#: What datastores may have; the empty one is no marks.
KNOWN_MARKS = (MARKS, _OLD_MARKS, "")
MARK = re.compile(r"\[(\d+)\]")
# Characters for private use stand for inline tags of documents.
_BRACKET = re.compile(r"\[\d+\]|[][\ue000-\uf8ff]")
# Tags, also those with numbers of react-i18next, and the placeholders that Angular has for tags.
_ELEMENT = re.compile(r"<(/? ?)([A-Za-z0-9][\w:.-]*)[^<>]*?(/?)>")
_ANGULAR = re.compile(r"\{\$(START|CLOSE)_([A-Z_]+?)(?:_\d+)?\}")
_MOST_WAYS = 16
# The end of the text before a sentence.
_AT_START = re.compile(r"(?:\A|[.!?]\s)[\s\"'“„»«(]*\Z")
# Placeholders without a name or number are filled in by their order.
_BY_ORDER = re.compile(r"%(?!%)[^($]*[A-Za-z]|\{(?:[!:][^{}]*)?\}")


@dataclass(frozen=True)
class MarkedText:
    """A text with marks in place of its protected spans."""

    text: str
    #: What each mark stands for: `[1]` for the first.
    spans: tuple[str, ...] = ()
    #: Of each mark the number of the mark that opens what it closes; 0 for all others.
    opened_by: tuple[int, ...] = ()
    #: What a translation may have in place of a mark, where that is not its span: the forms of a term's translation,
    #: of which the first is written.
    written: tuple[tuple[int, tuple[str, ...]], ...] = ()
    #: Of each mark the characters before and behind it, without the blanks that separate it from words.
    beside: tuple[tuple[str, str], ...] = ()

    def target(self, text: str) -> str:
        """A translation of the text with the same marks, each at most once; other spans stay as they are."""
        if not self.spans:
            return text
        left: dict[str, list[int]] = defaultdict(list)
        for number, span in enumerate(self.spans, 1):
            left[span].append(number)
        parts, offset = [], 0
        for start, end in _spans(text, None):
            if numbers := left[text[start:end]]:
                parts += [text[offset:start], f"[{numbers.pop(0)}]"]
                offset = end
        return self.separated("".join([*parts, text[offset:]]))

    def separated(self, text: str) -> str:
        """A marked text with blanks between words and the marks that touch them."""
        if not self.beside:
            return text

        def separated(found: re.Match[str]) -> str:
            before, after = self._touches(int(found[1]), *_around(found))
            return f"{' ' * before}{found[0]}{' ' * after}"

        return MARK.sub(separated, text)

    def _touches(self, number: int, before: str, after: str) -> tuple[bool, bool]:
        """Whether a mark touches a word before and behind it; tags within a word do not count."""
        if (self._is_opener(number) or self._is_closer(number)) and before.isalnum() and after.isalnum():
            return False, False
        return before.isalnum(), after.isalnum()

    def _is_opener(self, number: int) -> bool:
        return number > 0 and number in self.opened_by

    def _is_closer(self, number: int) -> bool:
        return 0 < number <= len(self.opened_by) and self.opened_by[number - 1] > 0

    def restored(self, text: str, language: str = "") -> str:
        """A translation into a language with the spans in place of the marks."""
        parts = self._parts(self._spaced(text))
        if self.written and base_language(language) == "en":
            parts[:-1:2] = map(with_article, parts[:-1:2], parts[1::2])
        return "".join(parts)

    def with_spans(self, text: str) -> str:
        """A part of a translation with the spans in place of the marks, and nothing else changed."""
        return "".join(self._parts(text)) if self.spans else text

    def choices(self, text: str) -> Iterator[tuple[MarkedText, str]]:
        """Each way to write the terms of a translation that have several forms: this text with only that way left,
        and the translation with these terms, and with marks for all else. Too many ways are not tried together."""
        several = [number for number, options in self.written if len(options) > 1]
        options = dict(self.written)
        ways = product(*(options[number] for number in several))
        if prod(len(options[number]) for number in several) > _MOST_WAYS:
            return
        for way in ways if several else ():
            chosen = {number: (form,) for number, form in zip(several, way, strict=True)}
            left = replace(self, written=tuple({**options, **chosen}.items()))
            yield left, left._with_terms(text, several)

    def source_with_terms(self) -> str:
        """The text with marks for all but the terms that have several forms."""
        several = {number for number, options in self.written if len(options) > 1}
        return MARK.sub(lambda m: self.spans[int(m[1]) - 1] if int(m[1]) in several else m[0], self.text)

    def _with_terms(self, text: str, numbers: Sequence[int]) -> str:
        spaced = self._spaced(text)
        return MARK.sub(
            lambda mark: self._span(int(mark[1]), spaced, mark) if int(mark[1]) in numbers else mark[0], spaced
        )

    def restored_tokens(self, tokens: Sequence[str]) -> list[tuple[str, bool]]:
        """The tokens of a translation with the spans in place of the marks, and whether each is part of a mark.

        A span is in the token that begins its mark.
        """
        text = "".join(tokens)
        found = list(zip(MARK.finditer(text), self._parts(text)[1::2], strict=True))
        restored, end = [], 0
        for token in tokens:
            start, end = end, end + len(token)
            here = [(mark, span) for mark, span in found if mark.start() < end and mark.end() > start]
            parts, at = list[str](), start
            for mark, span in here:
                parts += [text[at : mark.start()], span if mark.start() >= start else ""]
                at = mark.end()
            restored.append(("".join([*parts, text[at:end]]), bool(here)))
        return restored

    def _parts(self, text: str) -> list[str]:
        """What is around the marks of a translation and, at odd places, what is written in place of them."""
        numbers = [int(found[1]) for found in MARK.finditer(text) if 0 < int(found[1]) <= len(self.spans)]
        by_order = [number for number in numbers if _BY_ORDER.fullmatch(self.spans[number - 1])]
        meant = dict(zip(by_order, sorted(by_order), strict=True)) if len(set(by_order)) == len(by_order) else {}
        parts, offset = list[str](), 0
        for found in MARK.finditer(text):
            number = int(found[1])
            parts += [text[offset : found.start()], self._span(meant.get(number, number), text, found)]
            offset = found.end()
        return [*parts, text[offset:]]

    def _span(self, number: int, text: str, mark: re.Match[str]) -> str:
        if (options := dict(self.written).get(number)) is not None:
            is_first = _AT_START.search(text, 0, mark.start()) is not None
            return options[0][:1].upper() + options[0][1:] if is_first else options[0]
        return self.spans[number - 1] if 0 < number <= len(self.spans) else mark[0]

    def _spaced(self, text: str) -> str:
        """A marked translation with blanks around marks as in the source: none within a pair of tags that has none
        there, none at a mark that touches a word there, and some between a mark and a word that it does not touch."""
        found = list(MARK.finditer(text))
        ends = [0, *(mark.end() for mark in found)]
        starts = [*(mark.start() for mark in found), len(text)]
        numbers = [None, *(int(mark[1]) for mark in found), None]
        written = []
        for start, end, before, after in zip(ends, starts, numbers, numbers[1:], strict=False):
            between = text[start:end]
            if before is not None and after is not None and not between.strip():
                between = self._between(before, after, between)
            else:
                between = between if before is None else self._behind(before, between)
                between = between if after is None else self._before(after, between)
            written += [between, "" if after is None else f"[{after}]"]
        return "".join(written)

    def _beside(self, number: int) -> tuple[str, str]:
        return self.beside[number - 1] if 0 < number <= len(self.beside) else ("", "")

    def _behind(self, number: int, text: str) -> str:
        """The text behind a mark."""
        after = self._beside(number)[1]
        if (self._is_opener(number) and after.strip()) or self._touches(number, *self._beside(number))[1]:
            return text.removeprefix(" ")
        return " " * (text[:1].isalnum() and not after.isalnum()) + text

    def _before(self, number: int, text: str) -> str:
        """The text before a mark."""
        before = self._beside(number)[0]
        if (self._is_closer(number) and before.strip()) or self._touches(number, *self._beside(number))[0]:
            return text.removesuffix(" ")
        return text + " " * (text[-1:].isalnum() and not before.isalnum())

    def _between(self, number: int, following: int, blank: str) -> str:
        """The blank between two marks, if any."""
        after, before = self._beside(number)[1], self._beside(following)[0]
        if after == "[" or before == "]":
            return ""
        if (self._is_opener(number) and after.strip()) or (self._is_closer(following) and before.strip()):
            return ""
        return blank or " " * (after == before == " ")


class Terms(Protocol):
    """Terms that have fixed translations, and words that translations must not have."""

    def find(self, text: str) -> Iterable[tuple[int, int, tuple[str, ...]]]:
        """Where terms begin and end, without overlaps, and the forms of their translations; none for terms that
        stay."""

    def forbidden(self, text: str) -> re.Pattern[str] | None:
        """What the translation of a text must not have."""


def marked(text: str, printf: bool | None = None, terms: Terms | None = None) -> MarkedText:
    """Put marks in place of the protected spans of a source (`find_spans`), and of terms outside of them."""
    unit = _with_marks(text, printf, terms)
    if not unit.spans:
        return unit
    unit = replace(unit, beside=tuple(map(_around, MARK.finditer(unit.text))))
    return replace(unit, text=unit.separated(unit.text))


def marked_as(marks: str, text: str) -> MarkedText:
    """A source as a datastore with this way of marking (`KNOWN_MARKS`) has it."""
    if marks == MARKS:
        return marked(text)
    return _with_marks(text) if marks else MarkedText(text)


def _with_marks(text: str, printf: bool | None = None, terms: Terms | None = None) -> MarkedText:
    protected = list(_spans(text, printf))
    found: list[tuple[int, int, tuple[str, ...]]] = [(start, end, ()) for start, end in protected]
    for start, end, options in terms.find(text) if terms is not None else ():
        if not any(start < other_end and other < end for other, other_end in protected):
            found.append((start, end, options))
    if not found:
        return MarkedText(text)
    parts, spans, written, offset = list[str](), list[str](), list[tuple[int, tuple[str, ...]]](), 0
    for start, end, options in sorted(found):
        spans.append(text[start:end])
        if options:
            written.append((len(spans), options))
        parts += [text[offset:start], f"[{len(spans)}]"]
        offset = end
    return MarkedText("".join([*parts, text[offset:]]), tuple(spans), tuple(_opened_by(spans)), tuple(written))


def marks_in(text: str) -> list[int]:
    """The numbers of the marks of a marked text, or of a part of it."""
    return [int(found[1]) for found in MARK.finditer(text)]


def _around(found: re.Match[str]) -> tuple[str, str]:
    """The characters before and behind a match, empty at the ends of the text."""
    return found.string[max(0, found.start() - 1) : found.start()], found.string[found.end() : found.end() + 1]


def _spans(text: str, printf: bool | None) -> Iterator[tuple[int, int]]:
    """Where spans and brackets outside of them begin and end."""
    found = [span for span in find_spans(text, printf) if span.once]
    edges = [(0, 0), *((span.start, span.end) for span in found), (len(text), len(text))]
    for (_, end), (start, after) in pairwise(edges):
        for bracket in _BRACKET.finditer(text, end, start):
            yield bracket.span()
        if after > start:
            yield start, after


def _opened_by(spans: Sequence[str]) -> Iterator[int]:
    """Pair the start tags among the spans with their end tags."""
    waiting: list[tuple[str, int]] = []
    for number, span in enumerate(spans, 1):
        name, closes = _tag(span)
        opener = 0
        if name and not closes:
            waiting.append((name, number))
        elif name and waiting and waiting[-1][0] == name:
            opener = waiting.pop()[1]
        yield opener


def _tag(span: str) -> tuple[str, bool]:
    """The name of a tag and whether it is an end tag; empty for other spans and for tags of empty elements. Brackets
    are tags as well."""
    if span in ("[", "]"):
        return "[", span == "]"
    if found := _ANGULAR.fullmatch(span):
        return found[2], found[1] == "CLOSE"
    found = _ELEMENT.fullmatch(span)
    return (found[2], bool(found[1])) if found and not found[3] else ("", False)
