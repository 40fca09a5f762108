"""A file of records that is appended to: each is a line with a checksum and JSON, on disk before the next one begins.

Reading stops at the first torn or altered line: what follows was not acknowledged, or cannot be trusted.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

from nearmt.errors import OutputError, writing


class RecordFile:
    """An open file of records, locked against other processes."""

    def __init__(self, path: Path) -> None:
        """Open a file, which is made if there is none."""
        self.path = path
        with writing(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        # Without a buffer, so that nothing of a record that could not be written is left in it.
        self._file: FileIO = os.fdopen(descriptor, "r+b", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.close()
            raise OutputError(f"{path}: another process is writing this output; wait until it is done") from error

    def read(self) -> Iterator[dict[str, Any]]:
        """The valid records from the beginning; leaves the file position after the last of them."""
        position = 0
        self._file.seek(0)
        with open(self._file.fileno(), "rb", closefd=False) as reader:
            for line in reader:
                record = _parsed(line)
                if record is None:
                    break
                position += len(line)
                yield record
        self._file.seek(position)

    def append(self, record: Mapping[str, Any]) -> None:
        """Write a record at the present position; it is on disk when this returns. If it fails, nothing is written."""
        # ASCII with escapes: bytes that are not UTF-8 survive as lone surrogates.
        data = json.dumps(record).encode()
        line = b"%08x %s\n" % (zlib.crc32(data), data)
        position = self._file.tell()
        with writing(self.path):
            try:
                if self._file.write(line) < len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(self._file.fileno())
            except OSError:
                with suppress(OSError):
                    self._file.seek(position)
                    self._file.truncate()
                raise

    def truncate(self, size: int | None = None) -> None:
        """Cut the file at the present position, or at a size, which is the position then."""
        with writing(self.path):
            if size is not None:
                self._file.seek(size)
            self._file.truncate()

    def close(self) -> None:
        self._file.close()


def _parsed(line: bytes) -> dict[str, Any] | None:
    checksum, _, data = line.removesuffix(b"\n").partition(b" ")
    if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(data):
        return None
    record: dict[str, Any] = json.loads(data)
    return record
