"""The state folder of a server and its lock: one server at a time writes jobs, glossaries and memories."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nearmt.errors import ConfigError, writing

LOCK = "server.lock"


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Own the state folder while the block runs; an error if another server does. The lock ends with its process."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
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
