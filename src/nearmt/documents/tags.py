"""Projection of inline tags from a source to its translation, by word alignment."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from nearmt.corpus.document import Segment, Tag, TagKind, plain_text
from nearmt.models.alignment import WORD, Link, Span

_BLANKS = re.compile(r"\s*")
# Punctuation without a blank before it, and without one after it.
_CLOSING, _OPENING = frozenset(".,;:!?…)]}%»”’"), frozenset("([{«„“‘¿¡")

#: The position of a tag in the target: offset, rank among the tags at that offset, number in the source.
_Position = tuple[int, int, int]


def project(segment: Segment, target: str, links: Sequence[Link]) -> Segment:
    """Insert every tag of the source segment into the target once.

    Paired tags enclose the words aligned with those they enclose in the source; other tags stay adjacent to their
    word. Offsets of the links refer to plain texts. The text is unchanged, except for blanks next to single tags that
    are isolated in the source and would touch a word in the target.
    """
    if "".join(part for part in segment if isinstance(part, str)) == target:
        return _merged(segment)
    source = _Source.read(segment)
    return _written(source, target, _positions(source, target, _Projection(source, target, links)))


@dataclass(frozen=True)
class _Mark:
    """A tag of the source and its position."""

    tag: Tag
    offset: int
    words_before: int


@dataclass(frozen=True)
class _Source:
    """The words and tags of a segment. A tag inside a word splits it into two."""

    text: str
    words: list[Span]
    marks: list[_Mark]

    @classmethod
    def read(cls, segment: Segment) -> _Source:
        words: list[Span] = []
        marks: list[_Mark] = []
        offset = 0
        for part in segment:
            if isinstance(part, Tag):
                marks.append(_Mark(part, offset, len(words)))
                offset += part.blank
            else:
                words += [(offset + match.start(), offset + match.end()) for match in WORD.finditer(part)]
                offset += len(part)
        return cls(plain_text(segment), words, marks)

    def follows_blank(self, mark: _Mark) -> bool:
        return mark.offset == 0 or self.text[mark.offset - 1].isspace()

    def is_isolated(self, mark: _Mark) -> bool:
        """Whether no word is adjacent; tags that represent a blank do not count."""
        ends = mark.offset == len(self.text) or not self.text[mark.offset].isalnum()
        return self.follows_blank(mark) and ends and not mark.tag.blank


class _Projection:
    """Maps runs of source words to spans of the target.

    Level n of the tables has the least start and the greatest end of the 2 ** n words from each word on.
    """

    def __init__(self, source: _Source, target: str, links: Sequence[Link]) -> None:
        self.words, self.end = len(source.words), len(target)
        low, high = np.full(self.words, self.end), np.full(self.words, -1)
        for word, (start, end) in _linked(source, target, links):
            low[word], high[word] = min(low[word], start), max(high[word], end)
        self._linked: list[int] = np.flatnonzero(high >= 0).tolist()
        self._low, self._high = [low], [high]
        while 2 ** len(self._low) <= self.words:
            half = 2 ** (len(self._low) - 1)
            self._low.append(np.minimum(self._low[-1][:-half], self._low[-1][half:]))
            self._high.append(np.maximum(self._high[-1][:-half], self._high[-1][half:]))

    def of(self, first: int, last: int) -> Span | None:
        """Return the span of the words `first` to `last` (exclusive); None if none of them is linked."""
        if first >= last:
            return None
        level = (last - first).bit_length() - 1
        second = last - 2**level
        end = int(max(self._high[level][first], self._high[level][second]))
        return None if end < 0 else (int(min(self._low[level][first], self._low[level][second])), end)

    def around(self, opening: _Mark, closing: _Mark) -> Span:
        """Return the span that a pair of tags encloses."""
        first, last = opening.words_before, closing.words_before
        if first == 0 and last == self.words > 0:
            return 0, self.end
        return self.of(first, last) or self._after(first)

    def _after(self, word: int) -> Span:
        """Return the empty span at the end of the words before this one."""
        passed = bisect_left(self._linked, word)
        is_last = word == self.words > 0
        offset = self.end if is_last else self._end_of(passed - 1) if passed else 0
        return offset, offset

    def adjacent(self, mark: _Mark, forward: bool) -> int:
        """Return the offset of a single tag, at the nearest linked word; `forward` prefers the next word on ties."""
        here = mark.words_before
        if here in (0, self.words) or not self._linked:
            return self.end if here else 0
        passed = bisect_left(self._linked, here)
        steps_ahead = self._linked[passed] - here if passed < len(self._linked) else self.words
        steps_back = here - 1 - self._linked[passed - 1] if passed else self.words
        if steps_ahead < steps_back or (forward and steps_ahead == steps_back):
            return int(self._low[0][self._linked[passed]])
        return self._end_of(passed - 1)

    def _end_of(self, linked: int) -> int:
        return int(self._high[0][self._linked[linked]])


def _linked(source: _Source, target: str, links: Sequence[Link]) -> Iterator[tuple[int, Span]]:
    """Yield words of the source with the target spans linked to them."""
    ends = [end for _, end in source.words]
    for link in links:
        (start, end), (target_start, target_end) = link.source, link.target
        is_same = source.text[start:end] == target[target_start:target_end]
        for word in range(bisect_right(ends, start), len(ends)):
            word_start, word_end = source.words[word]
            if word_start >= end:
                break
            if is_same:  # tags inside copied words keep their offsets, as in m<sup>2</sup>
                shift = target_start - start
                yield word, (max(word_start, start) + shift, min(word_end, end) + shift)
            else:
                yield word, (target_start, target_end)


@dataclass
class _Element:
    """A pair of tags that must nest, and its span of the target. The root is the whole target.

    Ranks order the tags at one offset: first closing tags, innermost first (negative), then single tags (0), then
    opening tags, outermost first.
    """

    start: int
    end: int
    depth: int = 0
    children: list[_Element] = field(default_factory=list)
    #: The element itself or, if it is empty, the nearest non-empty ancestor, which contains its tags.
    solid: _Element = field(init=False)

    def __post_init__(self) -> None:
        self.solid = self

    def rank_within(self, offset: int) -> int:
        """Return the rank of a tag inside the element at this offset."""
        if offset == self.start:
            return 2 * self.depth + 1
        return -2 * self.depth - 1 if offset == self.end else 0

    def fit_children(self, target: str) -> None:
        """Move the children inside the element without overlap; those that begin first keep their spans."""
        free = self.start
        for child in sorted(self.children, key=lambda child: (child.start, child.end)):
            start, end = child.start, min(child.end, self.end)
            if start < free < end:
                start = _BLANKS.match(target, free, end).end()  # type: ignore[union-attr]  # matches anything
            child.start = min(max(start, free), self.end)
            child.end = free = max(child.start, end)
            child.solid = child if child.start < child.end else self.solid


def _positions(source: _Source, target: str, projection: _Projection) -> list[_Position]:
    """Return the position of every tag in the target."""
    marks = source.marks
    elements, codes = _pairs(marks)
    parents, own = _tree(marks, elements, projection)
    _fit_all(parents[:1], target)
    offsets = {number: projection.adjacent(mark, source.follows_blank(mark)) for number, mark in enumerate(marks)}
    bounds = list(parents)
    for opening, closing in codes.items():
        offsets[opening], offsets[closing] = projection.around(marks[opening], marks[closing])
        if offsets[opening] == offsets[closing]:
            parents[closing] = bounds[closing] = parents[opening]
        elif parents[opening] is not parents[closing]:  # it crosses elements, whose order may change
            bounds[opening] = bounds[closing] = parents[0]
    positions: list[_Position] = []
    for number, (parent, bound) in enumerate(zip(parents, bounds, strict=True)):
        element = own.get(number)
        if element is not None and element.start < element.end:
            is_opening = number in elements
            rank = 2 * element.depth if is_opening else -2 * element.depth
            positions.append((element.start if is_opening else element.end, rank, number))
        else:
            offset = element.start if element else min(max(offsets[number], bound.start), bound.end)
            positions.append((offset, parent.solid.rank_within(offset), number))
    return positions


def _pairs(marks: list[_Mark]) -> tuple[dict[int, int], dict[int, int]]:
    """Pair opening and closing tags by number: those that nest, and codes that cross others in the source."""
    elements: dict[int, int] = {}
    codes: dict[int, int] = {}
    unclosed: list[int] = []
    waiting: dict[tuple[bool, str], list[int]] = defaultdict(list)
    for number, tag in enumerate(mark.tag for mark in marks):
        same_key = waiting[tag.element, tag.key]
        if tag.kind is TagKind.OPEN:
            same_key.append(number)
            if tag.element:
                unclosed.append(number)
        elif tag.kind is TagKind.CLOSE and same_key:
            opening = same_key.pop()
            (elements if tag.element else codes)[opening] = number
            while tag.element and (inner := unclosed.pop()) != opening:
                waiting[True, marks[inner].tag.key].pop()  # its closing tag would cross this one
    together = elements | codes
    return (together, {}) if codes and _nest(together) else (elements, codes)


def _nest(pairs: dict[int, int]) -> bool:
    """Whether what is opened last is closed first."""
    opened: list[int] = []
    for number in sorted([*pairs, *pairs.values()]):
        if number in pairs:
            opened.append(number)
        elif number != pairs[opened.pop()]:
            return False
    return True


def _tree(
    marks: list[_Mark], elements: dict[int, int], projection: _Projection
) -> tuple[list[_Element], dict[int, _Element]]:
    """Return the parent element of every tag, and the elements by the numbers of their tags."""
    open_elements = [_Element(0, projection.end)]
    parents: list[_Element] = []
    own: dict[int, _Element] = {}
    for number, mark in enumerate(marks):
        if number in own:
            open_elements.pop()
        parents.append(open_elements[-1])
        if number in elements:
            closing = elements[number]
            span = projection.around(mark, marks[closing])
            own[number] = own[closing] = _Element(*span, depth=len(open_elements))
            open_elements[-1].children.append(own[number])
            open_elements.append(own[number])
    return parents, own


def _fit_all(pending: list[_Element], target: str) -> None:
    while pending:
        element = pending.pop()
        element.fit_children(target)
        pending += element.children


def _written(source: _Source, target: str, positions: list[_Position]) -> Segment:
    """Insert the tags into the target."""
    parts: list[str | Tag] = []
    done = 0
    order = sorted(range(len(positions)), key=positions.__getitem__)
    for offset, numbers in groupby(order, key=lambda number: positions[number][0]):
        parts.append(target[done:offset])
        parts += _spaced(source, [source.marks[number] for number in numbers], target, offset)
        done = offset
    return _merged([*parts, target[done:]])


def _spaced(source: _Source, marks: list[_Mark], target: str, offset: int) -> list[str | Tag]:
    """Return the tags of one offset, with blanks between isolated tags and adjacent words."""
    parts: list[str | Tag] = [mark.tag for mark in marks]
    alone = [index for index, mark in enumerate(marks) if mark.tag.kind is TagKind.SINGLE and source.is_isolated(mark)]
    if not alone or any(mark.tag.blank for mark in marks):
        return parts
    before, after = target[max(offset - 1, 0) : offset], target[offset : offset + 1]
    # A tag before punctuation in the source needs a blank before a word only.
    before_mark = source.text[marks[alone[-1]].offset : marks[alone[-1]].offset + 1].strip()
    needs_blank = after.isalnum() if before_mark else after.strip() and after not in _CLOSING
    if needs_blank:
        parts.insert(alone[-1] + 1, " ")
    if before and not before.isspace() and before not in _OPENING:
        parts.insert(alone[0], " ")
    return parts


def _merged(parts: Sequence[str | Tag]) -> Segment:
    """Join adjacent strings."""
    merged: list[str | Tag] = []
    for is_text, run in groupby(parts, key=lambda part: isinstance(part, str)):
        found = list(run)
        merged += ["".join(map(str, found))] if is_text else found
    return tuple(part for part in merged if part != "")
