"""Inline markup of a source, put back into its translation where the words went that it stood beside."""

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
# Marks that want no blank before them, or none behind them.
_CLOSING, _OPENING = frozenset(".,;:!?…)]}%»”’"), frozenset("([{«„“‘¿¡")

#: Where a tag goes: the offset in the target, its rank among the tags there, its number in the source.
_Place = tuple[int, int, int]


def project(segment: Segment, target: str, links: Sequence[Link]) -> Segment:
    """The target with every tag of the source segment in it, each once.

    Pairs surround the words that are linked to what they surround in the source; other tags stay beside
    the word they stand at. Offsets of the links count in the plain texts. The text stays as it is, save
    for blanks beside single tags that stand alone in the source and would stick to a word in the target.
    """
    if "".join(part for part in segment if isinstance(part, str)) == target:
        return _merged(segment)
    source = _Source.read(segment)
    return _written(source, target, _places(source, target, _Reach(source, target, links)))


@dataclass(frozen=True)
class _Mark:
    """A tag of the source and where it stands."""

    tag: Tag
    offset: int
    words_before: int


@dataclass(frozen=True)
class _Source:
    """A segment, taken apart. Tags end words: within one, its parts count as words."""

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

    def stands_alone(self, mark: _Mark) -> bool:
        """Neither side of it is a word; a tag that is a blank itself needs no others."""
        ends = mark.offset == len(self.text) or not self.text[mark.offset].isalnum()
        return self.follows_blank(mark) and ends and not mark.tag.blank


