"""Tab-separated pairs: source, target, and an optional origin."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from nearmt.contracts import Pair
from nearmt.corpus.document import Document, Fillings, Part, Unit
from nearmt.corpus.encoding import Encoding
from nearmt.corpus.lines import lines_with_ends, numbered_lines, one_line, split_end
from nearmt.corpus.report import Report, Request


def read_tsv(path: Path, request: Request, report: Report) -> Iterator[Pair]:
    for number, line in numbered_lines(path, partial(report.problem, path), request.limits):
        if not line.strip():
            continue
        report.units += 1
        columns = line.split("\t")
        if len(columns) < 2:
            report.problem(path, number, "no tab; expected source, tab, target")
            continue
        origin = columns[2] if len(columns) > 2 else path.name
        yield Pair(source=columns[0], target=columns[1], origin=origin)


def tsv_document(path: Path, request: Request, report: Report) -> Document:
    """Open a file whose lines with an empty or missing second column can be filled in; further columns are kept."""
    lines = lines_with_ends(path, limits=request.limits)
    return Document(Encoding(), (_part(number, line) for number, line in lines), paragraphs=False)


def _part(number: int, line: str) -> Part:
    text, end = split_end(line)
    source, *others = text.split("\t")

    def render(fillings: Fillings) -> str:
        (filling,) = fillings
        assert filling is not None
        return "\t".join([source, one_line(filling.text), *others[1:]]) + end

    return Part(line, (Unit((source.removeprefix("\ufeff"),), others[0] if others else "", number),), render)
