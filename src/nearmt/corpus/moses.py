"""Two aligned plain files with one segment per line: `corpus.de` and `corpus.en`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from nearmt.contracts import Pair
from nearmt.corpus.lines import numbered_lines
from nearmt.corpus.report import Report, Request
from nearmt.errors import InputError


def read_aligned(source: Path, target: Path, request: Request, report: Report) -> Iterator[Pair]:
    """Pair lines of equal number; files of unequal length are an error."""
    sides = (numbered_lines(path, limits=request.limits) for path in (source, target))
    for source_line, target_line in zip_longest(*sides):
        if source_line is None or target_line is None:
            short, number = (source, target_line[0]) if source_line is None else (target, source_line[0])
            raise InputError(f"{short}: ends before line {number}; {source} and {target} must have the same lines")
        report.units += 1
        yield Pair(source=source_line[1], target=target_line[1], origin=source.name)
