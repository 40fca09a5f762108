"""Append-only files of checksummed records: the log, and the blocks of the live segment."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from nearmt.datastore.disk import record_format
from nearmt.datastore.disk.file_system import DISK, Disk, File
from nearmt.errors import DatastoreError, OutputError, writing


@dataclass(frozen=True)
class Records:
    """The valid records of a file."""

    payloads: list[bytes]
    #: Where each record ends in the file.
    ends: list[int]
    #: Where the last record ends and reading can continue.
    end: int
    #: Bytes behind it that are not a complete record (yet).
    torn: int


def read_records(path: Path, start: int = 0, *, durable: bool = False, disk: Disk = DISK) -> Records:
    """Read all complete records from `start` on (0 or the `end` of an earlier reading), also during an append.

    Damage is a DatastoreError. `durable` files are known to have been synced before their first record.
    """
    try:
        return _read(path, start, durable, disk)
    except DatastoreError:
        # A tail that is truncated and rewritten during the read looks like damage: read once more.
        return _read(path, start, durable, disk)


@dataclass(frozen=True)
class Stretch:
    """Bytes of a damaged file: the payload of a valid record, or unreadable bytes between records."""

    data: bytes
    whole: bool


def salvage(path: Path, disk: Disk = DISK) -> list[Stretch]:
    """All valid records of a file and the unreadable bytes between them, in order."""
    with _opened(path, disk) as file:
        record_format.version_of(file, path)
        stretches, end, size = [], 0, file.size()
        for record in record_format.found(file, 0, size):
            stretches += _unreadable(file, end, record.begin)
            stretches.append(Stretch(record.payload, whole=True))
            end = record.end
        return stretches + _unreadable(file, end, size)


def _unreadable(file: File, begin: int, end: int) -> list[Stretch]:
    begin = max(begin, len(record_format.header()))
    return [Stretch(file.read(begin, end - begin), whole=False)] if end > begin else []


class RecordWriter:
    """Appends records; if the file is durable, they are on disk when `append` returns.

    One writer at a time. Opening truncates a torn tail.
    """

    def __init__(self, path: Path, durable: bool, disk: Disk = DISK) -> None:
        self.path, self.durable = path, durable
        self._disk = disk
        self._failed = False
        with writing(path):
            self._file = disk.open(path, write=True)
        try:
            #: Length of the acknowledged part of the file.
            self.end, trusted, size = self._last()
            #: Bytes that were truncated at opening.
            self.cut = size - self.end
            with writing(path):
                self._settle(trusted)
        except BaseException:
            self._file.close()
            raise

    def append(self, payloads: Sequence[bytes]) -> int:
        """Write records and return the new end of the file. After an error none of them is in the file."""
        if self._failed:
            raise OutputError(f"{self.path}: an earlier write failed; open it again before writing more")
        if not payloads:
            return self.end
        if max(map(len, payloads)) > record_format.LONGEST:
            raise OutputError(f"{self.path}: a record is longer than {record_format.LONGEST} bytes; divide it")
        data = b"".join(record_format.frame(payload, self.end if self.durable else 0) for payload in payloads)
        with writing(self.path):
            try:
                self._commit(data) if self.durable else self._write(self.end, data)
            except BaseException:
                self._take_back()
                raise
        self.end += len(data)
        return self.end

    def _commit(self, data: bytes) -> None:
        """Write records atomically: the first magic is written after everything else is synced."""
        magic = len(record_format.MAGIC)
        self._write(self.end, bytes(magic) + data[magic:])
        self._file.sync()
        self._write(self.end, data[:magic])
        self._file.sync()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _last(self) -> tuple[int, int, int]:
        """End of the last valid record, number of bytes known to be on disk, and size of the file."""
        with _reading(self.path):
            size, trusted = self._file.size(), 0
            end = record_format.first(self._file, self.path, size, self.durable)
            for record in record_format.walk(self._file, self.path, end, size, self.durable):
                end, trusted = record.end, record.synced
        return end, trusted, size

    def _settle(self, trusted: int) -> None:
        """Write the header of a new file, or truncate a torn tail and rewrite what may not be on disk."""
        if self.cut:
            self._file.truncate(self.end)
        if not self.end:
            header = record_format.header(record_format.COMMITTED if self.durable else record_format.PLAIN)
            self._write(0, header)
            self.end = len(header)
        elif self.durable:
            # Rewritten, not only synced: after a failed sync the system may mark pages as clean that never
            # reached the disk, and another sync would report success.
            self._write(trusted, self._file.read(trusted, self.end - trusted))
        if self.durable:
            self._file.sync()
            self._disk.sync_folder(self.path.parent)

    def _write(self, offset: int, data: bytes) -> None:
        left = memoryview(data)
        while left:
            written = self._file.write(offset, left)
            if not written:
                raise OSError(errno.EIO, "the disk takes no more bytes")
            left, offset = left[written:], offset + written

    def _take_back(self) -> None:
        """Truncate what a failed append may have written, and refuse further writes."""
        self._failed = True
        with suppress(OSError):
            self._file.truncate(self.end)
            if self.durable:
                self._file.sync()


def _read(path: Path, start: int, durable: bool, disk: Disk) -> Records:
    with _opened(path, disk) as file:
        size = file.size()
        if start > size:
            raise DatastoreError(f"{path}: has {size} bytes where {start} were read before; open the datastore again")
        end = start or record_format.first(file, path, size, durable)
        payloads, ends = [], []
        for record in record_format.walk(file, path, end, size, durable):
            payloads.append(record.payload)
            ends.append(record.end)
    end = ends[-1] if ends else end
    return Records(payloads, ends, end, size - end)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise DatastoreError(f"{path}: missing; restore it or build the store again") from error
    except OSError as error:
        raise DatastoreError(f"{path}: cannot be read ({error.strerror or error})") from error


@contextmanager
def _opened(path: Path, disk: Disk) -> Iterator[File]:
    with _reading(path):
        file = disk.open(path)
        try:
            yield file
        finally:
            file.close()
