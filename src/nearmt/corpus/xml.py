"""Streaming of XML documents: units one by one, and the text between them unchanged.

expat parses the file, so that only one unit is in RAM, and gives the offset of each tag, so that a unit can be edited
and everything else written back unchanged. Entities are refused, and no other file is read. After a broken unit, the
scanner resumes at the next one; its time is linear in the size of the file, however much of it is broken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from nearmt.corpus.limits import DEFAULT_LIMITS, LimitsConfig
from nearmt.corpus.report import Report
from nearmt.corpus.xml_nodes import Fragment, Node, joined
from nearmt.errors import InputError

#: Maximum depth of elements in a unit, and of the recorded elements around it.
_DEEPEST = 64
#: Maximum depth of elements anywhere, since expat keeps them all.
_DEEPEST_OF_ALL = 100_000
#: Maximum number of elements of a unit; each takes some hundred bytes.
_MOST_ELEMENTS = 1 << 16
#: First bytes given to a new parser, so that little is parsed in vain if it fails at once.
_FIRST_BYTES = 256
#: Limit on the text parsed again after broken units: a multiple of the text, plus a number of bytes.
_PARSED_AGAIN, _PARSED_AGAIN_BYTES = 4, 1 << 20
#: The last bytes of a document, in which its end tag must be found if tags do not match.
_TAIL_BYTES = 4096
#: Overlap of buffers while looking for the start tag of the next unit.
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
_LAST_TAG = re.compile(rb"</(?:[\w.-]+:)?(?:tmx|xliff|resources)\s*>")


class _Broken(Exception):
    """The current unit cannot be used."""


class UnitScanner:
    """Finds the elements named `units` (not nested) and the start tags named `watched`.

    With `must_end`, a file that ends in the middle is an error, else a problem in the report.
    """

    def __init__(
        self,
        path: Path,
        report: Report,
        units: frozenset[str],
        watched: frozenset[str],
        limits: LimitsConfig = DEFAULT_LIMITS,
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
        self._fed = 0  # offset up to which the parser has read
        self._again = 0  # bytes parsed more than once
        self._tail = b""  # the last bytes returned
        self._around: list[Node] = []
        self._deeper = 0  # open elements beyond those recorded
        self._unit: list[Node] = []  # open elements of the current unit
        self._unit_at = 0  # its offset
        self._elements = 0  # number of its elements so far
        self._type_at: int | None = None  # offset of an open document type declaration
        self._found: list[tuple[int, int, Node, bool, tuple[Node, ...]]] = []
        self._search_from: int | None = None  # set while looking for the next unit after a broken one
        self._start_parser(b"", 0, 0)

    def scan(self, chunks: Iterable[str]) -> Iterator[Fragment]:
        """Yield the document as fragments, whose concatenated raw texts are the document."""
        for chunk in chunks:
            data = chunk.encode("utf-8", "surrogatepass")
            self._buffer += data
            self._parse(final=False)
            yield from self._release(final=False)
        self._parse(final=True)
        yield from self._release(final=True)
        if self._must_end and self._search_from is not None and not self._has_end():
            raise InputError(f"{self._path}: broken XML: the file has no end; get a complete one")

    # Parsing and recovery

    def _start_parser(self, prefix: bytes, offset: int, line: int) -> None:
        """Start a parser at an offset of the document; `prefix` opens the elements that are open there."""
        parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.StartElementHandler = self._on_start
        parser.EndElementHandler = self._on_end
        parser.CharacterDataHandler = self._on_text
        parser.EntityDeclHandler = self._on_entity
        parser.StartDoctypeDeclHandler = self._on_document_type
        parser.EndDoctypeDeclHandler = self._on_document_type_end
        # Default values of a document type could be long, and many.
        parser.specified_attributes = True
        parser.SkippedEntityHandler = self._on_skipped_entity
        self._parser, self._base, self._base_line = parser, offset - len(prefix), line
        self._began = self._fed = offset
        self._replaying = self._resumed = bool(prefix)
        if prefix:
            parser.Parse(prefix, False)
            self._replaying = False

    def _parse(self, final: bool) -> None:
        """Parse the buffer, resuming after broken units."""
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
        """Feed the parser in growing blocks, since expat reads a block to its end even if a handler fails."""
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
        """Report a broken unit and continue the search for units after its start."""
        line, offset, reason = self._parser.CurrentLineNumber, self._parser.CurrentByteIndex, str(error)
        code = None
        if isinstance(error, expat.ExpatError):
            line, offset, code = self._parser.ErrorLineNumber, self._parser.ErrorByteIndex, error.code
            reason = _ENDED if code in _AT_END else expat.ErrorString(error.code)
        failed_at = max(self._base + offset, self._buffer_at)
        broken_from = self._unit_at if self._unit else failed_at
        # After a recovery between units, end tags there need not match.
        if self._unit or not (self._resumed and code in _OUT_OF_PLACE):
            if self._must_end and code in _AT_END and not self._has_end():
                where = f"{self._path}, line {line + self._base_line}"
                raise InputError(f"{where}: broken XML: {reason}; get a complete file")
            self._report.problem(self._path, line + self._base_line, f"broken XML: {reason}")
        # An unclosed construct was parsed to the end of the buffer.
        parsed_to = self._fed if code is None or code in _AT_END else failed_at
        self._again += parsed_to - broken_from
        if self._again > _PARSED_AGAIN * parsed_to + _PARSED_AGAIN_BYTES:
            broken_from = max(broken_from, parsed_to - 1)
        self._search_from = broken_from + 1
        self._unit, self._type_at = [], None

    def _resume(self) -> bool:
        """Resume at the next unit or watched element, if it is in the buffer."""
        assert self._search_from is not None
        found = self._landmark.search(self._buffer, self._search_from - self._buffer_at)
        if found is None:
            self._search_from = max(self._search_from, self._end() - _NAME_BYTES)
            return False
        offset = self._buffer_at + found.start()
        # An element with the name of an open one follows it: the end tag was skipped.
        names = [node.name for node in self._around]
        if (name := found.group(1).decode()) in names:
            del self._around[names.index(name) :]
        prefix = "".join(f"<{node.prefix}{node.name}>" for node in self._around) or "<lost>"
        self._search_from, self._deeper = None, 0
        self._start_parser(prefix.encode(), offset, self._count_lines(offset))
        return True

    def _count_lines(self, offset: int) -> int:
        """Count the line ends before an offset; offsets must increase from call to call."""
        start, lines = max(self._counted, (self._buffer_at, self._lines_before))
        lines += self._buffer.count(b"\n", start - self._buffer_at, offset - self._buffer_at)
        self._counted = offset, lines
        return lines

    def _has_end(self) -> bool:
        """Whether the end tag of the document was found."""
        return _LAST_TAG.search(self._tail + self._buffer[-_TAIL_BYTES:]) is not None

    # Handlers of expat

    def _on_start(self, qualified: str, attributes: dict[str, str]) -> None:
        if self._replaying:
            return
        prefix, colon, name = qualified.rpartition(":")
        start = self._base + self._parser.CurrentByteIndex
        is_unit = name in self._units
        if self._unit and is_unit:
            self._drop_unit(name)
        # Offsets are relative to the unit, or to the tag outside of units.
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

    def _drop_unit(self, inner: str) -> None:
        """Drop a unit that contains a unit: its end tag is missing, and its elements enclose the inner one."""
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

    # Output

    def _release(self, final: bool) -> Iterator[Fragment]:
        """Yield the units found, and the text up to where the next one may begin."""
        for start, end, node, is_unit, around in self._found:
            if start > self._buffer_at:
                yield Fragment(self._cut(start))
            yield Fragment(self._cut(end), node, is_unit, around)
        self._found = []
        settled = self._end() if final else self._settled()
        if settled > self._buffer_at:
            yield Fragment(self._cut(settled))

    def _settled(self) -> int:
        """Return the offset before which no further unit begins."""
        if self._search_from is not None:
            index = self._search_from - self._buffer_at
            while 0 < index < len(self._buffer) and self._buffer[index] & 0xC0 == 0x80:  # inside a character
                index -= 1
            return self._buffer_at + index
        if self._unit:
            return self._unit_at
        # The start of an incomplete token; negative while expat defers parsing.
        index = self._parser.CurrentByteIndex
        return max(self._base + index, self._buffer_at) if index >= 0 else self._buffer_at

    def _cut(self, end: int) -> bytes:
        """Remove the beginning of the buffer, up to an offset of the document, and return it."""
        raw = bytes(self._buffer[: end - self._buffer_at])
        del self._buffer[: len(raw)]
        self._buffer_at += len(raw)
        self._lines_before += raw.count(b"\n")
        self._tail = (self._tail + raw[-_TAIL_BYTES:])[-_TAIL_BYTES:]
        return raw
