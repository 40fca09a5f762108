"""XML documents as streams: units one by one, and the text between them untouched.

expat parses, so a file of any size needs the memory of one unit; it says where each tag stands, so a
unit can be edited in place and everything else written back as it was. Entities are refused and
nothing outside the file is ever read. After a broken unit the scanner goes on at the next one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from nearmt.corpus.report import Report
from nearmt.errors import InputError

_MOST_BYTES = 1 << 26
#: Elements within a unit; around one, those farther in are not told.
_DEEPEST = 64
#: Longest beginning of a start tag that must not be torn apart while the next unit is looked for.
_NAME_BYTES = 128
_AT_END = {
    expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS],
    expat.errors.codes[expat.errors.XML_ERROR_UNCLOSED_TOKEN],
}
_OUT_OF_PLACE = {
    expat.errors.codes[expat.errors.XML_ERROR_TAG_MISMATCH],
    expat.errors.codes[expat.errors.XML_ERROR_JUNK_AFTER_DOC_ELEMENT],
}
# Attribute values may hold `>`, but never `<`.
_WHOLE_TAG = re.compile(rb"""<(?:[^>"']|"[^"]*"|'[^']*')*>""")


@dataclass(slots=True)
class Node:
    """An element of a unit; offsets are bytes of the unit's raw text."""

    name: str  # without namespace prefix
    prefix: str  # with its colon, or nothing
    attributes: dict[str, str]
    line: int
    start: int
    inner: int = 0  # behind the start tag
    inner_end: int = 0  # where the end tag begins
    end: int = 0
    children: list[Node | str] = field(default_factory=list)

    def elements(self, *names: str) -> list[Node]:
        """Child elements of these names; those with another prefix belong to somebody else."""
        return [
            child
            for child in self.children
            if isinstance(child, Node) and child.name in names and child.prefix == self.prefix
        ]

    def element(self, name: str) -> Node | None:
        return next(iter(self.elements(name)), None)

    def text(self) -> str:
        """All text within."""
        return "".join(child if isinstance(child, str) else child.text() for child in self.children)


@dataclass(frozen=True)
class Stretch:
    """Some text of the document; with a node if it is a unit, or the start tag of a watched element."""

    raw: bytes
    node: Node | None = None
    is_unit: bool = False
    #: The open elements around it, outermost first; not all where they are very many.
    around: tuple[Node, ...] = ()

    def slice(self, start: int, end: int) -> str:
        return _decode(self.raw[start:end])

    @property
    def text(self) -> str:
        return _decode(self.raw)


class _Broken(Exception):
    """The unit at hand cannot be used."""


class UnitScanner:
    """Finds the elements named `units` (not nested in one another) and the start tags named `watched`."""

    def __init__(self, path: Path, report: Report, units: frozenset[str], watched: frozenset[str]) -> None:
        self._path, self._report = path, report
        self._units, self._watched = units, watched
        names = b"|".join(re.escape(name.encode()) for name in sorted(units | watched))
        self._landmark = re.compile(rb"<(?:[\w.-]+:)?(" + names + rb")(?=[\s/>])")
        self._buffer = bytearray()
        self._buffer_at = 0  # offset of the buffer in the document
        self._lines_before = 0  # line ends before the buffer
        self._around: list[Node] = []
        self._deeper = 0  # open elements farther in
        self._unit: list[Node] = []  # open elements of the unit at hand
        self._unit_at = 0  # and its offset
        self._found: list[tuple[int, int, Node, bool, tuple[Node, ...]]] = []
        self._search_from: int | None = None  # set while looking for the next unit after a broken one
        self._start_parser(b"", 0, 0)

    def scan(self, chunks: Iterable[str]) -> Iterator[Stretch]:
        """The whole document in stretches; their raw texts put together are the document."""
        for chunk in chunks:
            data = chunk.encode("utf-8", "surrogatepass")
            self._buffer += data
            self._parse(data, final=False)
            yield from self._release(final=False)
        self._parse(b"", final=True)
        yield from self._release(final=True)

    # Parsing and finding the way again

    def _start_parser(self, prefix: bytes, offset: int, line: int) -> None:
        """A parser that goes on at an offset of the document, told which elements are open there."""
        parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.StartElementHandler = self._on_start
        parser.EndElementHandler = self._on_end
        parser.CharacterDataHandler = self._on_text
        parser.EntityDeclHandler = self._on_entity
        parser.SkippedEntityHandler = self._on_skipped_entity
        self._parser, self._base, self._base_line = parser, offset - len(prefix), line
        self._replaying = self._resumed = bool(prefix)
        if prefix:
            parser.Parse(prefix, False)
            self._replaying = False

    def _parse(self, data: bytes, final: bool) -> None:
        while True:
            if self._search_from is not None:
                data = self._resume()
                if self._search_from is not None:
                    return
            try:
                self._parser.Parse(data, final)
                if self._buffer_at + len(self._buffer) - self._settled() > _MOST_BYTES:
                    raise _Broken(f"a unit or a comment of more than {_MOST_BYTES >> 20} MiB")
                return
            except (expat.ExpatError, _Broken) as error:
                self._lose(error)

    def _lose(self, error: Exception) -> None:
        """Report what is broken and look for the next unit behind the beginning of this one."""
        line, offset, reason = self._parser.CurrentLineNumber, self._parser.CurrentByteIndex, str(error)
        code = None
        if isinstance(error, expat.ExpatError):
            line, offset, code = self._parser.ErrorLineNumber, self._parser.ErrorByteIndex, error.code
            reason = "the file ends in the middle" if code in _AT_END else expat.ErrorString(error.code)
        broken_from = self._unit_at if self._unit else max(self._base + offset, self._buffer_at)
        # Once the way was lost between units, end tags there need not fit any more.
        if self._unit or not (self._resumed and code in _OUT_OF_PLACE):
            self._report.problem(self._path, line + self._base_line, f"broken XML: {reason}")
        self._search_from = broken_from + 1
        self._unit = []

    def _resume(self) -> bytes:
        """Start again at the next unit or watched element, if it is in the buffer."""
        assert self._search_from is not None
        found = self._landmark.search(self._buffer, self._search_from - self._buffer_at)
        if found is None:
            self._search_from = max(self._search_from, self._buffer_at + len(self._buffer) - _NAME_BYTES)
            return b""
        offset = self._buffer_at + found.start()
        # What has the name of an open element stands behind it: the end tag was passed over.
        names = [node.name for node in self._around]
        if (name := found.group(1).decode()) in names:
            del self._around[names.index(name) :]
        prefix = "".join(f"<{node.prefix}{node.name}>" for node in self._around) or "<lost>"
        self._search_from, self._deeper = None, 0
        self._start_parser(prefix.encode(), offset, self._lines_before + self._buffer.count(b"\n", 0, found.start()))
        return bytes(self._buffer[found.start() :])

    # What expat tells

    def _on_start(self, qualified: str, attributes: dict[str, str]) -> None:
        if self._replaying:
            return
        prefix, colon, name = qualified.rpartition(":")
        start = self._base + self._parser.CurrentByteIndex
        is_unit = name in self._units
        # Offsets count from the beginning of the unit, or of the tag outside of units.
        at = start - self._unit_at if self._unit else 0
        node = Node(name, prefix + colon, attributes, self._base_line + self._parser.CurrentLineNumber, at)
        tag = self._tag_at(start)
        node.inner = at + len(tag)
        if tag.endswith(b"/>"):
            node.end = node.inner
        if self._unit and is_unit:
            raise _Broken(f"<{name}> within <{self._unit[0].name}>: an end tag is missing")
        if len(self._unit) >= _DEEPEST:
            raise _Broken(f"elements nested more than {_DEEPEST} deep")
        if self._unit:
            self._unit[-1].children.append(node)
            self._unit.append(node)
        elif is_unit:
            self._unit, self._unit_at = [node], start
        else:
            if name in self._watched:
                self._found.append((start, start + node.inner, node, False, tuple(self._around)))
            if len(self._around) < _DEEPEST:
                self._around.append(node)
            else:
                self._deeper += 1

    def _on_end(self, name: str) -> None:
        if not self._unit:
            if self._deeper:
                self._deeper -= 1
            elif self._around:
                self._around.pop()
            return
        node = self._unit.pop()
        if len(node.children) > 1:
            node.children = _joined(node.children)
        if node.end:  # an empty element
            node.inner_end = node.end
        else:
            offset = self._base + self._parser.CurrentByteIndex
            node.inner_end = offset - self._unit_at
            node.end = self._buffer.index(b">", offset - self._buffer_at) + 1 + self._buffer_at - self._unit_at
        if not self._unit:
            self._found.append((self._unit_at, self._unit_at + node.end, node, True, tuple(self._around)))

    def _on_text(self, text: str) -> None:
        if self._unit:
            self._unit[-1].children.append(text)

    def _on_entity(self, name: str, *_: object) -> NoReturn:
        line = self._base_line + self._parser.CurrentLineNumber
        raise InputError(f"{self._path}, line {line}: declares the entity '{name}'; files with entities are not read")

    def _on_skipped_entity(self, name: str, is_parameter: bool) -> None:
        if self._unit and not is_parameter:
            raise _Broken(f"unknown entity &{name};")

    def _tag_at(self, offset: int) -> bytes:
        found = _WHOLE_TAG.match(self._buffer, offset - self._buffer_at)
        assert found is not None
        return found.group()

    # Handing out

    def _release(self, final: bool) -> Iterator[Stretch]:
        """Hand out what was found, and the text up to where the next find may begin."""
        for start, end, node, is_unit, around in self._found:
            if start > self._buffer_at:
                yield Stretch(self._cut(start))
            yield Stretch(self._cut(end), node, is_unit, around)
        self._found = []
        settled = self._buffer_at + len(self._buffer) if final else self._settled()
        if settled > self._buffer_at:
            yield Stretch(self._cut(settled))

    def _settled(self) -> int:
        """The offset before which no further find begins."""
        if self._search_from is not None:
            at = self._search_from - self._buffer_at
            while 0 < at < len(self._buffer) and self._buffer[at] & 0xC0 == 0x80:  # within a character
                at -= 1
            return self._buffer_at + at
        if self._unit:
            return self._unit_at
        # The token that expat wants more of; it may put off looking at what it has, and is nowhere then.
        at = self._parser.CurrentByteIndex
        return max(self._base + at, self._buffer_at) if at >= 0 else self._buffer_at

    def _cut(self, end: int) -> bytes:
        """Take the beginning of the buffer, up to an offset of the document."""
        raw = bytes(self._buffer[: end - self._buffer_at])
        del self._buffer[: len(raw)]
        self._buffer_at += len(raw)
        self._lines_before += raw.count(b"\n")
        return raw


def _joined(children: list[Node | str]) -> list[Node | str]:
    """Text that came in pieces in one."""
    joined: list[Node | str] = []
    for kind, run in groupby(children, type):
        same = list(run)
        joined += ["".join(map(str, same))] if kind is str else same
    return joined


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")
