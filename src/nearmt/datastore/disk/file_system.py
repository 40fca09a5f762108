"""The file operations that records need, as an interface: tests replace it by disks that fail or lose writes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from nearmt.datastore.disk.files import sync
from nearmt.opening import open_inside


class File(Protocol):
    """An open file, addressed by offset."""

    def size(self) -> int: ...

    def read(self, offset: int, count: int) -> bytes:
        """Read up to `count` bytes, fewer at the end of the file."""

    def write(self, offset: int, data: bytes | memoryview) -> int:
        """Write some of `data` and return how many bytes were written."""

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Flush the content to disk."""

    def close(self) -> None: ...


class Disk(Protocol):
    """Opens files."""

    def open(self, path: Path, write: bool = False) -> File:
        """Open a file; for writing, it is created if it does not exist."""

    def sync_folder(self, folder: Path) -> None:
        """Flush a folder's list of names to disk."""


class OsFile:
    """A file of the operating system."""

    def __init__(self, path: Path, write: bool) -> None:
        self._handle = open_inside(path, os.O_RDWR | os.O_CREAT if write else os.O_RDONLY)

    def size(self) -> int:
        return os.fstat(self._handle).st_size

    def read(self, offset: int, count: int) -> bytes:
        parts = []
        while count and (part := os.pread(self._handle, count, offset)):
            parts.append(part)
            offset, count = offset + len(part), count - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def write(self, offset: int, data: bytes | memoryview) -> int:
        return os.pwrite(self._handle, data, offset)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._handle, size)

    def sync(self) -> None:
        os.fsync(self._handle)

    def close(self) -> None:
        if self._handle >= 0:
            handle, self._handle = self._handle, -1
            os.close(handle)


class OsDisk:
    """The disk of the operating system."""

    def open(self, path: Path, write: bool = False) -> File:
        return OsFile(path, write)

    def sync_folder(self, folder: Path) -> None:
        sync(folder)


DISK = OsDisk()
