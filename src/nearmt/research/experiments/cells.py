"""Results on disk: a file for each table cell (a row on a domain), and its translations as text.

OUT/cells/<experiment>/<domain>.<row>.json        scores, settings, signature; no text of the data
OUT/translations/<experiment>/<domain>.<row>.txt  a line for each line of the test set
OUT/translations/<test>.source.txt, .reference.txt
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nearmt.contracts import Pair
from nearmt.corpus.encoding import Encoding
from nearmt.corpus.lines import one_line
from nearmt.corpus.output import open_file
from nearmt.datastore.disk.files import write_json
from nearmt.errors import InputError, writing


@dataclass(frozen=True)
class Cell:
    """The result of one row on one domain."""

    experiment: str
    domain: str
    row: str
    #: Identifies model, data and all settings; a cell with another signature is measured again.
    signature: str
    #: Digest of the test lines.
    test: str
    evaluation: dict[str, Any]
    #: Settings of the method, tuned ones included.
    settings: dict[str, Any]
    #: How settings were tuned, how the model was trained, what the datastore contains.
    facts: dict[str, Any]
    machine: dict[str, Any]
    #: Whether nothing else ran on the machine, so that speeds are valid.
    speeds_count: bool
    commit: str
    date: str
    command: str
    #: What runs the cache: "torch" or "engine"; None without a cache, and in files written before this was recorded.
    cache: str | None = field(default=None, kw_only=True)
    version: int = field(default=1, kw_only=True)


class ResultFiles:
    """The files in OUT that hold cells and translations."""

    def __init__(self, out: Path) -> None:
        self.out = out

    def cell_path(self, experiment: str, domain: str, row: str) -> Path:
        return self.out / "cells" / experiment / f"{domain}.{row}.json"

    def translations_path(self, experiment: str, domain: str, row: str) -> Path:
        return self.out / "translations" / experiment / f"{domain}.{row}.txt"

    def cell(self, experiment: str, domain: str, row: str) -> Cell | None:
        """Read a cell; None if it is missing or has no translations."""
        path = self.cell_path(experiment, domain, row)
        return _read(path) if path.is_file() and self.translations_path(experiment, domain, row).is_file() else None

    def cells(self, experiment: str) -> list[Cell]:
        """Read all finished cells of an experiment, from every process."""
        found = (_read(path) for path in sorted((self.out / "cells" / experiment).glob("*.json")))
        return [cell for cell in found if cell and self.cell(cell.experiment, cell.domain, cell.row)]

    def with_signature(self, signature: str) -> Cell | None:
        """Find a cell of any experiment by its signature."""
        names = sorted(path.name for path in (self.out / "cells").glob("*") if path.is_dir())
        return next((cell for name in names for cell in self.cells(name) if cell.signature == signature), None)

    def keep(self, cell: Cell, translations: Sequence[str]) -> None:
        """Write the translations, then the cell, so that an existing cell is complete."""
        path = self.cell_path(cell.experiment, cell.domain, cell.row)
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        write_lines(self.translations_path(cell.experiment, cell.domain, cell.row), translations)
        write_json(path, asdict(cell))

    def keep_test(self, test: str, pairs: Sequence[Pair]) -> None:
        """Write the lines of a test set, so that reports need neither data nor model."""
        for side, texts in (("source", [p.source for p in pairs]), ("reference", [p.target for p in pairs])):
            if not self._test_path(test, side).is_file():
                write_lines(self._test_path(test, side), texts)

    def translations(self, cell: Cell) -> list[str]:
        return read_lines(self.translations_path(cell.experiment, cell.domain, cell.row))

    def test_lines(self, test: str, side: str) -> list[str]:
        return read_lines(self._test_path(test, side))

    def _test_path(self, test: str, side: str) -> Path:
        return self.out / "translations" / f"{test}.{side}.txt"

    @contextmanager
    def lock(self, name: str, *, wait: bool) -> Iterator[bool]:
        """Hold a lock shared by all processes; yield False if `wait` is off and another process holds it."""
        path = self.out / "locks" / name
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("a")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True


def write_lines(path: Path, texts: Sequence[str]) -> None:
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with open_file(path, Encoding()) as file:
        file.writelines(one_line(text) + "\n" for text in texts)


def read_lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split("\n")[:-1]
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); run the experiment again") from error


def _read(path: Path) -> Cell | None:
    """Read a cell; None if it is damaged or of another version, so that it is measured again."""
    try:
        cell = Cell(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return cell if cell.version == 1 else None
