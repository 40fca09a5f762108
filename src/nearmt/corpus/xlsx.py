"""XLSX workbooks with a column of sources and a column of targets, as memories and as documents.

The text of the document is that of the sheets' XML, in which cells are filled in as inline strings; everything else of
the workbook is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nearmt.contracts import Pair
from nearmt.corpus.columns import Columns, HalfHeader, columns_of
from nearmt.corpus.document import Document, Fillings, Part, Unit
from nearmt.corpus.encoding import Encoding
from nearmt.corpus.report import Report, Request
from nearmt.corpus.xlsx_cells import Cell, cells_of, column_name, string_of, with_cell
from nearmt.corpus.xlsx_package import SEPARATOR, Package, Workbook, open_package
from nearmt.corpus.xml_nodes import Fragment
from nearmt.errors import InputError


@dataclass(frozen=True)
class _Sheet:
    """A sheet with pairs."""

    name: str
    member: str
    columns: Columns
    #: Rows up to its header.
    skipped: int = 0


def read_xlsx(path: Path, request: Request, report: Report) -> Iterator[Pair]:
    """Read the pairs of all sheets that name both languages; other columns that have a name are metadata."""
    with open_package(path, request.limits) as package:
        shared = _shared(package)
        for sheet in _sheets(package, shared, request, report):
            for _, number, _, row in _rows(package, sheet, shared, report):
                source, target = (_text(row, column) for column in (sheet.columns.source, sheet.columns.target))
                if number <= sheet.skipped or not (source or target):
                    continue
                report.units += 1
                if not target.strip():
                    report.skipped["untranslated"] += 1
                    continue
                texts = [_text(row, column) for column in range(len(sheet.columns.names))]
                yield Pair(source, target, origin=path.name, metadata=sheet.columns.metadata(texts))


def xlsx_document(path: Path, request: Request, report: Report) -> Document:
    """Open a workbook whose rows without a target can be filled in."""
    with open_package(path, request.limits) as package:
        sheets = _sheets(package, _shared(package), request, report)
    workbook = Workbook(path, request.limits, tuple(sheet.member for sheet in sheets))
    return Document(Encoding(container=workbook), _parts(path, sheets, request, report), paragraphs=True)


def _parts(path: Path, sheets: Sequence[_Sheet], request: Request, report: Report) -> Iterator[Part]:
    with open_package(path, request.limits) as package:
        shared = _shared(package)
        for position, sheet in enumerate(sheets):
            if position:
                yield Part(SEPARATOR)
            for fragment, number, label, row in _rows(package, sheet, shared, report):
                is_data = fragment.node is not None and number > sheet.skipped
                yield _part(fragment, label, row, sheet.columns) if is_data else Part(fragment.text)


def _part(fragment: Fragment, number: int, row: Sequence[Cell], columns: Columns) -> Part:
    """Make the part of a row; one whose source is no text, or whose target is a formula, has no unit."""
    source, target = (next((cell for cell in row if cell.column == column), None) for column in _pair(columns))
    if source is None or not source.is_text or (target is not None and target.is_formula):
        return Part(fragment.text)

    def render(fillings: Fillings) -> str:
        (filling,) = fillings
        assert filling is not None
        return with_cell(fragment, number, row, columns.target, filling.text)

    return Part(fragment.text, (Unit((source.text,), "" if target is None else target.text, number),), render)


def _pair(columns: Columns) -> tuple[int, int]:
    return columns.source, columns.target


def _rows(
    package: Package, sheet: _Sheet, shared: Sequence[str], report: Report
) -> Iterator[tuple[Fragment, int, int, list[Cell]]]:
    """Yield the fragments of a sheet; a row with its position, its number in the sheet, and its cells."""
    position = label = 0
    for fragment in package.scan(sheet.member, "row", report):
        if fragment.node is None:
            yield fragment, position, label, []
            continue
        position += 1
        stated = fragment.node.attributes.get("r", "")
        label = int(stated) if stated.isdecimal() and len(stated) < 10 else label + 1
        yield fragment, position, label, cells_of(fragment.node, shared)


def _text(row: Sequence[Cell], column: int) -> str:
    return next((cell.text for cell in row if cell.column == column), "")


def _shared(package: Package) -> list[str]:
    """Return the strings that cells refer to by number."""
    members = package.related(_main(package), "sharedStrings").values()
    return [string_of(node) for member in members for node in package.nodes(member, "si")]


def _main(package: Package) -> str:
    main = next(iter(package.related("", "officeDocument").values()), "")
    if main not in package:
        raise InputError(f"{package.path}: is no workbook (.xlsx): it has no list of sheets")
    return main


def _all_sheets(package: Package) -> Iterator[_Sheet]:
    """Yield the sheets in their order; charts have no cells."""
    main = _main(package)
    members, seen = package.related(main, "worksheet"), set[str]()
    for node in package.nodes(main, "sheet"):
        reference = next((value for key, value in node.attributes.items() if key.endswith(":id")), "")
        if (member := members.get(reference, "")) in package and member not in seen:
            seen.add(member)
            yield _Sheet(node.attributes.get("name", ""), member, Columns())


def _sheets(package: Package, shared: Sequence[str], request: Request, report: Report) -> list[_Sheet]:
    """Choose the sheets that name both languages, or else the first one, and state the columns."""
    found, halves = [], []
    first: _Sheet | None = None
    for sheet in _all_sheets(package):
        first = first or sheet
        position, columns = _header(package, sheet, shared, request)
        if isinstance(columns, Columns):
            found.append(_Sheet(sheet.name, sheet.member, columns, position))
        elif columns is not None:
            halves.append(columns)
    if halves and not found:
        raise halves[0].error(package.path)
    if first is None:
        raise InputError(f"{package.path}: has no sheet with cells")
    chosen = found or [first]
    for sheet in chosen:
        source, target = (f"column {column_name(c)}{sheet.columns.named(c)}" for c in _pair(sheet.columns))
        header = "" if sheet.columns.names else "no header; "
        text = f"sheet '{sheet.name}': {header}{source} is the source, {target} the target"
        report.note(package.path, text)
    return chosen


def _header(
    package: Package, sheet: _Sheet, shared: Sequence[str], request: Request
) -> tuple[int, Columns | HalfHeader | None]:
    """Return the columns that the first row with text names, and its position."""
    for _, position, _, row in _rows(package, sheet, shared, Report()):
        if any(cell.text.strip() for cell in row):
            return position, columns_of([_text(row, column) for column in range(row[-1].column + 1)], request)
    return 0, None
