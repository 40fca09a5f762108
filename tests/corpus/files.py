"""Writing, filling and parsing of files in tests of formats."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

from nearmt.corpus.document import Document, Filling, FillingOrigin, Match, Unit
from nearmt.corpus.output import open_file
from nearmt.corpus.report import Report, Request
from nearmt.errors import InputError

#: Chooses the filling of a unit.
Choice = Callable[[Unit], Filling | None]
OpenDocument = Callable[[Path, Request, Report], Document]


def write_file(folder: Path, text: str | bytes, name: str) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"))
    return path


def fill_file(open_document: OpenDocument, path: Path, choose: Choice, request: Request) -> Path:
    """Fill in a document; the result is written to the same folder."""
    document = open_document(path, request, Report(strict=True))
    filled = path.with_name(f"filled-{path.name}")
    with open_file(filled, document.encoding) as out:
        for part in document.parts:
            out.write(part.filled([choose(unit) for unit in part.units]))
    return filled


def with_text(text: str, origin: FillingOrigin = FillingOrigin.MACHINE, *matches: Match) -> Choice:
    return lambda _: Filling((text,), origin, score=-0.5, pair_ids=("m:1",), matches=matches)


def own_text(unit: Unit) -> Filling | None:
    """Fill a unit with what it has: its translation, or else its source."""
    return Filling((unit.target,) if unit.target else unit.source, FillingOrigin.MEMORY)


def unchanged_or_refused(open_document: OpenDocument, path: Path, request: Request) -> bool:
    """Whether a document without fillings has the bytes of its file, or is refused in one line."""
    try:
        document = open_document(path, request, Report())
        filled = path.with_name("unfilled")
        with open_file(filled, document.encoding) as out:
            out.writelines(part.filled([None] * len(part.units)) for part in document.parts)
    except InputError as error:
        return "\n" not in str(error)
    return filled.read_bytes() == path.read_bytes()


def tree(path: Path) -> ElementTree.Element:
    return ElementTree.fromstring(path.read_bytes())


@contextmanager
def memory_below(limit: int) -> Iterator[None]:
    """Check that the block allocates less than `limit` bytes at any time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()
