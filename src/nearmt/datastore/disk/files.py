"""Checksums, syncing and atomic replacement of files, and the lock of a store's single writer."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import IO, Any

from nearmt.datastore.disk.mounts import has_local_locks
from nearmt.errors import DatastoreError, NearmtWarning, writing
from nearmt.opening import open_inside, opened

LOCK = ".lock"


def sha256(path: Path) -> str:
    with opened(path) as file:
        return digest(file)


def digest(file: IO[bytes], stop: Event | None = None) -> str:
    """The SHA-256 of an open file; computing it ends early, with another result, once `stop` is set."""
    content, buffer = hashlib.sha256(), memoryview(bytearray(1 << 22))
    while not (stop and stop.is_set()) and (size := file.readinto(buffer)):  # type: ignore[attr-defined]
        content.update(buffer[:size])
    return content.hexdigest()


def sync(path: Path) -> None:
    """Flush a file's content, or a folder's list of names, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class WriterLock:
    """The lock of a store's single writer; knows whether the folder is still the one that was locked."""

    def __init__(self, folder: Path, handle: int) -> None:
        self.folder, self._handle = folder, handle

    def is_current(self) -> bool:
        """Whether the locked file is still the lock file of the folder."""
        mine = os.fstat(self._handle)
        with suppress(OSError):
            there = (self.folder / LOCK).lstat()
            return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)
        return False

    def check(self) -> None:
        """Raise an error if the folder was moved or replaced: writes would be lost or go to another store."""
        if not self.is_current():
            raise DatastoreError(
                f"{self.folder}: was moved or replaced while it was written to; nothing more was acknowledged: "
                "open it again"
            )


def _lock(handle: int, folder: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise DatastoreError(f"{folder}: another process is writing to it; try again when it is done") from error
    except OSError as error:  # ENOLCK, EOPNOTSUPP, ENOSYS, ...
        raise DatastoreError(
            f"{folder}: its file system gives no locks ({error.strerror}), so nothing was changed; mount it with locks "
            "(NFS version 4, or version 3 with lockd), or change it on the machine that has the disk"
        ) from error
    if has_local_locks(handle):
        told = f"{folder}: is mounted without locks between machines (nolock or local_lock): let one machine change it"
        warnings.warn(told, NearmtWarning, stacklevel=2)


@contextmanager
def writer_lock(folder: Path) -> Iterator[WriterLock]:
    """Lock a store for writing (`flock`); an error if another process has locked it. The lock ends with its process."""
    while True:
        with writing(folder):
            handle = open_inside(folder / LOCK, os.O_RDWR | os.O_CREAT)
        try:
            _lock(handle, folder)
            lock = WriterLock(folder, handle)
            # If not, the folder was replaced between opening the file and locking it: try again.
            if lock.is_current():
                yield lock
                return
        finally:
            os.close(handle)


Stamp = tuple[int, int, int]


def stamp_of(path: Path) -> Stamp | None:
    """What changes whenever a file is replaced or grows: its number, time and size; None if there is no such file.

    The file is opened, because a network file system then asks its server: `stat` may be answered from a cache.
    """
    try:
        handle = open_inside(path)
    except OSError:
        return None
    try:
        found = os.fstat(handle)
    finally:
        os.close(handle)
    return found.st_ino, found.st_mtime_ns, found.st_size


def size_of(path: Path) -> int:
    """Size of a file, as a network file system's server has it; 0 if there is none."""
    stamp = stamp_of(path)
    return 0 if stamp is None else stamp[2]


def json_text(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def write_json(path: Path, value: Any) -> None:
    """Replace a file atomically: readers see the old content or the new."""
    partial = path.with_name(path.name + ".partial")
    with writing(path):
        partial.unlink(missing_ok=True)
        with opened(partial, "x") as file:
            file.write(json_text(value))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync(path.parent)