class _Reach:
    """Where the words of the source went: the stretch of the target that a run of them covers.

    Level n of the tables holds the least start and the greatest end of 2 ** n words from each word on.
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
        """What the words `first` to `last` (exclusive) cover; None if nothing is linked to them."""
        if first >= last:
            return None
        level = (last - first).bit_length() - 1
        second = last - 2**level
        end = int(max(self._high[level][first], self._high[level][second]))
        return None if end < 0 else (int(min(self._low[level][first], self._low[level][second])), end)

    def around(self, opening: _Mark, closing: _Mark) -> Span:
        """What a pair of tags surrounds."""
        first, last = opening.words_before, closing.words_before
        if first == 0 and last == self.words > 0:
            return 0, self.end
        return self.of(first, last) or self._behind(first)

    def _behind(self, word: int) -> Span:
        """The empty stretch where the words before this one end."""
        passed = bisect_left(self._linked, word)
        is_last = word == self.words > 0
        place = self.end if is_last else self._end_of(passed - 1) if passed else 0
        return place, place

    def beside(self, mark: _Mark, forward: bool) -> int:
        """Where a single tag goes: to the nearest linked word, the one ahead first if it looks `forward`."""
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
    """Words of the source, and what is linked to them."""
    ends = [end for _, end in source.words]
    for link in links:
        (start, end), (said_start, said_end) = link.source, link.target
        is_same = source.text[start:end] == target[said_start:said_end]
        for word in range(bisect_right(ends, start), len(ends)):
            word_start, word_end = source.words[word]
            if word_start >= end:
                break
            if is_same:  # tags keep their places within words that need no translation, as in m<sup>2</sup>
                shift = said_start - start
                yield word, (max(word_start, start) + shift, min(word_end, end) + shift)
            else:
                yield word, (said_start, said_end)


@dataclass
class _Element:
    """A pair of tags that must nest, and its stretch of the target. The root of all is the whole target.

    Ranks order the tags at one offset: first what ends there, the innermost first (negative), then what stands
    there (0), then what begins there, the outermost first.
    """

    start: int
    end: int
    depth: int = 0
    children: list[_Element] = field(default_factory=list)
    #: The element itself or, if it is empty, the next around it that is not: its tags stand within that.
    solid: _Element = field(init=False)

    def __post_init__(self) -> None:
        self.solid = self

    def rank_within(self, offset: int) -> int:
        """The rank of a tag at the offset that belongs inside the element."""
        if offset == self.start:
            return 2 * self.depth + 1
        return -2 * self.depth - 1 if offset == self.end else 0

    def settle(self, target: str) -> None:
        """Fit the children in, none over another: what comes first in the target keeps its stretch."""
        free = self.start
        for child in sorted(self.children, key=lambda child: (child.start, child.end)):
            start, end = child.start, min(child.end, self.end)
            if start < free < end:
                start = _BLANKS.match(target, free, end).end()  # type: ignore[union-attr]  # matches anything
            child.start = min(max(start, free), self.end)
            child.end = free = max(child.start, end)
            child.solid = child if child.start < child.end else self.solid


def _places(source: _Source, target: str, reach: _Reach) -> list[_Place]:
    """Where every tag goes."""
    marks = source.marks
    elements, codes = _pairs(marks)
    homes, own = _tree(marks, elements, reach)
    _settle_all(homes[:1], target)
    wanted = {number: reach.beside(mark, source.follows_blank(mark)) for number, mark in enumerate(marks)}
    bounds = list(homes)
    for opening, closing in codes.items():
        wanted[opening], wanted[closing] = reach.around(marks[opening], marks[closing])
        if wanted[opening] == wanted[closing]:
            homes[closing] = bounds[closing] = homes[opening]
        elif homes[opening] is not homes[closing]:  # it crosses elements, which may change places
            bounds[opening] = bounds[closing] = homes[0]
    places: list[_Place] = []
    for number, (home, bound) in enumerate(zip(homes, bounds, strict=True)):
        element = own.get(number)
        if element is not None and element.start < element.end:
            is_opening = number in elements
            rank = 2 * element.depth if is_opening else -2 * element.depth
            places.append((element.start if is_opening else element.end, rank, number))
        else:
            offset = element.start if element else min(max(wanted[number], bound.start), bound.end)
            places.append((offset, home.solid.rank_within(offset), number))
    return places


def _pairs(marks: list[_Mark]) -> tuple[dict[int, int], dict[int, int]]:
    """Opening tags with their closing tags, by number: elements, which nest, and codes, which may cross."""
    elements: dict[int, int] = {}
    codes: dict[int, int] = {}
    unclosed: list[int] = []
    waiting: dict[tuple[bool, str], list[int]] = defaultdict(list)
    for number, tag in enumerate(mark.tag for mark in marks):
        namesakes = waiting[tag.element, tag.key]
        if tag.kind is TagKind.OPEN:
            namesakes.append(number)
            if tag.element:
                unclosed.append(number)
        elif tag.kind is TagKind.CLOSE and namesakes:
            opening = namesakes.pop()
            (elements if tag.element else codes)[opening] = number
            while tag.element and (inner := unclosed.pop()) != opening:
                waiting[True, marks[inner].tag.key].pop()  # its closing tag would cross this one
    return elements, codes


def _tree(marks: list[_Mark], elements: dict[int, int], reach: _Reach) -> tuple[list[_Element], dict[int, _Element]]:
    """For every tag the element that it stands in, the whole target at last; and the elements by their two tags."""
    inside = [_Element(0, reach.end)]
    homes: list[_Element] = []
    own: dict[int, _Element] = {}
    for number, mark in enumerate(marks):
        if number in own:
            inside.pop()
        homes.append(inside[-1])
        if number in elements:
            closing = elements[number]
            own[number] = own[closing] = _Element(*reach.around(mark, marks[closing]), depth=len(inside))
            inside[-1].children.append(own[number])
            inside.append(own[number])
    return homes, own


def _settle_all(pending: list[_Element], target: str) -> None:
    while pending:
        element = pending.pop()
        element.settle(target)
        pending += element.children


def _written(source: _Source, target: str, places: list[_Place]) -> Segment:
    """The target with its tags."""
    parts: list[str | Tag] = []
    done = 0
    order = sorted(range(len(places)), key=places.__getitem__)
    for offset, numbers in groupby(order, key=lambda number: places[number][0]):
        parts.append(target[done:offset])
        parts += _spaced(source, [source.marks[number] for number in numbers], target, offset)
        done = offset
    return _merged([*parts, target[done:]])


def _spaced(source: _Source, marks: list[_Mark], target: str, offset: int) -> list[str | Tag]:
    """Tags that go to one offset, with blanks between those that stood alone and the words there."""
    parts: list[str | Tag] = [mark.tag for mark in marks]
    alone = [place for place, mark in enumerate(marks) if mark.tag.kind is TagKind.SINGLE and source.stands_alone(mark)]
    if not alone or any(mark.tag.blank for mark in marks):
        return parts
    before, behind = target[max(offset - 1, 0) : offset], target[offset : offset + 1]
    # Beside a mark in the source, it only must not stick to a word.
    beside_mark = source.text[marks[alone[-1]].offset : marks[alone[-1]].offset + 1].strip()
    sticks = behind.isalnum() if beside_mark else behind.strip() and behind not in _CLOSING
    if sticks:
        parts.insert(alone[-1] + 1, " ")
    if before and not before.isspace() and before not in _OPENING:
        parts.insert(alone[0], " ")
    return parts


def _merged(parts: Sequence[str | Tag]) -> Segment:
    """Neighbouring strings become one."""
    merged: list[str | Tag] = []
    for is_text, run in groupby(parts, key=lambda part: isinstance(part, str)):
        found = list(run)
        merged += ["".join(map(str, found))] if is_text else found
    return tuple(part for part in merged if part != "")
