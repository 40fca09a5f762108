"""The formats of files, by suffix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from nearmt.contracts import Pair
from nearmt.corpus.context import with_neighbours
from nearmt.corpus.document import Document
from nearmt.corpus.jsonl import jsonl_document, read_jsonl
from nearmt.corpus.limits import DEFAULT_LIMITS, LimitsConfig
from nearmt.corpus.mo import read_mo
from nearmt.corpus.po import po_document, read_po
from nearmt.corpus.report import Report, Request
from nearmt.corpus.text import text_document
from nearmt.corpus.tmx import read_tmx, tmx_document
from nearmt.corpus.tsv import read_tsv, tsv_document
from nearmt.corpus.unpacking import inner_suffix, open_bytes, reading
from nearmt.corpus.xliff import read_xliff, xliff_document
from nearmt.errors import InputError

Reader = Callable[[Path, Request, Report], Iterator[Pair]]
Opener = Callable[[Path, Request, Report], Document]

READERS: dict[str, Reader] = {
    ".tsv": read_tsv,
    ".tab": read_tsv,
    ".jsonl": read_jsonl,
    ".tmx": read_tmx,
    ".xlf": read_xliff,
    ".xliff": read_xliff,
    ".sdlxliff": read_xliff,
    ".mqxliff": read_xliff,
    ".po": read_po,
    ".mo": read_mo,
}
#: Document formats by the name that `--format` takes.
DOCUMENTS: dict[str, Opener] = {
    "text": text_document,
    "tsv": tsv_document,
    "jsonl": jsonl_document,
    "tmx": tmx_document,
    "xliff": xliff_document,
    "po": po_document,
}
_FORMAT_OF = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".tmx": "tmx",
    ".xlf": "xliff",
    ".xliff": "xliff",
    ".sdlxliff": "xliff",
    ".mqxliff": "xliff",
    ".po": "po",
    ".pot": "po",
}
_NOT_TEXT = {
    ".mo": "a compiled catalogue; translate the .po file it was made from",
    **dict.fromkeys(
        (".docx", ".odt", ".pdf", ".xlsx", ".zip", ".doc"), "not a text file; save it as XLIFF, PO or text"
    ),
}


def format_of(path: Path) -> str:
    """Return the document format of a file by its suffix; unknown suffixes are plain text."""
    suffix = inner_suffix(path)
    if suffix in _NOT_TEXT:
        raise InputError(f"{path}: is {_NOT_TEXT[suffix]}")
    return _FORMAT_OF.get(suffix, "text")


def open_document(path: Path, request: Request, report: Report, format: str | None = None) -> Document:
    """Open a document to fill in; its format is given, or follows from the suffix.

    An empty file is valid as plain text only.
    """
    name = format or format_of(path)
    if name != "text" and path.is_file():
        with reading(path), open_bytes(path) as file:
            if not file.read(1):
                raise InputError(f"{path}: is empty")
    document = DOCUMENTS[name](path, request, report)
    return replace(document, parts=with_neighbours(document.parts))


def check_document(path: Path, format: str | None = None, limits: LimitsConfig = DEFAULT_LIMITS) -> None:
    """Read a file to its end, so that errors are reported before a model is loaded; pipes are not read."""
    if path.is_file():
        for _ in open_document(path, Request(limits=limits), Report(), format).parts:
            pass
