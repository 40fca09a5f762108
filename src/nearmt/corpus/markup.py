"""Inline markup of TMX and XLIFF, and small edits of XML text."""

from __future__ import annotations

import re
from collections.abc import Iterable

from nearmt.corpus.document import Segment, Tag, TagKind
from nearmt.corpus.xml_nodes import Fragment, Node

# Elements whose content is text of the segment. All others contain codes of the original format, or are unknown and
# kept whole.
_AROUND_TEXT = {"hi", "g", "mrk", "pc"}
# Opening and closing codes, and the attributes that pair them, by priority.
_OPENING = {"bpt", "bx", "sc", "sm"}
_CLOSING = {"ept", "ex", "ec", "em"}
_SHARED = ("i", "rid", "startRef", "id")
# Angular's names of placeholders for tags; those of equal end tags have no number.
_ANGULAR_PAIR = re.compile(r"(START|CLOSE)_([A-Z_]+?)(?:_\d+)?")
_BREAKS = {"lb", "pb", "x-br", "x-lb", "br", "xlf:lb", "xlf:pb"}
_ATTRIBUTE = re.compile(r"""\s+([^\s=]+)\s*=\s*(?:"[^"]*"|'[^']*')""")
# Characters that XML 1.0 cannot contain, even escaped.
_IMPOSSIBLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def segment_of(unit: Fragment, parent: Node, *, protects: bool = False) -> Segment:
    """Return the text and the markup inside an element of a unit; text that is not to be translated is markup if this
    `protects` it."""
    parts: list[str | Tag] = []
    for child in parent.children:
        if isinstance(child, str):
            parts.append(child)
        elif protects and _is_protected(child):
            parts.append(Tag(unit.slice(child.start, child.end)))
        elif child.name in _AROUND_TEXT:
            key = f"element {child.start}"
            opening, closing = unit.slice(child.start, child.inner), unit.slice(child.inner_end, child.end)
            if child.inner == child.end:
                parts.append(Tag(opening))
                continue
            parts.append(Tag(opening, TagKind.OPEN, key, element=True))
            parts += segment_of(unit, child, protects=protects)
            parts.append(Tag(closing, TagKind.CLOSE, key, element=True))
        else:
            parts.append(_code(unit, child))
    return tuple(part for part in parts if part != "")


def _is_protected(node: Node) -> bool:
    kept = {node.attributes.get("translate"), node.attributes.get("its:translate")}
    return "no" in kept or (node.name == "mrk" and node.attributes.get("mtype") == "protected")


def _code(unit: Fragment, node: Node) -> Tag:
    markup = unit.slice(node.start, node.end)
    attributes = node.attributes
    if node.name in _OPENING | _CLOSING:
        key = next((attributes[name] for name in _SHARED if attributes.get(name)), "")
        return Tag(markup, TagKind.OPEN if node.name in _OPENING else TagKind.CLOSE, f"code {key}")
    if pair := _ANGULAR_PAIR.fullmatch(attributes.get("id", "")):
        return Tag(markup, TagKind.OPEN if pair[1] == "START" else TagKind.CLOSE, f"code {pair[2]}")
    kinds = {attributes.get(name, "").lower() for name in ("ctype", "type", "subType", "equiv-text")}
    return Tag(markup, blank=bool(kinds & _BREAKS))


def carried(text: str) -> str:
    """Remove the characters that XML cannot contain."""
    return _IMPOSSIBLE.sub("", text)


def escaped(text: str, encoding: str = "utf-8") -> str:
    """Escape text as XML content; characters outside the encoding become character references."""
    text = carried(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # A bare carriage return would be read as a line feed.
    text = text.replace("\r", "&#13;")
    return text.encode(encoding, "xmlcharrefreplace").decode(encoding)


def quoted(text: str, encoding: str) -> str:
    """Format text as an attribute value with quotes."""
    return '"' + escaped(" ".join(text.split()), encoding).replace('"', "&quot;") + '"'


def written(segment: Segment, encoding: str) -> str:
    """Format a segment as XML content."""
    return "".join(escaped(part, encoding) if isinstance(part, str) else part.markup for part in segment)


def spliced(unit: Fragment, edits: Iterable[tuple[int, int, str]]) -> str:
    """Apply edits (start, end, text) to a unit's text; they must not overlap, and keep their order at one offset."""
    parts, offset = [], 0
    for start, end, text in sorted(edits, key=lambda edit: edit[:2]):
        parts += [unit.slice(offset, start), text]
        offset = end
    return "".join([*parts, unit.slice(offset, len(unit.raw))])


def without(unit: Fragment, node: Node) -> tuple[int, int, str]:
    """Make the edit that removes an element and the white space before it."""
    start = node.start
    while start > 0 and unit.raw[start - 1 : start].isspace():
        start -= 1
    return start, node.end, ""


def without_indent(unit: Fragment, node: Node) -> tuple[int, int, str]:
    """Make the edit that takes back the insertion of an element with `space_before` a sibling."""
    return node.start - len(space_before(unit, node)), node.end, ""


def space_before(unit: Fragment, node: Node) -> str:
    """Return the white space before an element if it begins a line, to indent a new sibling."""
    start = without(unit, node)[0]
    space = unit.slice(start, node.start)
    return space if "\n" in space else ""


def with_attributes(tag: str, values: dict[str, str], encoding: str) -> str:
    """Set or add attributes of a start tag."""
    tag = _ATTRIBUTE.sub(lambda found: "" if found.group(1) in values else found.group(), tag)
    end = re.search(r"\s*/?>$", tag)
    assert end is not None
    added = "".join(f" {name}={quoted(value, encoding)}" for name, value in values.items())
    return tag[: end.start()] + added + tag[end.start() :]


def reopened(tag: str) -> tuple[str, str]:
    """Turn the tag of a possibly empty element into a start tag and an end tag."""
    start = re.sub(r"\s*/?>$", ">", tag)
    return start, f"</{start[1:-1].split(None, 1)[0]}>"
