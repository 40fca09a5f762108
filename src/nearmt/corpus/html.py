"""HTML documents to translate: texts between block elements, with inline tags, and attributes that are text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from html import unescape
from pathlib import Path

from nearmt.corpus.document import Document, Part, Segment, Tag, TagKind
from nearmt.corpus.encoding import Encoding, sniff
from nearmt.corpus.html_elements import INLINE, PRESERVING, VOID, OpenElements, text_attributes
from nearmt.corpus.html_tokens import Attribute, Kind, Token, attributes, escaped, quoted, tokens
from nearmt.corpus.passages import Passage, Piece, Replacement, parts_of, passage_of
from nearmt.corpus.report import Report, Request
from nearmt.corpus.whole import check_round_trip, whole_text
from nearmt.languages import same_language

# The standard looks for it in the first 1024 bytes.
_CHARSET = re.compile(
    rb"""\A.{0,1024}?(?:<\?xml[^>]{0,200}?encoding\s*=\s*["']?|<meta[^>]{0,500}?charset\s*=\s*["']?)([\w.:-]+)""",
    re.IGNORECASE | re.DOTALL,
)
_XML = re.compile(r"\s*<\?xml\s")
_SPACES = " \t\n\r\f"
_SPACE = re.compile(rf"[{_SPACES}]+")
# Blocks and comments of template languages, which are no text; `{{name}}` is a placeholder.
_TEMPLATE = re.compile(r"\{%.{0,500}?%\}|\{#.{0,500}?#\}|<%.{0,500}?%>|\{\{.{0,500}?\}\}", re.DOTALL)
_TEMPLATE_SIGNS = ("{%", "{#", "<%", "<?")


def html_document(path: Path, request: Request, report: Report) -> Document:
    """Open a page or a fragment of one."""
    encoding = _sniff(path)
    return Document(encoding, _parts(path, encoding, request, report), paragraphs=True)


def html_parts(text: str, path: Path, request: Request, report: Report, encoding: str = "utf-8") -> Iterator[Part]:
    """The parts of a text in HTML; `path` names it in messages."""
    reader = _Reader(text, encoding, request)
    reader.read()
    if reader.lost_from is not None:
        line = text.count("\n", 0, reader.lost_from) + 1
        report.problem(path, line, "a tag without an end; the rest of the file is kept as it is")
    yield from parts_of(text, reader.passages, path, request, report, reader.replacements)


def _sniff(path: Path) -> Encoding:
    """Detect the encoding as browsers do, for which Latin-1 and ASCII are Windows-1252."""
    found = sniff(path, _CHARSET)
    return Encoding("cp1252") if found.name in {"iso8859-1", "ascii"} else found


def _parts(path: Path, encoding: Encoding, request: Request, report: Report) -> Iterator[Part]:
    text = whole_text(path, encoding, request.limits)
    check_round_trip(path, encoding, text, request.limits)
    yield from html_parts(text, path, request, report, encoding.name)


class _Reader:
    """Finds the passages of a document."""

    def __init__(self, text: str, encoding: str, request: Request) -> None:
        self.passages: list[Passage] = []
        self.replacements: list[Replacement] = []
        self.lost_from: int | None = None
        self._text, self._encoding, self._request = text, encoding, request
        self._is_xml = _XML.match(text) is not None
        self._open = OpenElements()
        #: The pieces of the current text, and whether each is kept.
        self._run: list[tuple[Piece, bool]] = []

    def read(self) -> None:
        for token in tokens(self._text, is_xml=self._is_xml):
            if token.kind is Kind.TEXT:
                self._on_text(token)
            elif token.kind is Kind.START:
                self._on_start(token)
            elif token.kind is Kind.END:
                self._on_end(token)
            elif token.kind is Kind.OTHER:
                self._add(Piece(token.start, token.end, Tag(self._raw(token))))
            else:
                self.lost_from = token.start
        self._finish()

    def _raw(self, token: Token) -> str:
        return self._text[token.start : token.end]

    def _add(self, piece: Piece, kept: bool | None = None) -> None:
        self._run.append((piece, not self._open.translates if kept is None else kept))

    def _on_text(self, token: Token) -> None:
        at = token.start
        for found in _TEMPLATE.finditer(self._text, token.start, token.end):
            self._add_text(at, found.start(), token.name)
            is_word = found.group().startswith("{{")
            self._add(Piece(found.start(), found.end(), Tag(found.group()), is_word=is_word))
            at = found.end()
        self._add_text(at, token.end, token.name)

    def _add_text(self, start: int, end: int, element: str) -> None:
        """Add a text, with the white space at its ends apart, so that it can be left out."""
        raw = self._text[start:end]
        inner = raw.strip(_SPACES)
        left = start + raw.index(inner) if inner else end
        for a, b in ((start, left), (left, left + len(inner)), (left + len(inner), end)):
            if a < b:
                text = unescape(self._text[a:b])
                self._add(Piece(a, b, text if element in PRESERVING else _SPACE.sub(" ", text)))

    def _on_start(self, tag: Token) -> None:
        found = attributes(self._text, tag)
        is_inline = tag.name in INLINE or self._open.in_foreign
        if not is_inline or (tag.name == "br" and self._after_break()):
            self._finish()
        translates = self._open.start(tag.name, found, tag.is_empty)
        if is_inline:
            is_break = tag.name == "br"
            kind = TagKind.SINGLE if tag.is_empty or tag.name in VOID else TagKind.OPEN
            self._add(
                Piece(tag.start, tag.end, Tag(self._raw(tag), kind, blank=is_break), name=tag.name), not translates
            )
        if translates:
            self._add_attributes(tag.name, found)
        if tag.name == "html":
            self._replace_language(found)

    def _on_end(self, tag: Token) -> None:
        if tag.name not in INLINE and not self._open.in_foreign:
            self._finish()
            self._open.end(tag.name)
            return
        kept = not self._open.translates
        self._open.end(tag.name)
        self._add(Piece(tag.start, tag.end, Tag(self._raw(tag), TagKind.CLOSE), name=tag.name), kept)

    def _after_break(self) -> bool:
        """Whether a line break precedes: two of them are the end of a paragraph."""
        before = (piece for piece, _ in reversed(self._run) if not isinstance(piece.value, str) or piece.value.strip())
        return next((piece.name == "br" for piece in before), False)

    def _add_attributes(self, name: str, found: Mapping[str, Attribute]) -> None:
        for attribute in text_attributes(name, found):
            raw = self._text[attribute.start : attribute.end]
            if any(sign in raw for sign in _TEMPLATE_SIGNS):
                continue
            write = partial(_attribute_written, quote=attribute.quote, encoding=self._encoding, is_xml=self._is_xml)
            text = _SPACE.sub(" ", attribute.value)
            if passage := passage_of([Piece(attribute.start, attribute.end, text)], write):
                self.passages.append(passage)

    def _replace_language(self, found: Mapping[str, Attribute]) -> None:
        """Set the language of the page to that of the translation, if it names the source language."""
        source, target = self._request.source_lang, self._request.target_lang
        for key in ("lang", "xml:lang"):
            if source and target and key in found and same_language(found[key].value, source) and found[key].value:
                self.replacements.append(Replacement(found[key].start, found[key].end, target))

    def _finish(self) -> None:
        """End the current text."""
        run, self._run = self._run, []
        if any(isinstance(piece.value, str) and not kept for piece, kept in run):
            write = partial(_written, encoding=self._encoding, is_xml=self._is_xml)
            if passage := passage_of(list(self._joined(run)), write):
                self.passages.append(passage)

    def _joined(self, run: Sequence[tuple[Piece, bool]]) -> Iterator[Piece]:
        """Make one tag of adjacent pieces that are kept."""
        at = 0
        while at < len(run):
            piece, kept = run[at]
            at += 1
            end = piece.end
            while kept and at < len(run) and run[at][1]:
                end = run[at][0].end
                at += 1
            if kept:  # code or a name is a word of its sentence, a drawing is not
                yield Piece(piece.start, end, Tag(self._text[piece.start : end]), is_word=piece.name != "svg")
            else:
                yield piece


def _written(segment: Segment, encoding: str, is_xml: bool) -> str:
    return "".join(escaped(part, encoding, is_xml=is_xml) if isinstance(part, str) else part.markup for part in segment)


def _attribute_written(segment: Segment, quote: str, encoding: str, is_xml: bool) -> str:
    text = "".join(_texts(segment))
    return quoted(_SPACE.sub(" ", text), quote, encoding, is_xml=is_xml)


def _texts(segment: Iterable[str | Tag]) -> Iterator[str]:
    return (part if isinstance(part, str) else part.markup for part in segment)
