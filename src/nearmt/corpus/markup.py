"""Inline markup of TMX and XLIFF, and small edits of XML text."""

from __future__ import annotations

import re
from collections.abc import Iterable

from nearmt.corpus.document import Segment, Tag, TagKind
from nearmt.corpus.xml_nodes import Node, Stretch

# Elements whose content is text of the segment. All others hold codes of the original format, if
# anything; an element that nobody knows is kept whole as well.
_AROUND_TEXT = {"hi", "g", "mrk", "pc"}
# Codes that begin or end something, and what tells which belong together: the first of these attributes that is there.
_OPENING = {"bpt", "bx", "sc", "sm"}
_CLOSING = {"ept", "ex", "ec", "em"}
_SHARED = ("i", "rid", "startRef", "id")
_BREAKS = {"lb", "pb", "x-br", "x-lb", "br", "xlf:lb", "xlf:pb"}
_ATTRIBUTE = re.compile(r"""\s+([^\s=]+)\s*=\s*(?:"[^"]*"|'[^']*')""")
# What XML 1.0 cannot carry, escaped or not.
_IMPOSSIBLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def segment_of(unit: Stretch, parent: Node) -> Segment:
    """The text and the markup within an element of a unit."""
    parts: list[str | Tag] = []
    for child in parent.children:
        if isinstance(child, str):
            parts.append(child)
        elif child.name in _AROUND_TEXT:
            key = f"element {child.start}"
            opening, closing = unit.slice(child.start, child.inner), unit.slice(child.inner_end, child.end)
            if child.inner == child.end:
                parts.append(Tag(opening))
                continue
            parts.append(Tag(opening, TagKind.OPEN, key, element=True))
            parts += segment_of(unit, child)
            parts.append(Tag(closing, TagKind.CLOSE, key, element=True))
        else:
            parts.append(_code(unit, child))
    return tuple(part for part in parts if part != "")


def _code(unit: Stretch, node: Node) -> Tag:
    markup = unit.slice(node.start, node.end)
    attributes = node.attributes
    if node.name in _OPENING | _CLOSING:
        key = next((attributes[name] for name in _SHARED if attributes.get(name)), "")
        return Tag(markup, TagKind.OPEN if node.name in _OPENING else TagKind.CLOSE, f"code {key}")
    kinds = {attributes.get(name, "").lower() for name in ("ctype", "type", "subType", "equiv-text")}
    return Tag(markup, blank=bool(kinds & _BREAKS))


def carried(text: str) -> str:
    """What XML can carry of a text."""
    return _IMPOSSIBLE.sub("", text)


def escaped(text: str, encoding: str = "utf-8") -> str:
    """Text as XML content: what the encoding lacks becomes a character reference."""
    text = carried(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # A bare carriage return would be read as a line feed.
    text = text.replace("\r", "&#13;")
    return text.encode(encoding, "xmlcharrefreplace").decode(encoding)


def quoted(text: str, encoding: str) -> str:
    """Text as an attribute value with its quotes."""
    return '"' + escaped(" ".join(text.split()), encoding).replace('"', "&quot;") + '"'


def written(segment: Segment, encoding: str) -> str:
    """A segment as XML content."""
    return "".join(escaped(part, encoding) if isinstance(part, str) else part.markup for part in segment)


def spliced(unit: Stretch, edits: Iterable[tuple[int, int, str]]) -> str:
    """The unit's text with stretches replaced; edits do not overlap, those at one place keep their order."""
    parts, at = [], 0
    for start, end, text in sorted(edits, key=lambda edit: edit[:2]):
        parts += [unit.slice(at, start), text]
        at = end
    return "".join([*parts, unit.slice(at, len(unit.raw))])


def without(unit: Stretch, node: Node) -> tuple[int, int, str]:
    """The edit that removes an element and the white space before it."""
    start = node.start
    while start > 0 and unit.raw[start - 1 : start].isspace():
        start -= 1
    return start, node.end, ""


def space_before(unit: Stretch, node: Node) -> str:
    """The white space before an element, if it begins a line: what a new neighbour is indented with."""
    start = without(unit, node)[0]
    space = unit.slice(start, node.start)
    return space if "\n" in space else ""


def with_attributes(tag: str, values: dict[str, str], encoding: str) -> str:
    """A start tag with attributes set anew or added."""
    tag = _ATTRIBUTE.sub(lambda found: "" if found.group(1) in values else found.group(), tag)
    end = re.search(r"\s*/?>$", tag)
    assert end is not None
    added = "".join(f" {name}={quoted(value, encoding)}" for name, value in values.items())
    return tag[: end.start()] + added + tag[end.start() :]


def reopened(tag: str) -> tuple[str, str]:
    """A start tag that may have been an empty element, as one that is not, and its end tag."""
    start = re.sub(r"\s*/?>$", ">", tag)
    return start, f"</{start[1:-1].split(None, 1)[0]}>"
