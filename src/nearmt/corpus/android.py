"""String resources of Android (`strings.xml`) as documents to translate."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from nearmt.corpus.android_text import escaped, in_cdata, unescaped, with_safe_end, with_safe_start
from nearmt.corpus.document import Document, Part, Segment, Tag, TagKind
from nearmt.corpus.encoding import Encoding, decoded, sniff_xml
from nearmt.corpus.markup import carried
from nearmt.corpus.markup import escaped as xml_escaped
from nearmt.corpus.passages import Passage, Piece, part_of, passage_of, usable
from nearmt.corpus.report import Report, Request
from nearmt.corpus.xml import UnitScanner
from nearmt.corpus.xml_nodes import Fragment
from nearmt.errors import InputError

_UNITS = frozenset({"string", "string-array", "plurals"})
_TOKEN = re.compile(
    r"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>"
    r"|<(?P<close>/?)(?P<name>[^\s/>]+)(?:[^>\"']++|\"[^\"]*+\"|'[^']*+')*+>|[^<]+",
    re.DOTALL,
)
_HTML_TAG = re.compile(r"<(?P<close>/?)(?P<name>[A-Za-z][\w:.-]*)(?:[^<>\"']++|\"[^\"<>]*+\"|'[^'<>]*+')*+>")
_REFERENCE = re.compile(r"\s*(?:@[\w.:+*-]+(?:/[\w.:]+)?|\?[\w.:]+(?:/[\w.:]+)?)\s*")
_CDATA = ("<![CDATA[", "]]>")
_VOID = {"br", "img", "hr"}
_XML_REFERENCE = re.compile(r"&(?:#x([0-9A-Fa-f]+)|#([0-9]+)|(amp|lt|gt|quot|apos));")
_XML_NAMES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


@dataclass(frozen=True)
class _Text:
    """The content of a resource, without white space, quotes and CDATA marks around it."""

    start: int
    end: int
    in_quotes: bool
    is_cdata: bool


def android_document(path: Path, request: Request, report: Report) -> Document:
    encoding = sniff_xml(path)
    return Document(encoding, _parts(path, encoding, request, report), paragraphs=True)


def _parts(path: Path, encoding: Encoding, request: Request, report: Report) -> Iterator[Part]:
    scanner = UnitScanner(path, report, _UNITS, frozenset({"resources"}), request.limits, must_end=True)
    is_known = False
    for fragment in scanner.scan(decoded(path, encoding, request.limits)):
        node = fragment.node
        is_known = is_known or (node is not None and node.name == "resources")
        if node is None or not fragment.is_unit:
            yield Part(fragment.text)
            continue
        if not is_known:
            break
        text = fragment.text
        passages = usable(_passages(fragment, text, encoding.name), text, node.line, path, request, report)
        yield part_of(text, passages, node.line)
    if not is_known:
        raise InputError(f"{path}: is XML without the <resources> of Android; name its format with --format")


def _passages(unit: Fragment, text: str, encoding: str) -> Iterator[Passage]:
    assert unit.node is not None
    if any(node.attributes.get("translatable") == "false" for node in (*unit.around, unit.node)):
        return
    printf = False if unit.node.attributes.get("formatted") == "false" else None
    for start, end in _contents(text, unit.node.name == "string"):
        found = _trimmed(text, start, end)
        if not _REFERENCE.fullmatch(text, start, end) and (passage := _passage(text, found, encoding)):
            yield replace(passage, printf=printf)


def _contents(text: str, is_string: bool) -> Iterator[tuple[int, int]]:
    """Yield the content of a string, or of each item of an array or of plurals."""
    wanted, depth, start = (1 if is_string else 2), 0, 0
    for token in _TOKEN.finditer(text):
        if not token["name"]:
            continue
        if token["close"]:
            if depth == wanted:
                yield start, token.start()
            depth -= 1
        elif not token.group().endswith("/>"):
            depth += 1
            if depth == wanted:
                start = token.end()


def _trimmed(text: str, start: int, end: int) -> _Text:
    """Leave out white space, and the quotes or the CDATA marks that are around all of a content."""
    start, end = _without_space(text, start, end)
    opening, closing = _CDATA
    inner = text[start + len(opening) : end - len(closing)]
    is_cdata = text.startswith(opening, start) and text.endswith(closing, start, end) and closing not in inner
    if is_cdata:
        start, end = _without_space(text, start + len(opening), end - len(closing))
    quotes = [found.start() for found in re.finditer(r'(?s:\\.)|(")', text[start:end]) if found[1]]
    in_quotes = quotes == [0, end - start - 1] and not re.search("&(?:quot|#)", text[start:end])
    return _Text(start + in_quotes, end - in_quotes, in_quotes, is_cdata)


def _without_space(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start] in " \t\r\n":
        start += 1
    while end > start and text[end - 1] in " \t\r\n" and text[end - 2] != "\\":
        end -= 1
    return start, end


def _passage(text: str, found: _Text, encoding: str) -> Passage | None:
    return passage_of(list(_pieces(text, found)), partial(_written, found=found, encoding=encoding))


def _pieces(text: str, found: _Text) -> Iterator[Piece]:
    in_quotes = found.in_quotes
    for piece in _html_pieces(text, found) if found.is_cdata else _xml_pieces(text, found):
        if isinstance(piece.value, Tag):
            yield piece
        else:
            raw = piece.value if found.is_cdata else _XML_REFERENCE.sub(_referred, piece.value)
            value, in_quotes = unescaped(raw, in_quotes)
            yield replace(piece, value=value)


def _referred(reference: re.Match[str]) -> str:
    if reference[3]:
        return _XML_NAMES[reference[3]]
    return chr(int(reference[1], 16) if reference[1] else int(reference[2]))


def _html_pieces(text: str, found: _Text) -> Iterator[Piece]:
    """Yield the raw texts and the tags of a CDATA section, which holds HTML."""
    at = found.start
    for tag in _HTML_TAG.finditer(text, found.start, found.end):
        if tag.start() > at:
            yield Piece(at, tag.start(), text[at : tag.start()])
        yield _tag(tag)
        at = tag.end()
    if at < found.end:
        yield Piece(at, found.end, text[at : found.end])


def _xml_pieces(text: str, found: _Text) -> Iterator[Piece]:
    """Yield the raw texts and the tags of a content; `<xliff:g>` with its content is one tag."""
    kept_from, depth = 0, 0
    for token in _TOKEN.finditer(text, found.start, found.end):
        raw, name = token.group(), token["name"]
        if depth:
            depth += 0 if not name or raw.endswith("/>") else -1 if token["close"] else 1
            if not depth:
                yield Piece(kept_from, token.end(), Tag(text[kept_from : token.end()]), is_word=True)
        elif not name:
            is_text = not raw.startswith("<")
            yield Piece(*token.span(), raw if is_text else Tag(raw), is_word=raw.startswith(_CDATA[0]))
        elif name.endswith(":g") and not raw.endswith("/>"):
            kept_from, depth = token.start(), 1
        else:
            yield _tag(token)


def _tag(tag: re.Match[str]) -> Piece:
    raw, name = tag.group(), tag["name"].lower()
    is_single = raw.endswith("/>") or name in _VOID
    kind = TagKind.SINGLE if is_single else TagKind.CLOSE if tag["close"] else TagKind.OPEN
    return Piece(*tag.span(), Tag(raw, kind, blank=name == "br"), name=name)


def _written(segment: Segment, found: _Text, encoding: str) -> str:
    return "".join(_parts_written(segment, found, encoding))


def _parts_written(segment: Sequence[str | Tag], found: _Text, encoding: str) -> Iterator[str]:
    for number, part in enumerate(segment):
        if isinstance(part, Tag):
            yield part.markup
            continue
        text = escaped(carried(part), found.in_quotes)
        if number == 0 and not found.in_quotes:
            text = with_safe_start(text)
        if number == len(segment) - 1 and not found.in_quotes:
            text = with_safe_end(text)
        yield in_cdata(text, encoding) if found.is_cdata else xml_escaped(text, encoding)
