"""Files that are either complete and known, or not there."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nearmt.errors import DatastoreError, writing


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Make sure that a file's content, or a folder's list of names, is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def writer_lock(folder: Path) -> Iterator[None]:
    """One writer at a time; the lock ends with the process that holds it."""
    with writing(folder):
        file = (folder / ".lock").open("w")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DatastoreError(f"{folder}: another process is writing to it; try again when it is done") from error
        yield


def json_text(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def write_json(path: Path, value: Any) -> None:
    """Replace a file in one step: readers see the old content or the new, never a part."""
    partial = path.with_name(path.name + ".partial")
    with writing(path):
        with partial.open("w", encoding="utf-8") as file:
            file.write(json_text(value))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync(path.parent)
