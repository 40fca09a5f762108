"""CSV tables with a column of sources and a column of targets, as memories and as documents."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from nearmt.contracts import Pair
from nearmt.corpus.columns import Columns, HalfHeader, columns_of
from nearmt.corpus.csv_records import Record, records
from nearmt.corpus.document import Document, Fillings, Part, Unit
from nearmt.corpus.encoding import Encoding, decoded, is_text, sniff
from nearmt.corpus.report import Report, Request
from nearmt.errors import InputError

#: What separates columns; of equally likely ones, the first is taken.
_DELIMITERS = {"\t": "tabs", ";": "semicolons", ",": "commas"}
#: How much of a file is read to detect the separator.
_HEAD_CHARACTERS, _HEAD_RECORDS = 1 << 16, 100


#: A first line by which spreadsheets are told the separator.
_STATED = re.compile(r'"?sep=([\t;,])"?\r?\n')


@dataclass(frozen=True)
class _Layout:
    encoding: Encoding
    delimiter: str
    columns: Columns
    #: Records before the first row.
    skipped: int = 0


def read_csv(path: Path, request: Request, report: Report) -> Iterator[Pair]:
    """Read the pairs of a table; other columns that have a name are metadata."""
    layout = _layout(path, request, report)
    if layout is None:
        return
    reported = 0
    for record in islice(_records(path, layout, request), layout.skipped, None):
        if record.problem:
            if record.line != reported:
                report.problem(path, record.line, record.problem)
            reported = record.line
            continue
        if not record.raw.strip():
            continue
        report.units += 1
        source, target = (record.text(column) for column in (layout.columns.source, layout.columns.target))
        if not target.strip():
            report.skipped["untranslated"] += 1
        elif not is_text(record.raw):
            report.problem(path, record.line, f"not {layout.encoding.name}; convert the file, e.g. with iconv")
        else:
            row = [record.text(column) for column in range(len(record.spans))]
            yield Pair(source, target, origin=path.name, metadata=layout.columns.metadata(row))


def csv_document(path: Path, request: Request, report: Report) -> Document:
    """Open a table whose rows without a target can be filled in; other columns are kept."""
    layout = _layout(path, request, report)
    if layout is None:
        raise InputError(f"{path}: is empty")
    return Document(layout.encoding, _parts(path, layout, request), paragraphs=True)


def _parts(path: Path, layout: _Layout, request: Request) -> Iterator[Part]:
    columns = layout.columns
    for number, record in enumerate(_records(path, layout, request)):
        if number < layout.skipped:
            yield Part(record.raw)
            continue
        where = f"{path}, line {record.line}"
        if record.problem:  # rows after it may be misread
            raise InputError(f"{where}: {record.problem}")
        if not is_text(record.raw):
            raise InputError(f"{where}: not {layout.encoding.name}; convert the file, e.g. with iconv")
        unit = Unit((record.text(columns.source),), record.text(columns.target), record.line)
        yield Part(record.raw, (unit,), partial(_rendered, record, columns.target, layout.delimiter))


def _rendered(record: Record, column: int, delimiter: str, fillings: Fillings) -> str:
    (filling,) = fillings
    assert filling is not None
    return record.with_text(column, filling.text, delimiter)


def _records(path: Path, layout: _Layout, request: Request) -> Iterator[Record]:
    return records(decoded(path, layout.encoding, request.limits), layout.delimiter, request.limits)


def _layout(path: Path, request: Request, report: Report) -> _Layout | None:
    """Detect encoding, separator and columns, and state them; None for an empty file."""
    encoding = sniff(path)
    head = _head(path, encoding, request)
    stated = _STATED.match(head)
    head = head[stated.end() :] if stated else head
    if not head.strip():
        return None
    guesses = [_Guess.of(delimiter, head, request) for delimiter in (stated[1] if stated else _DELIMITERS)]
    best = max(guesses, key=lambda guess: guess.rank)
    if not best.share:
        raise InputError(f"{path}: has no columns: no tab, semicolon or comma separates source and target")
    if isinstance(best.header, HalfHeader):
        raise best.header.error(path)
    columns = best.header or Columns()
    header = "" if columns.names else "no header; "
    source, target = (f"column {number + 1}{columns.named(number)}" for number in (columns.source, columns.target))
    separated = f"separated by {_DELIMITERS[best.delimiter]}"
    report.note(path, f"{header}{separated}, {source} is the source, {target} the target")
    return _Layout(encoding, best.delimiter, columns, bool(stated) + bool(columns.names))


def _head(path: Path, encoding: Encoding, request: Request) -> str:
    head = ""
    for chunk in decoded(path, encoding, request.limits):
        head += chunk
        if len(head) >= _HEAD_CHARACTERS:
            break
    return head


@dataclass(frozen=True)
class _Guess:
    """How well a separator fits the beginning of a file."""

    delimiter: str
    header: Columns | HalfHeader | None
    #: The share of rows with several columns, and of rows with the usual number of columns.
    share: float
    usual: float

    @classmethod
    def of(cls, delimiter: str, head: str, request: Request) -> _Guess:
        found = list(islice(records([head], delimiter), _HEAD_RECORDS))
        # The last one may be cut off.
        rows = [record for record in found[: max(1, len(found) - 1)] if record.raw.strip()] or found
        counts = Counter(len(record.spans) for record in rows)
        share = sum(number for columns, number in counts.items() if columns > 1) / len(rows)
        first = [found[0].text(column) for column in range(len(found[0].spans))]
        return cls(delimiter, columns_of(first, request), share, counts.most_common(1)[0][1] / len(rows))

    @property
    def rank(self) -> tuple[bool, float, float]:
        return isinstance(self.header, Columns), self.share, self.usual
