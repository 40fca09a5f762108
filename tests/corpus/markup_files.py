"""Opening and filling of markup documents in tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nearmt.corpus.document import Filling, FillingOrigin, Part, Segment, Unit
from nearmt.corpus.report import Report, Request
from tests.corpus.files import OpenDocument, write_file

REQUEST = Request("de", "en")
Rewrite = Callable[[Segment], Segment]


def opened(
    open_document: OpenDocument, path: Path, report: Report | None = None, request: Request = REQUEST
) -> list[Part]:
    return list(open_document(path, request, report if report is not None else Report(strict=True)).parts)


def sources(open_document: OpenDocument, path: Path) -> list[Segment]:
    return [unit.source for part in opened(open_document, path) for unit in part.units]


def shown(segment: Segment) -> str:
    """Return a segment with its tags in braces."""
    return "".join(part if isinstance(part, str) else f"⟦{part.markup}⟧" for part in segment)


def texts(open_document: OpenDocument, folder: Path, content: str | bytes, name: str = "a") -> list[str]:
    return [shown(source) for source in sources(open_document, write_file(folder, content, name))]


def machine(segment: Segment) -> Filling:
    return Filling(segment, FillingOrigin.MACHINE, score=-0.5)


def filled(
    open_document: OpenDocument, path: Path, rewrite: Rewrite, request: Request = REQUEST, report: Report | None = None
) -> bytes:
    """Fill every unit of a document with its rewritten source."""
    document = open_document(path, request, report if report is not None else Report(strict=True))
    fill = [(part, [machine(rewrite(unit.source)) for unit in part.units]) for part in document.parts]
    text = "".join(part.filled(fillings) for part, fillings in fill)
    return document.encoding.bom + text.encode(document.encoding.name, document.encoding.errors)


def same(segment: Segment) -> Segment:
    return segment


def with_texts(change: Callable[[str], str]) -> Rewrite:
    """Rewrite the texts of a segment and keep its tags."""
    return lambda segment: tuple(change(part) if isinstance(part, str) else part for part in segment)


def lines_of(open_document: OpenDocument, path: Path) -> list[tuple[int, str]]:
    units: list[Unit] = [unit for part in opened(open_document, path) for unit in part.units]
    return [(unit.line, shown(unit.source)) for unit in units]
