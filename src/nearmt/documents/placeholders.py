"""Protected spans in segments: comparing, and conversion to tags if the model would lose them."""

from __future__ import annotations

import re
from collections import Counter

from nearmt.corpus import Segment, Tag, TagKind, plain_text
from nearmt.corpus.marks import MARK, marked
from nearmt.corpus.spans import MARKED, Span, find_spans

_ELEMENT = re.compile(r"<(/?)([A-Za-z][\w:.-]*)[^<>]*?(/?)>")
_OWN = "placeholder "


def placeholders(text: str, printf: bool | None = None) -> Counter[str]:
    """Count the protected spans of a text."""
    return _counted(text, find_spans(text, printf))


def without_placeholders(text: str, printf: bool | None = None) -> str:
    parts, offset = [], 0
    for span in find_spans(text, printf):
        parts += [text[offset : span.start], " "]
        offset = span.end
    return "".join([*parts, text[offset:]])


def as_tags(segment: Segment, printf: bool | None = None) -> Segment:
    """Convert protected spans to tags, which are removed before translation and projected back."""
    parts: list[str | Tag] = []
    for part in segment:
        if isinstance(part, Tag):
            parts.append(part)
            continue
        offset = 0
        for span in find_spans(part, printf):
            parts += [part[offset : span.start], Tag(part[span.start : span.end], key=f"{_OWN}{len(parts)}")]
            offset = span.end
        parts.append(part[offset:])
    return _paired(tuple(part for part in parts if part != ""))


def _paired(segment: Segment) -> Segment:
    """Pair start and end tags among the spans."""
    parts = list(segment)
    waiting: list[tuple[str, int]] = []
    for index, part in enumerate(parts):
        found = _ELEMENT.fullmatch(part.markup) if isinstance(part, Tag) and part.key.startswith(_OWN) else None
        if found is None or found.group(3):
            continue
        if not found.group(1):
            waiting.append((found.group(2), index))
        elif waiting and waiting[-1][0] == found.group(2):
            opened_at = waiting.pop()[1]
            opening = parts[opened_at]
            assert isinstance(opening, Tag) and isinstance(part, Tag)
            parts[opened_at] = Tag(opening.markup, TagKind.OPEN, opening.key, element=True)
            parts[index] = Tag(part.markup, TagKind.CLOSE, opening.key, element=True)
    return tuple(parts)


def as_text(segment: Segment) -> Segment:
    """Reverse `as_tags`."""
    parts: list[str | Tag] = []
    for part in segment:
        converted = part.markup if isinstance(part, Tag) and part.key.startswith(_OWN) else part
        if isinstance(converted, str) and parts and isinstance(parts[-1], str):
            parts[-1] += converted
        else:
            parts.append(converted)
    return tuple(parts)


def lost(source: Segment, target: Segment, printf: bool | None = None) -> list[str]:
    """List protected spans that the target lacks, and, with a plus, those it has in excess."""
    text, translation = plain_text(source), plain_text(target)
    spans = [span for span in find_spans(text, printf) if span.once]
    found = [span for span in _spans_like(text, spans, translation, printf) if span.once]
    before, after = _counted(text, spans), _counted(translation, found)
    excess = after - before
    new = _counted(translation, [span for span in found if span.kind in MARKED])
    return [*(before - after), *(f"+{extra}" for extra in excess if extra in before or extra in new)]


def damage(source: Segment, target: Segment, printf: bool | None = None) -> tuple[int, int]:
    """How many protected spans a target lacks or has in excess, and how many of its pairs of tags have lost their
    text."""
    pairs = _pairs_with_text(plain_text(source), printf) - _pairs_with_text(plain_text(target), printf)
    return len(lost(source, target, printf)), pairs.total()


def _pairs_with_text(text: str, printf: bool | None) -> Counter[str]:
    """Count the start tags of pairs that have letters, digits or other spans in them."""
    unit = marked(text, printf)
    place = {int(mark[1]): mark.span() for mark in MARK.finditer(unit.text)}
    pairs = ((opener, closer) for closer, opener in enumerate(unit.opened_by, 1) if opener)
    return Counter(
        unit.spans[opener - 1]
        for opener, closer in pairs
        if any(map(str.isalnum, unit.text[place[opener][1] : place[closer][0]]))
    )


def _counted(text: str, spans: list[Span]) -> Counter[str]:
    """Count the texts of spans; white space in them is one blank, as in a translation."""
    return Counter(" ".join(text[span.start : span.end].split()) for span in spans)


def placeholders_like(source: str, target: str, printf: bool | None = None) -> Counter[str]:
    """Count the protected spans of a target, as far as its source has them or their form says what they are."""
    return _counted(target, _spans_like(source, find_spans(source, printf), target, printf))


def _spans_like(source: str, spans: list[Span], target: str, printf: bool | None) -> list[Span]:
    """Find the spans of a target; those of its source may be recognisable only there, as `Version 2.0`."""
    known = {source[span.start : span.end] for span in spans if span.kind not in MARKED}
    return find_spans(target, printf, tuple(sorted(known)))
