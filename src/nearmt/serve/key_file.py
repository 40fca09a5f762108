"""The file of keys: hashes of the keys, and what each may do.

A key is 256 random bits, so its SHA-256 cannot be guessed and needs no slow hash. The server reads the file again when
it changes: `nearmt keys` needs no restart. A server that has had a key file never falls back to working without keys.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from nearmt.datastore.disk.files import json_text
from nearmt.errors import ConfigError, InputError, writing
from nearmt.serve.errors import Unauthorized
from nearmt.serve.keys import ANONYMOUS, RIGHTS, Principal

FILE_NAME = "keys.json"
#: What every key begins with, so that a leaked one is recognised.
PREFIX = "nearmt_"
#: The memories of a key that may use all of them, those of the future included.
EVERY_MEMORY = "*"
_FORMAT = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_MEMORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class KeyRecord:
    """A key as it is stored: its hash, and what it may do."""

    name: str
    hash: str
    #: None stands for all.
    memories: tuple[str, ...] | None
    may: tuple[str, ...]
    default_memory: str | None = None
    #: Limits a minute; None stands for those of the server.
    requests: int | None = None
    characters: int | None = None
    created: str = ""

    @property
    def principal(self) -> Principal:
        memories = None if self.memories is None else frozenset(self.memories)
        return Principal(self.name, memories, frozenset(self.may), self.default_memory, self.requests, self.characters)


def make_record(
    name: str,
    memories: Iterable[str],
    may: Iterable[str],
    default_memory: str | None = None,
    requests: int | None = None,
    characters: int | None = None,
) -> tuple[KeyRecord, str]:
    """A checked record of a new key, and the key itself, which is stored nowhere."""
    key = PREFIX + secrets.token_urlsafe(32)
    names, rights = tuple(memories), tuple(may)
    if not _NAME.fullmatch(name):
        raise ConfigError(f"key name {name!r}: use letters, digits and . _ @ - (at most 64)")
    for right in rights:
        if right not in RIGHTS:
            raise ConfigError(f"a key may do {', '.join(RIGHTS)}; not '{right}'")
    every = names == (EVERY_MEMORY,)
    for memory in () if every else (*names, *([default_memory] if default_memory else [])):
        if not _MEMORY.fullmatch(memory):
            raise ConfigError(f"memory name {memory!r}: use letters, digits and . _ - (at most 64)")
    if default_memory and not every and default_memory not in names:
        raise ConfigError(f"the default memory '{default_memory}' is not one of the key's memories")
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    shown = None if every else names
    return KeyRecord(name, digest(key), shown, rights, default_memory, requests, characters, created), key


def digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def read_keys(path: Path) -> list[KeyRecord]:
    """The records of a key file; none if there is no file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from error
    try:
        return [_record(item) for item in json.loads(text)["keys"]]
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path}: not a key file of nearmt ({type(error).__name__})") from error


def _record(item: dict[str, Any]) -> KeyRecord:
    memories = item["memories"]
    given = {**item, "may": tuple(item["may"]), "memories": None if memories is None else tuple(memories)}
    record = KeyRecord(**given)
    if len(bytes.fromhex(record.hash)) != hashlib.sha256().digest_size:
        raise ValueError("not a hash")
    return record


@contextmanager
def changing(folder: Path) -> Iterator[list[KeyRecord]]:
    """The keys of a state folder, to be changed in place; they are written when the block ends without an error."""
    path = folder / FILE_NAME
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(folder / "keys.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        records = read_keys(path)
        yield records
        _write(path, records)
    finally:
        os.close(lock)


def _write(path: Path, records: list[KeyRecord]) -> None:
    """Replace the file; only its owner may read it."""
    partial = path.with_name(FILE_NAME + ".partial")
    text = json_text({"format": _FORMAT, "keys": [asdict(record) for record in records]})
    with writing(path):
        partial.unlink(missing_ok=True)
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)


class KeyFile:
    """The principals of the keys in a file. Without a file, requests without a key may do everything."""

    def __init__(self, path: Path, *, read_only: bool = False, default_memory: str | None = None) -> None:
        """`default_memory` is that of requests without a key."""
        self.path = path
        self._anonymous = replace(ANONYMOUS, default_memory=default_memory)
        self._read_only = read_only
        self._lock = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._records: tuple[tuple[bytes, Principal], ...] = ()
        self._required = False
        read_keys(path)  # a damaged file is an error when the server starts; later it leaves no valid key
        self._refresh()

    @property
    def required(self) -> bool:
        """Whether requests need a key."""
        with self._lock:
            self._refresh()
            return self._required

    def principal(self, key: str | None) -> Principal:
        """The principal of a key, or of no key; raises `Unauthorized`."""
        with self._lock:
            self._refresh()
            required, records = self._required, self._records
        if not required:
            # Clients of other services cannot be told to send no key.
            return self._limited(self._anonymous)
        if not key:
            raise Unauthorized("this server needs a key")
        given, found = bytes.fromhex(digest(key)), None
        for stored, principal in records:  # all of them: how long it takes tells nothing
            if hmac.compare_digest(stored, given):
                found = principal
        if found is None:
            raise Unauthorized("the key is not known")
        return self._limited(found)

    def _limited(self, principal: Principal) -> Principal:
        return replace(principal, may=principal.may & {"translate"}) if self._read_only else principal

    def _refresh(self) -> None:
        """Read the file if it has changed. One that vanished or is damaged leaves no valid key."""
        try:
            status = self.path.stat()
            stamp = (status.st_mtime_ns, status.st_ino, status.st_size)
        except OSError:
            self._stamp, self._records = None, ()
            return
        if stamp == self._stamp:
            return
        self._stamp, self._required, self._records = stamp, True, ()
        with suppress(InputError):
            self._records = tuple((bytes.fromhex(each.hash), each.principal) for each in read_keys(self.path))
