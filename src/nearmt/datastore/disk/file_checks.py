"""Sealed files compared with what was recorded of them: sizes, and checksums unless the store is large.

Checksums of large files are computed in threads while the caller opens the files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Self

from nearmt.datastore.disk.files import digest, sha256
from nearmt.errors import DatastoreError
from nearmt.opening import opened

ALTERED = "altered (its checksum differs)"
#: Smaller files are checked at once, larger ones in threads.
_SMALL = 1 << 20
#: Files that are checked at a time.
_AT_A_TIME = min(4, os.cpu_count() or 1)


@dataclass(frozen=True)
class FileRecord:
    """Size and checksum of a file when it was sealed."""

    bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Self:
        return cls(path.stat().st_size, sha256(path))


def damage_of(path: Path, record: FileRecord, thorough: bool = True, stop: Event | None = None) -> str | None:
    """The difference between a sealed file and its record; the checksum is compared if `thorough`."""
    try:
        with opened(path) as file:
            if (size := os.fstat(file.fileno()).st_size) != record.bytes:
                return f"has {size} bytes instead of {record.bytes}"
            return ALTERED if thorough and digest(file, stop) != record.sha256 else None
    except (OSError, DatastoreError) as error:
        return _absence(error)


def damage_of_named(path: Path) -> str | None:
    """The damage of a file whose name contains its checksum."""
    try:
        return None if sha256(path)[:12] in path.name else ALTERED
    except (OSError, DatastoreError) as error:
        return _absence(error)


def _absence(error: Exception) -> str:
    """Why a file cannot be read."""
    if isinstance(error, FileNotFoundError):
        return "missing"
    return "a link, or no ordinary file" if isinstance(error, DatastoreError) else f"cannot be read ({error})"


@contextmanager
def checking(files: Mapping[Path, FileRecord], thorough: bool) -> Iterator[None]:
    """Compare files with their records; refuse the first damaged one, at the latest when the block ends.

    Sizes and small files are checked before the block, checksums of large files while it runs. If the block fails,
    damage is the likely cause: the error names the damaged file, if there is one.
    """
    for path, record in files.items():
        if reason := damage_of(path, record, thorough and record.bytes <= _SMALL):
            raise damaged_file(path, reason)
    large = {path: record for path, record in files.items() if thorough and record.bytes > _SMALL}
    if not large:
        yield
        return
    stop = Event()
    with ThreadPoolExecutor(_AT_A_TIME, "nearmt-checks") as threads:
        try:
            # The largest file first: it determines how long the checks take.
            ordered = sorted(large.items(), key=lambda item: -item[1].bytes)
            found = {path: threads.submit(damage_of, path, record, stop=stop) for path, record in ordered}
            failure = None
            try:
                yield
            except Exception as error:
                failure = error
            for path, damage in found.items():
                if reason := damage.result():
                    raise damaged_file(path, reason) from failure
            if failure is not None:
                raise failure
        finally:
            stop.set()
            threads.shutdown(wait=False, cancel_futures=True)


def damaged_file(path: Path, reason: str) -> DatastoreError:
    return DatastoreError(f"{path}: {reason}; restore it or build the store again")
