"""The formats of files, by suffix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from nearmt.contracts import Pair
from nearmt.corpus.android import android_document
from nearmt.corpus.apple_strings import strings_document
from nearmt.corpus.context import with_neighbours
from nearmt.corpus.csv import csv_document, read_csv
from nearmt.corpus.document import Document
from nearmt.corpus.html import html_document
from nearmt.corpus.json_i18n import arb_document, json_document
from nearmt.corpus.jsonl import jsonl_document, read_jsonl
from nearmt.corpus.limits import DEFAULT_LIMITS, LimitsConfig
from nearmt.corpus.mo import read_mo
from nearmt.corpus.po import po_document, read_po
from nearmt.corpus.report import Report, Request
from nearmt.corpus.text import text_document
from nearmt.corpus.tmx import read_tmx, tmx_document
from nearmt.corpus.tsv import read_tsv, tsv_document
from nearmt.corpus.unpacking import inner_suffix, open_bytes, reading
from nearmt.corpus.xcstrings import xcstrings_document
from nearmt.corpus.xliff import read_xliff, xliff_document
from nearmt.corpus.xlsx import read_xlsx, xlsx_document
from nearmt.errors import InputError, MissingPackageError

Reader = Callable[[Path, Request, Report], Iterator[Pair]]
PairedReader = Callable[[Path, Path, Request, Report], Iterator[Pair]]
Opener = Callable[[Path, Request, Report], Document]


def markdown_document(path: Path, request: Request, report: Report) -> Document:
    """Open a Markdown document. Its parser is imported when it is needed."""
    try:
        from nearmt.corpus import markdown
    except ImportError as error:
        raise MissingPackageError(
            "Markdown needs the packages markdown-it-py and mdit-py-plugins: pip install markdown-it-py mdit-py-plugins"
        ) from error
    return markdown.markdown_document(path, request, report)


def fluent_document(path: Path, request: Request, report: Report) -> Document:
    """Open a Fluent document. Its parser is imported when it is needed."""
    with _with_fluent():
        from nearmt.corpus import fluent
    return fluent.fluent_document(path, request, report)


def read_fluent(source: Path, target: Path, request: Request, report: Report) -> Iterator[Pair]:
    """Read the pairs of two Fluent files."""
    with _with_fluent():
        from nearmt.corpus import fluent
    return fluent.read_fluent(source, target, request, report)


@contextmanager
def _with_fluent() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise MissingPackageError("Fluent needs the package fluent.syntax: pip install fluent.syntax") from error


READERS: dict[str, Reader] = {
    ".tsv": read_tsv,
    ".tab": read_tsv,
    ".csv": read_csv,
    ".xlsx": read_xlsx,
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
    "csv": csv_document,
    "xlsx": xlsx_document,
    "jsonl": jsonl_document,
    "tmx": tmx_document,
    "xliff": xliff_document,
    "po": po_document,
    "html": html_document,
    "markdown": markdown_document,
    "android": android_document,
    "strings": strings_document,
    "xcstrings": xcstrings_document,
    "json": json_document,
    "arb": arb_document,
    "fluent": fluent_document,
}
#: Documents in one language, whose translations are documents of their own.
ONE_LANGUAGE = frozenset({"html", "markdown", "android", "strings", "json", "arb", "fluent"})
#: Formats with a file for each language, two of which are a memory.
PAIRED: dict[str, PairedReader] = {".ftl": read_fluent}
#: Documents that are no text files; they cannot be shown on a terminal.
BINARY = frozenset({"xlsx"})
#: Documents whose units have notes, where a translation names its pairs and a check its findings.
WITH_NOTES = frozenset({"po", "xliff", "tmx", "jsonl"})
_FORMAT_OF = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".csv": "csv",
    ".xlsx": "xlsx",
    ".jsonl": "jsonl",
    ".tmx": "tmx",
    ".xlf": "xliff",
    ".xliff": "xliff",
    ".sdlxliff": "xliff",
    ".mqxliff": "xliff",
    ".po": "po",
    ".pot": "po",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".md": "markdown",
    ".markdown": "markdown",
    ".xml": "android",
    ".strings": "strings",
    ".xcstrings": "xcstrings",
    ".json": "json",
    ".arb": "arb",
    ".ftl": "fluent",
}
#: Suffixes of documents that have no translations, so that they are no memories.
ONLY_DOCUMENTS = frozenset(_FORMAT_OF) - frozenset(READERS) - frozenset(PAIRED)
_NOT_TEXT = {
    ".mo": "a compiled catalogue; translate the .po file it was made from",
    **dict.fromkeys((".xls", ".ods"), "not a workbook that can be read; save it as XLSX or CSV"),
    **dict.fromkeys((".docx", ".odt", ".pdf", ".zip", ".doc"), "not a text file; save it as XLIFF, PO or text"),
}


def format_of(path: Path) -> str:
    """Return the document format of a file by its suffix; unknown suffixes are plain text."""
    suffix = inner_suffix(path)
    if suffix in _NOT_TEXT:
        raise InputError(f"{path}: is {_NOT_TEXT[suffix]}")
    return _FORMAT_OF.get(suffix, "text")


def has_document_suffix(path: Path) -> bool:
    """Whether the suffix of a file says that it is a document; only `.txt` says that a file is plain text."""
    return inner_suffix(path) in (*_FORMAT_OF, ".txt")


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
