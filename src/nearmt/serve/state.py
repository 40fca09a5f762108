"""Folders that one server at a time may change: the memories, and the state with jobs, keys and glossaries."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nearmt.errors import ConfigError, writing

LOCK = ".server.lock"


@contextmanager
def owned(folder: Path, mode: int = 0o700) -> Iterator[None]:
    """Own a folder while the block runs; an error if another server does. The lock ends with its process.

    `mode` is that of a folder that is made. Other programs, such as `nearmt add`, do not ask: each memory has a lock of
    its own.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=mode)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            other = os.read(handle, 32).decode("ascii", "replace").strip()
            raise ConfigError(
                f"{folder}: is in use by another server{f' (process {other})' if other else ''}; "
                "stop that one, or give --read-only"
            ) from error
        with writing(folder):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)
