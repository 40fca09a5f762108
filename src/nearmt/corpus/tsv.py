"""Tab-separated pairs: source, target, and an optional origin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nearmt.contracts import Pair
from nearmt.corpus.lines import numbered_lines
from nearmt.errors import InputError


def read_tsv(path: Path) -> Iterator[Pair]:
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        columns = line.split("\t")
        if len(columns) < 2:
            raise InputError(f"{path}, line {number}: no tab; expected source, tab, target")
        origin = columns[2] if len(columns) > 2 else path.name
        yield Pair(source=columns[0], target=columns[1], origin=origin)
