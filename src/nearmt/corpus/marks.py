"""Marks: what stands for protected spans while a text is translated, and in the stored tokens of a pair.

The spans of a source are written `[1]`, `[2]`, ... in their order, which models copy far more reliably than the spans
themselves (docs/log.md). A target has the mark of the source's span wherever it has the same span. Brackets of the text
itself are spans as well, so every bracket of a marked text belongs to a mark.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from nearmt.corpus.spans import find_spans

#: The name of this way of marking; a datastore keeps it.
MARKS = "brackets-1"
MARK = re.compile(r"\[(\d+)\]")
_WITH_BLANKS = re.compile(r"( ?)\[(\d+)\]( ?)")
# Characters for private use stand for inline tags of documents.
_BRACKET = re.compile(r"\[\d+\]|[][\ue000-\uf8ff]")
_ELEMENT = re.compile(r"<(/?)([A-Za-z][\w:.-]*)[^<>]*?(/?)>")
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
    #: What a translation has in place of a mark, where that is not its span: the translation of a term.
    written: tuple[tuple[int, str], ...] = ()

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
        return "".join([*parts, text[offset:]])

    def restored(self, text: str) -> str:
        """A translation with the spans in place of the marks."""
        numbers = [int(found[1]) for found in MARK.finditer(text) if 0 < int(found[1]) <= len(self.spans)]
        by_order = [number for number in numbers if _BY_ORDER.fullmatch(self.spans[number - 1])]
        meant = dict(zip(by_order, sorted(by_order), strict=True)) if len(set(by_order)) == len(by_order) else {}
        written = dict(self.written)

        def span(found: re.Match[str]) -> str:
            number = int(found[1])
            number = meant.get(number, number)
            if number in written:
                is_first = not found.string[: found.start()].strip()
                return written[number][:1].upper() + written[number][1:] if is_first else written[number]
            return self.spans[number - 1] if 0 < number <= len(self.spans) else found[0]

        return MARK.sub(span, self._spaced(text))

    def _spaced(self, text: str) -> str:
        """A marked translation with blanks around marks as in the source: none within a pair of tags that has none
        there, and some between a mark and a word that it does not touch there."""
        beside = {int(found[1]): _beside(found) for found in MARK.finditer(self.text)}
        closers = {number for number, opener in enumerate(self.opened_by, 1) if opener}

        def spaced(found: re.Match[str]) -> str:
            number, (previous, following) = int(found[2]), _beside(found)
            before, after = beside.get(number, ("", ""))
            left = found[1] or " " * (previous.isalnum() and not before.isalnum())
            right = found[3] or " " * (following.isalnum() and not after.isalnum())
            if number in closers and before.strip():
                left = ""
            if number in self.opened_by and after.strip():
                right = ""
            return f"{left}[{number}]{right}"

        return _WITH_BLANKS.sub(spaced, text)


class Terms(Protocol):
    """Terms that have fixed translations."""

    def find(self, text: str) -> Iterable[tuple[int, int, str]]:
        """Where terms begin and end, without overlaps, and their translations; empty for terms that stay."""


def marked(text: str, printf: bool | None = None, terms: Terms | None = None) -> MarkedText:
    """Put marks in place of the protected spans of a source (`find_spans`), and of terms outside of them."""
    protected = list(_spans(text, printf))
    found = [(start, end, "") for start, end in protected]
    for start, end, translation in terms.find(text) if terms is not None else ():
        if not any(start < other_end and other < end for other, other_end in protected):
            found.append((start, end, translation))
    if not found:
        return MarkedText(text)
    parts, spans, written, offset = list[str](), list[str](), list[tuple[int, str]](), 0
    for start, end, translation in sorted(found):
        spans.append(text[start:end])
        if translation:
            written.append((len(spans), translation))
        parts += [text[offset:start], f"[{len(spans)}]"]
        offset = end
    return MarkedText("".join([*parts, text[offset:]]), tuple(spans), tuple(_opened_by(spans)), tuple(written))


def marks_in(text: str) -> list[int]:
    """The numbers of the marks of a marked text, or of a part of it."""
    return [int(found[1]) for found in MARK.finditer(text)]


def _beside(found: re.Match[str]) -> tuple[str, str]:
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
        element = _ELEMENT.fullmatch(span)
        opener = 0
        if element and not element[1] and not element[3]:
            waiting.append((element[2], number))
        elif element and element[1] and waiting and waiting[-1][0] == element[2]:
            opener = waiting.pop()[1]
        yield opener
