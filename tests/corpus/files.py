"""Writing, filling and parsing of files in tests of XML formats."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

from nearmt.corpus.document import Document, Filling, FillingOrigin, Match, Unit
from nearmt.corpus.report import Report, Request

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
    text = "".join(part.filled([choose(unit) for unit in part.units]) for part in document.parts)
    raw = document.encoding.bom + text.encode(document.encoding.name, document.encoding.errors)
    return write_file(path.parent, raw, f"filled-{path.name}")


def with_text(text: str, origin: FillingOrigin = FillingOrigin.MACHINE, *matches: Match) -> Choice:
    return lambda _: Filling((text,), origin, score=-0.5, pair_ids=("m:1",), matches=matches)


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
