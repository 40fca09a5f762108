"""Passages of a markup document: spans of its text that are units, and how they are written back.

A passage has text and inline tags. A tag may hold passages itself, such as the `title` of a link. Everything outside
of the passages that are filled in stays as it is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

from nearmt.corpus.document import Fillings, Part, Segment, Tag, TagKind, Unit, plain_text
from nearmt.corpus.encoding import is_text
from nearmt.corpus.report import Report, Request

#: Formats a segment as the document's text.
Write = Callable[[Segment], str]
Span = tuple[int, int]
Restore = Callable[[str], str]


@dataclass(frozen=True)
class Piece:
    """Text or a tag of a passage, and its span in the document."""

    start: int
    end: int
    value: str | Tag
    #: Protected text, such as code: a word of the sentence, even at its beginning or end.
    is_word: bool = False
    #: Of an opening or closing tag: the name that pairs it.
    name: str = ""

    @property
    def can_go(self) -> bool:
        """Whether the passage does not need it at its beginning or end."""
        if isinstance(self.value, str):
            return not self.value.strip()
        return self.value.kind is TagKind.SINGLE and not self.is_word


@dataclass(frozen=True)
class Passage:
    """A span of a document that is a unit."""

    start: int
    end: int
    source: Segment
    write: Write
    #: The span of each tag.
    tags: Mapping[Tag, Span] = field(default_factory=dict)
    printf: bool | None = None


@dataclass(frozen=True)
class Replacement:
    """A span of a document that is replaced whatever is filled in."""

    start: int
    end: int
    text: str


def passage_of(pieces: Sequence[Piece], write: Write) -> Passage | None:
    """Make a passage of pieces, without the markup around it; None if it has no letters."""
    kept = trimmed(paired(pieces))
    source = _merged(piece.value for piece in kept)
    if not any(map(str.isalpha, plain_text(source))):
        return None
    tags = {piece.value: (piece.start, piece.end) for piece in kept if isinstance(piece.value, Tag)}
    return Passage(kept[0].start, kept[-1].end, source, write, tags)


def _merged(values: Iterable[str | Tag]) -> Segment:
    """Join adjacent texts."""
    merged: list[str | Tag] = []
    for kind, run in groupby(values, key=type):
        found = list(run)
        merged += ["".join(map(str, found))] if kind is str else found
    return tuple(value for value in merged if value != "")


def paired(pieces: Sequence[Piece]) -> list[Piece]:
    """Give tags their keys. Opening and closing tags that do not nest become single ones."""
    partner: dict[int, int] = {}
    waiting: list[int] = []
    for number, piece in enumerate(pieces):
        if isinstance(piece.value, str):
            continue
        if piece.value.kind is TagKind.OPEN:
            waiting.append(number)
        elif piece.value.kind is TagKind.CLOSE and waiting and pieces[waiting[-1]].name == piece.name:
            partner[number] = waiting.pop()
            partner[partner[number]] = number
    return [_keyed(piece, number, partner.get(number)) for number, piece in enumerate(pieces)]


def _keyed(piece: Piece, number: int, partner: int | None) -> Piece:
    tag = piece.value
    if isinstance(tag, str):
        return piece
    if partner is None:
        return replace(piece, value=replace(tag, kind=TagKind.SINGLE, key=f"tag {number}"))
    return replace(piece, value=replace(tag, key=f"tag {min(number, partner)}", element=True))


def trimmed(pieces: Sequence[Piece]) -> list[Piece]:
    """Remove what the passage does not need at its ends: white space, single tags, and tags around all of it."""
    first, last = 0, len(pieces)
    while first < last:
        if pieces[first].can_go:
            first += 1
        elif pieces[last - 1].can_go:
            last -= 1
        elif last - first > 1 and _is_pair(pieces[first], pieces[last - 1]):
            first, last = first + 1, last - 1
        elif last - first > 2 and _is_pair(pieces[first], pieces[first + 1]):
            first += 2
        elif last - first > 2 and _is_pair(pieces[last - 2], pieces[last - 1]):
            last -= 2
        else:
            break
    return list(pieces[first:last])


def _is_pair(opening: Piece, closing: Piece) -> bool:
    one, other = opening.value, closing.value
    return (
        isinstance(one, Tag)
        and isinstance(other, Tag)
        and (one.kind, other.kind, one.key) == (TagKind.OPEN, TagKind.CLOSE, other.key)
    )


def parts_of(
    text: str,
    passages: Iterable[Passage],
    path: Path,
    request: Request,
    report: Report,
    replacements: Iterable[Replacement] = (),
    first_line: int = 1,
) -> Iterator[Part]:
    """Yield the parts of a text: its passages, with those inside their tags, and the text between them.

    A passage that is too large or not decodable is reported and kept.
    """
    passed, line, at = 0, first_line, 0
    for group in _groups([*passages, *replacements]):
        outer = group[0]
        if outer.start > at:
            yield Part(text[at : outer.start])
        line += text.count("\n", passed, outer.start)
        passed, at = outer.start, outer.end
        if isinstance(outer, Replacement):
            yield _replaced(text, outer)
            continue
        inside = [_moved(one, outer.start) for one in group if isinstance(one, Passage)]
        raw = text[outer.start : outer.end]
        yield part_of(raw, usable(inside, raw, line, path, request, report), line)
    if at < len(text):
        yield Part(text[at:])


def _groups(spans: list[Passage | Replacement]) -> Iterator[list[Passage | Replacement]]:
    """Yield outermost spans, each with those inside it."""
    group: list[Passage | Replacement] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if group and span.start >= group[0].end:
            yield group
            group = []
        group.append(span)
    if group:
        yield group


def _replaced(text: str, span: Replacement) -> Part:
    return Part(text[span.start : span.end], render=lambda _: span.text)


def part_of(raw: str, passages: Sequence[Passage], line: int, text: str | None = None, restore: Restore = str) -> Part:
    """Make the part of passages, which are spans of the raw text, or of a text that `restore` turns into it."""
    if not passages:
        return Part(raw)
    content = raw if text is None else text
    units, passed = [], 0
    for passage in passages:
        line += content.count("\n", passed, passage.start)
        passed = passage.start
        units.append(Unit(passage.source, "", line, passage.printf))

    def render(fillings: Fillings) -> str:
        found = zip(passages, fillings, strict=True)
        given = [(passage, filling.target) for passage, filling in found if filling is not None]
        changed = [(passage, target) for passage, target in given if target != passage.source]
        return restore(_Rewriting(content, changed).text(0, len(content))) if changed else raw

    return Part(raw, tuple(units), render)


def usable(
    passages: Iterable[Passage], text: str, line: int, path: Path, request: Request, report: Report
) -> list[Passage]:
    """Leave out passages that are too large or not decodable, and report them."""
    found = []
    for passage in passages:
        raw = text[passage.start : passage.end]
        if len(raw) > request.limits.unit_bytes:
            report.problem(path, line, f"a text of {request.limits.too_large}")
        elif not is_text(raw) or not is_text(plain_text(passage.source)):
            report.problem(path, line, "undecodable bytes; convert the file to UTF-8, e.g. with iconv")
        else:
            found.append(passage)
    return found


def _moved(passage: Passage, offset: int) -> Passage:
    tags = {tag: (start - offset, end - offset) for tag, (start, end) in passage.tags.items()}
    return replace(passage, start=passage.start - offset, end=passage.end - offset, tags=tags)


class _Rewriting:
    """A text with translations of passages, which are sorted by their start, outer ones first."""

    def __init__(self, text: str, changed: Sequence[tuple[Passage, Segment]]) -> None:
        self._text, self._changed = text, changed
        self._starts = [passage.start for passage, _ in changed]

    def text(self, start: int, end: int, inside: Passage | None = None) -> str:
        """Return a span of the text, rewritten; `inside` a passage only the passages within its tags."""
        parts, at = [], start
        for passage, target in self._changed[bisect_left(self._starts, start) : bisect_right(self._starts, end)]:
            if passage is inside or passage.start < at or passage.end > end:
                continue
            tagged = tuple(part if isinstance(part, str) else self._tag(passage, part) for part in target)
            parts += [self._text[at : passage.start], passage.write(tagged)]
            at = passage.end
        return "".join([*parts, self._text[at:end]])

    def _tag(self, passage: Passage, tag: Tag) -> Tag:
        """Return a tag with the translations inside it."""
        span = passage.tags.get(tag)
        markup = "" if span is None else self.text(*span, inside=passage)
        return tag if span is None or markup == self._text[slice(*span)] else replace(tag, markup=markup)
