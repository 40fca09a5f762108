"""XML documents as streams: units one by one, and the text between them untouched.

expat parses, so a file of any size needs the memory of one unit; it says where each tag stands, so a
unit can be edited in place and everything else written back as it was. Entities are refused and
nothing outside the file is ever read. After a broken unit the scanner goes on at the next one; the time it
takes grows with the size of the file, however much of it is broken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from nearmt.corpus.limits import USUAL_LIMITS, LimitsConfig
from nearmt.corpus.report import Report
from nearmt.corpus.xml_nodes import Node, Stretch, joined
from nearmt.errors import InputError

#: Nested elements within a unit; around one, those farther in are not told.
_DEEPEST = 64
#: Nested elements anywhere: expat remembers them all.
_DEEPEST_OF_ALL = 100_000
#: Elements of a unit: each takes some hundred bytes, however short it is.
_MOST_ELEMENTS = 1 << 16
#: Bytes that a new parser gets at first: if these break it, the others have not been looked at in vain.
_FIRST_BYTES = 256
#: After broken units text is parsed again, this many times as much as there is, and so many bytes more.
_PARSED_AGAIN, _PARSED_AGAIN_BYTES = 4, 1 << 20
#: Where the end of the document must be found if its end tags do not fit.
_TAIL_BYTES = 4096
#: Longest beginning of a start tag that must not be torn apart while the next unit is looked for.
_NAME_BYTES = 128
_ENDED = "the file ends in the middle, or is empty"
_AT_END = {
    expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS],
    expat.errors.codes[expat.errors.XML_ERROR_UNCLOSED_TOKEN],
    expat.errors.codes[expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION],
    expat.errors.codes[expat.errors.XML_ERROR_PARTIAL_CHAR],
}
_OUT_OF_PLACE = {
    expat.errors.codes[expat.errors.XML_ERROR_TAG_MISMATCH],
    expat.errors.codes[expat.errors.XML_ERROR_JUNK_AFTER_DOC_ELEMENT],
}
# Attribute values may hold `>`, but never `<`.
_WHOLE_TAG = re.compile(rb"""<(?:[^>"']++|"[^"]*+"|'[^']*+')*+>""")
_LAST_TAG = re.compile(rb"</(?:[\w.-]+:)?(?:tmx|xliff)\s*>")


class _Broken(Exception):
    """The unit at hand cannot be used."""


class UnitScanner:
    """Finds the elements named `units` (not nested in one another) and the start tags named `watched`.

    With `must_end` a file that ends in the middle is an error, else a problem.
    """

    def __init__(
        self,
        path: Path,
        report: Report,
        units: frozenset[str],
        watched: frozenset[str],
        limits: LimitsConfig = USUAL_LIMITS,
        must_end: bool = False,
    ) -> None:
        self._path, self._report = path, report
        self._units, self._watched = units, watched
        self._limits, self._must_end = limits, must_end
        names = b"|".join(re.escape(name.encode()) for name in sorted(units | watched))
        self._landmark = re.compile(rb"<(?:[\w.-]+:)?(" + names + rb")(?=[\s/>])")
        self._buffer = bytearray()
        self._buffer_at = 0  # offset of the buffer in the document
        self._lines_before = 0  # line ends before the buffer
        self._counted = (0, 0)  # an offset, and the line ends before it
        self._fed = 0  # offset up to which the parser knows the document
        self._again = 0  # bytes that were parsed more than once
        self._tail = b""  # the end of what was handed out
        self._around: list[Node] = []
        self._deeper = 0  # open elements farther in
        self._unit: list[Node] = []  # open elements of the unit at hand
        self._unit_at = 0  # and its offset
        self._elements = 0  # and how many it has had
        self._type_at: int | None = None  # offset of a document type that has not ended
        self._found: list[tuple[int, int, Node, bool, tuple[Node, ...]]] = []
        self._search_from: int | None = None  # set while looking for the next unit after a broken one
        self._start_parser(b"", 0, 0)

    def scan(self, chunks: Iterable[str]) -> Iterator[Stretch]:
        """The whole document in stretches; their raw texts put together are the document."""
        for chunk in chunks:
            data = chunk.encode("utf-8", "surrogatepass")
            self._buffer += data
            self._parse(final=False)
            yield from self._release(final=False)
        self._parse(final=True)
        yield from self._release(final=True)
        if self._must_end and self._search_from is not None and not self._has_end():
            raise InputError(f"{self._path}: broken XML: the file has no end; get a complete one")

    # Parsing and finding the way again

    def _start_parser(self, prefix: bytes, offset: int, line: int) -> None:
        """A parser that goes on at an offset of the document, told which elements are open there."""
        parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.StartElementHandler = self._on_start
        parser.EndElementHandler = self._on_end
        parser.CharacterDataHandler = self._on_text
        parser.EntityDeclHandler = self._on_entity
        parser.StartDoctypeDeclHandler = self._on_document_type
        parser.EndDoctypeDeclHandler = self._on_document_type_end
        # Values that a document type gives to all elements of a name could be long, and many.
        parser.specified_attributes = True
        parser.SkippedEntityHandler = self._on_skipped_entity
        self._parser, self._base, self._base_line = parser, offset - len(prefix), line
        self._began = self._fed = offset
        self._replaying = self._resumed = bool(prefix)
        if prefix:
            parser.Parse(prefix, False)
            self._replaying = False

    def _parse(self, final: bool) -> None:
        """Parse what is in the buffer, from broken unit to broken unit."""
        while self._search_from is None or self._resume():
            try:
                self._feed()
                if final:
                    self._parser.Parse(b"", True)
                elif self._end() - self._settled() > self._limits.unit_bytes:
                    raise _Broken(f"a unit or a comment of {self._limits.too_large}")
                return
            except (expat.ExpatError, _Broken) as error:
                self._lose(error)

    def _feed(self) -> None:
        """Give the parser what it has not seen; after a broken handler expat goes on to the end of what it has."""
        while self._fed < self._end():
            start = self._fed
            size = max(_FIRST_BYTES, start - self._began)
            self._fed = min(start + size, self._end())
            self._parser.Parse(bytes(self._buffer[start - self._buffer_at : self._fed - self._buffer_at]), False)
            if self._type_at is not None and self._fed - self._type_at > self._limits.unit_bytes:
                raise _Broken(f"a document type of {self._limits.too_large}")

    def _end(self) -> int:
        return self._buffer_at + len(self._buffer)

    def _lose(self, error: Exception) -> None:
        """Report what is broken and look for the next unit behind the beginning of this one."""
        line, offset, reason = self._parser.CurrentLineNumber, self._parser.CurrentByteIndex, str(error)
        code = None
        if isinstance(error, expat.ExpatError):
            line, offset, code = self._parser.ErrorLineNumber, self._parser.ErrorByteIndex, error.code
            reason = _ENDED if code in _AT_END else expat.ErrorString(error.code)
        at = max(self._base + offset, self._buffer_at)
        broken_from = self._unit_at if self._unit else at
        # Once the way was lost between units, end tags there need not fit any more.
        if self._unit or not (self._resumed and code in _OUT_OF_PLACE):
            if self._must_end and code in _AT_END and not self._has_end():
                where = f"{self._path}, line {line + self._base_line}"
                raise InputError(f"{where}: broken XML: {reason}; get a complete file")
            self._report.problem(self._path, line + self._base_line, f"broken XML: {reason}")
        # What never ends was parsed to the end of the buffer.
        parsed_to = self._fed if code is None or code in _AT_END else at
        self._again += parsed_to - broken_from
        if self._again > _PARSED_AGAIN * parsed_to + _PARSED_AGAIN_BYTES:
            broken_from = max(broken_from, parsed_to - 1)
        self._search_from = broken_from + 1
        self._unit, self._type_at = [], None

    def _resume(self) -> bool:
        """Start again at the next unit or watched element, if it is in the buffer."""
        assert self._search_from is not None
        found = self._landmark.search(self._buffer, self._search_from - self._buffer_at)
        if found is None:
            self._search_from = max(self._search_from, self._end() - _NAME_BYTES)
            return False
        offset = self._buffer_at + found.start()
        # What has the name of an open element stands behind it: the end tag was passed over.
        names = [node.name for node in self._around]
        if (name := found.group(1).decode()) in names:
            del self._around[names.index(name) :]
        prefix = "".join(f"<{node.prefix}{node.name}>" for node in self._around) or "<lost>"
        self._search_from, self._deeper = None, 0
        self._start_parser(prefix.encode(), offset, self._count_lines(offset))
        return True

    def _count_lines(self, offset: int) -> int:
        """Line ends before an offset that lies behind those asked for before."""
        start, lines = max(self._counted, (self._buffer_at, self._lines_before))
        lines += self._buffer.count(b"\n", start - self._buffer_at, offset - self._buffer_at)
        self._counted = offset, lines
        return lines

    def _has_end(self) -> bool:
        """Whether the end tag of the whole document is there."""
        return _LAST_TAG.search(self._tail + self._buffer[-_TAIL_BYTES:]) is not None

    # What expat tells

    def _on_start(self, qualified: str, attributes: dict[str, str]) -> None:
        if self._replaying:
            return
        prefix, colon, name = qualified.rpartition(":")
        start = self._base + self._parser.CurrentByteIndex
        is_unit = name in self._units
        if self._unit and is_unit:
            self._give_up_unit(name)
        # Offsets count from the beginning of the unit, or of the tag outside of units.
        at = start - self._unit_at if self._unit else 0
        node = Node(name, prefix + colon, attributes, self._base_line + self._parser.CurrentLineNumber, at)
        tag = self._tag_at(start)
        node.inner = at + len(tag)
        if tag.endswith(b"/>"):
            node.end = node.inner
        if len(self._unit) >= _DEEPEST or self._deeper > _DEEPEST_OF_ALL:
            raise _Broken(f"elements nested more than {_DEEPEST if self._unit else _DEEPEST_OF_ALL} deep")
        self._elements += 1
        if self._unit:
            if self._elements > _MOST_ELEMENTS:
                raise _Broken(f"a unit of more than {_MOST_ELEMENTS:,} elements")
            self._unit[-1].children.append(node)
            self._unit.append(node)
        elif is_unit:
            self._unit, self._unit_at, self._elements = [node], start, 1
        else:
            if name in self._watched:
                self._found.append((start, start + node.inner, node, False, tuple(self._around)))
            if len(self._around) < _DEEPEST:
                self._around.append(node)
            else:
                self._deeper += 1

    def _give_up_unit(self, inner: str) -> None:
        """A unit within a unit: the outer one has no end, and its elements are something around the inner one."""
        reason = f"<{inner}> within <{self._unit[0].name}>: an end tag is missing"
        line = self._base_line + self._parser.CurrentLineNumber
        self._report.problem(self._path, line, f"broken XML: {reason}")
        self._deeper += len(self._unit)
        self._unit, self._resumed = [], True

    def _on_end(self, name: str) -> None:
        if not self._unit:
            if self._deeper:
                self._deeper -= 1
            elif self._around:
                self._around.pop()
            return
        node = self._unit.pop()
        if len(node.children) > 1:
            node.children = joined(node.children)
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

    def _on_document_type(self, *_: object) -> None:
        self._type_at = self._base + self._parser.CurrentByteIndex

    def _on_document_type_end(self) -> None:
        self._type_at = None

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
        settled = self._end() if final else self._settled()
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
        self._tail = (self._tail + raw[-_TAIL_BYTES:])[-_TAIL_BYTES:]
        return raw
