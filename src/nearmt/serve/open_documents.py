"""Documents that are open: their units, and the records of what is translated."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearmt.corpus import Document, LimitsConfig, Report, Request, Unit, open_document
from nearmt.corpus.output import open_file
from nearmt.documents import is_to_fill
from nearmt.documents.records import RecordFile
from nearmt.errors import InputError, OutputError
from nearmt.serve.errors import Conflict, NotFound, TooLarge
from nearmt.serve.unit_records import EDITED, UnitRecord, untranslated
from nearmt.serve.values import DocumentUnit

#: Units of the largest document.
MOST_UNITS = 200_000
#: Documents that stay open when they are not in use.
_KEPT = 8
_RECORDS = "units.records"


@dataclass(frozen=True)
class Upload:
    """A document on disk, and how it is read."""

    folder: Path
    file: str
    format: str | None
    languages: tuple[str, str]
    #: Also units that have a translation are filled in.
    everything: bool = False

    @property
    def path(self) -> Path:
        return self.folder / self.file

    def open(self, report: Report | None = None) -> Document:
        request = Request(*self.languages, limits=LimitsConfig())
        return open_document(self.path, request, report or Report(), self.format)

    def read(self, report: Report | None = None) -> tuple[list[Unit], bool]:
        """All units, and whether they are paragraphs."""
        document = self.open(report)
        units: list[Unit] = []
        for part in document.parts:
            units += part.units
            if len(units) > MOST_UNITS:
                raise TooLarge(f"the document has more than {MOST_UNITS:,} units; split it")
        return units, document.paragraphs

    def check(self) -> None:
        """Refuse what cannot be read; the error names the file without its folder."""
        try:
            self.read()
        except InputError as error:
            raise InputError(str(error).replace(f"{self.folder}/", "")) from error


class OpenDocument:
    """The units of a document, and their translations so far. One thread at a time changes it."""

    def __init__(self, upload: Upload) -> None:
        self.upload = upload
        self.units, self.paragraphs = upload.read()
        self._lock = threading.RLock()
        self._records: dict[int, UnitRecord] = {}
        #: Units that are to be filled in, and those of them that wait, in order.
        self._to_fill = [n for n, unit in enumerate(self.units) if is_to_fill(unit, upload.everything)]
        self._waiting = list(self._to_fill)
        #: Edits of each unit since the document was opened.
        self._edits: dict[int, int] = {}
        self._file = RecordFile(upload.folder / _RECORDS)
        for line in self._file.read():
            self._take(line)
        self._file.truncate()

    def close(self) -> None:
        self._file.close()

    def shown(self, number: int) -> DocumentUnit:
        unit = self.unit(number)
        with self._lock:
            record = self._records.get(number)
        if record is not None:
            return record.shown(unit)
        return untranslated(number, unit, is_to_fill(unit, self.upload.everything))

    def unit(self, number: int) -> Unit:
        if not 0 <= number < len(self.units):
            raise NotFound(f"the document has no unit {number}")
        return self.units[number]

    def counts(self) -> tuple[int, int]:
        """Units that are filled in, and those that are to be."""
        with self._lock:
            return max(0, len(self._to_fill) - len(self._waiting)), len(self._to_fill)

    def waiting(self, most: int) -> list[int]:
        """The first units that are not translated, or to be translated again."""
        with self._lock:
            return self._waiting[:most]

    def version(self, numbers: Iterable[int]) -> list[int]:
        """Tells whether some units were edited meanwhile."""
        with self._lock:
            return [self._edits.get(number, 0) for number in numbers]

    def keep(self, records: Sequence[UnitRecord], version: Sequence[int]) -> None:
        """Keep translations, except of units that were edited meanwhile; they are on disk when this returns."""
        with self._lock:
            now = self.version([record.number for record in records])
            fresh = [record for record, old, new in zip(records, version, now, strict=True) if old == new]
            self._append({"units": [r.to_json() for r in fresh], "done": [record.number for record in records]})

    def edit(self, number: int, target: str, confirmed: bool) -> UnitRecord:
        """Keep what a person has written; it is on disk when this returns."""
        unit = self.unit(number)
        with self._lock:
            before = self._records.get(number)
            record = UnitRecord.edited(number, unit, target, confirmed, before, self.upload.languages)
            self._append({"units": [record.to_json()], "done": [number]})
            self._edits[number] = self._edits.get(number, 0) + 1
        return record

    def translate_again(self, wanted: Sequence[int] | None) -> int:
        """Mark units that are not confirmed, by default those that were not edited, and return their number."""
        with self._lock:
            if wanted is None:
                found = [n for n, r in self._records.items() if not r.confirmed and r.origin != EDITED]
            else:
                known = [number for number in dict.fromkeys(wanted) if self.unit(number)]
                found = [n for n in known if n in self._records and not self._records[n].confirmed]
            if found:
                self._append({"again": found})
        return len(found)

    def write(self, path: Path) -> None:
        """Write the document with its translations."""
        with self._lock:
            records = dict(self._records)
        document, number = self.upload.open(), 0
        try:
            with open_file(path, document.encoding) as out:
                for part in document.parts:
                    numbers = range(number, number + len(part.units))
                    found = [records.get(each) for each in numbers]
                    out.write(part.filled([None if record is None else record.filling() for record in found]))
                    number += len(part.units)
        except OutputError as error:
            if "cannot be written in" in str(error):  # a letter that the encoding lacks
                raise Conflict(str(error).replace(f"{path}: ", "")) from error
            raise

    def _append(self, line: dict[str, Any]) -> None:
        self._file.append(line)
        self._take(line)

    def _take(self, line: dict[str, Any]) -> None:
        """Apply a line of the file."""
        for raw in _listed(line, "units"):
            record = UnitRecord.from_json(raw)
            self._records[record.number] = record
        done = set(_listed(line, "done"))
        left = [number for number in self._waiting if number not in done]
        again = _listed(line, "again")
        self._waiting = sorted({*left, *again}) if again else left


def _listed(line: dict[str, Any], name: str) -> list[Any]:
    found = line.get(name, [])
    return found if isinstance(found, list) else []


@dataclass
class _Entry:
    """A document that is open, or is being opened."""

    opening: threading.Lock = field(default_factory=threading.Lock)
    document: OpenDocument | None = None
    users: int = 0


class OpenDocuments:
    """Documents by id. A few that are not in use stay open."""

    def __init__(self, upload_of: Callable[[str], Upload]) -> None:
        self._upload_of = upload_of
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def using(self, id: str) -> Iterator[OpenDocument]:
        """A document that stays open while the block runs."""
        with self._lock:
            entry = self._entries.setdefault(id, _Entry())
            self._entries.move_to_end(id)
            entry.users += 1
        try:
            with entry.opening:
                if entry.document is None:
                    entry.document = OpenDocument(self._upload_of(id))
            yield entry.document
        finally:
            with self._lock:
                entry.users -= 1
            self._close_some(_KEPT)

    def close_all(self) -> None:
        """Close what is not in use."""
        self._close_some(0)

    def close(self, id: str) -> None:
        """Close a document that is to be deleted."""
        with self._lock:
            entry = self._entries.pop(id, None)
        if entry is not None and entry.document is not None:
            entry.document.close()

    def _close_some(self, kept: int) -> None:
        with self._lock:
            unused = [name for name, entry in self._entries.items() if not entry.users]
            units = sum(len(entry.document.units) for entry in self._entries.values() if entry.document is not None)
            closed = []
            while unused and (len(unused) > kept or units > MOST_UNITS):
                closed.append(self._entries.pop(unused.pop(0)))
                units -= 0 if closed[-1].document is None else len(closed[-1].document.units)
        for entry in closed:
            if entry.document is not None:
                entry.document.close()
