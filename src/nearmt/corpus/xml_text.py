"""Texts with XML tags that are no files: what computer-assisted translation tools send as segments."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from nearmt.corpus.document import Part, Tag, TagKind
from nearmt.corpus.markup import written
from nearmt.corpus.passages import Passage, Piece, parts_of, passage_of
from nearmt.corpus.report import Report, Request
from nearmt.errors import InputError

#: Opens the root element around the text, so that it may have several elements.
_OPENING = b"<text>"
_DEEPEST = 256


def xml_parts(
    text: str,
    path: Path,
    request: Request,
    report: Report,
    *,
    kept: Collection[str] = (),
    splitting: Collection[str] = (),
) -> Iterator[Part]:
    """The parts of a well-formed text; `path` names it in messages.

    Elements named `kept`, and CDATA, are not translated. Elements named `splitting` begin and end a unit; all others
    are inline.
    """
    reader = _Reader(text, path, frozenset(kept), frozenset(splitting))
    yield from parts_of(text, reader.read(), path, request, report)


class _Reader:
    """Finds the passages of a text. expat tells where each token begins; it ends where the next one begins."""

    def __init__(self, text: str, path: Path, kept: frozenset[str], splitting: frozenset[str]) -> None:
        self._raw, self._path = text.encode("utf-8", "surrogatepass"), path
        self._kept, self._splitting = kept, splitting
        self._passages: list[Passage] = []
        self._run: list[Piece] = []
        #: The open token: its offset in bytes and in characters, and what it is.
        self._at, self._position = 0, 0
        self._open: tuple[str | Tag, str] | None = None
        self._names: list[str] = []
        #: Open elements with the one that is kept as a whole, or 0; more than possible within CDATA.
        self._whole = 0

    def read(self) -> list[Passage]:
        parser = expat.ParserCreate("utf-8")
        self._parser = parser
        parser.StartElementHandler, parser.EndElementHandler = self._on_start, self._on_end
        parser.CharacterDataHandler = self._on_text
        parser.CommentHandler = parser.ProcessingInstructionHandler = self._on_other
        parser.StartCdataSectionHandler, parser.EndCdataSectionHandler = self._on_cdata, self._on_cdata_end
        parser.StartDoctypeDeclHandler = self._on_document_type
        try:
            parser.Parse(_OPENING, False)
            parser.Parse(self._raw, False)
            parser.Parse(b"</text>", True)
        except expat.ExpatError as error:
            raise InputError(
                f"{self._path}, line {error.lineno}: not well-formed XML ({expat.ErrorString(error.code)})"
            ) from error
        self._finish()
        return self._passages

    def _on_start(self, name: str, attributes: dict[str, str]) -> None:
        self._names.append(name)
        if len(self._names) > _DEEPEST:
            raise InputError(f"{self._path}: elements nested more than {_DEEPEST} deep")
        if len(self._names) == 1:  # the root
            return
        if self._begin(Tag("", TagKind.OPEN), name) and name in self._kept:
            self._open = Tag(""), ""
            self._whole = len(self._names)

    def _on_end(self, name: str) -> None:
        if self._whole and len(self._names) > self._whole:
            self._names.pop()
            return
        if self._whole:  # its end tag still belongs to it
            self._whole = 0
        elif len(self._names) > 1:
            self._begin(Tag("", TagKind.CLOSE), name)
        else:
            self._end()
        self._names.pop()

    def _on_text(self, text: str) -> None:
        self._begin(text)

    def _on_other(self, *_: str) -> None:
        self._begin(Tag(""))

    def _on_cdata(self) -> None:
        if self._begin(Tag("")):
            self._whole = _DEEPEST + 1

    def _on_cdata_end(self) -> None:
        if self._whole > _DEEPEST:
            self._whole = 0

    def _on_document_type(self, *_: object) -> NoReturn:
        raise InputError(f"{self._path}: a document type in the middle of a text")

    def _begin(self, value: str | Tag, name: str = "") -> bool:
        """Begin a token and end the one before it; False within an element that is kept as a whole."""
        if self._whole:
            return False
        self._end()
        self._open = value, name
        return True

    def _end(self) -> None:
        """Add the open token, which ends where expat is."""
        end = self._parser.CurrentByteIndex - len(_OPENING)
        raw = self._raw[self._at : end].decode("utf-8", "surrogatepass")
        if self._open is not None and raw:
            self._add(raw, *self._open)
        self._at, self._position, self._open = end, self._position + len(raw), None

    def _add(self, raw: str, value: str | Tag, name: str) -> None:
        if name in self._splitting:
            self._finish()
            return
        if isinstance(value, Tag):
            value = Tag(raw, value.kind)
        is_word = isinstance(value, Tag) and not name and not raw.startswith(("<!--", "<?"))
        self._run.append(Piece(self._position, self._position + len(raw), value, is_word, name))

    def _finish(self) -> None:
        """End the present passage."""
        run, self._run = self._run, []
        if passage := passage_of(run, partial(written, encoding="utf-8")):
            self._passages.append(passage)
