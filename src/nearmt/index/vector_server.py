"""What nearmt asks of a server that keeps the keys of memories, and where it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import parse_qsl, urlsplit

import numpy as np

from nearmt.errors import ConfigError

SCHEME = "milvus://"
PORT = 19530
#: Kinds of index: what they are built with, and how they are searched, from fast to thorough.
KINDS: dict[str, dict[str, int]] = {"HNSW": {"M": 16, "efConstruction": 128}, "IVF_SQ8": {"nlist": 1024}}
EFFORTS = {"HNSW": (32, 48, 64, 96, 128, 256, 512), "IVF_SQ8": (8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024)}
_BOUNDS = {"M": (4, 64), "efConstruction": (8, 512), "nlist": (1, 65_536)}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_FORM = f"write {SCHEME}HOST:PORT[/DATABASE][?type={'|'.join(KINDS)}]"


@dataclass(frozen=True)
class Address:
    """A server, a database in it, and the kind of index that keys get there."""

    host: str
    port: int
    database: str = "default"
    kind: str = "HNSW"
    #: Those of KINDS, in their order.
    parameters: tuple[tuple[str, int], ...] = tuple(KINDS["HNSW"].items())

    @classmethod
    def parse(cls, text: str) -> Address:
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise ConfigError(f"index = {text!r}: {error}; {_FORM}") from error
        if not text.startswith(SCHEME) or not host or parts.fragment:
            raise ConfigError(f"index = {text!r}: not the address of a Milvus server; {_FORM}")
        if parts.username is not None:
            raise ConfigError("index: a datastore must not hold a password; set NEARMT_MILVUS_TOKEN=USER:PASSWORD")
        database = parts.path.strip("/") or "default"
        if not _NAME.fullmatch(database):
            raise ConfigError(f"index = {text!r}: {database!r} is no name of a database; {_FORM}")
        given = dict(parse_qsl(parts.query, keep_blank_values=True))
        kind = given.pop("type", "HNSW").upper()
        if kind not in KINDS:
            raise ConfigError(f"index = {text!r}: type is {kind!r}; {_FORM}")
        return cls(host, port or PORT, database, kind, _parameters(text, kind, given))

    def __str__(self) -> str:
        settings = "&".join(f"{name}={value}" for name, value in (("type", self.kind), *self.parameters))
        return f"{self.server}?{settings}"

    @property
    def server(self) -> str:
        """Without the kind of index."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{SCHEME}{host}:{self.port}/{self.database}"

    @property
    def is_local(self) -> bool:
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


def _parameters(text: str, kind: str, given: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    known = KINDS[kind]
    for name, value in given.items():
        if name not in known:
            raise ConfigError(f"index = {text!r}: {kind} has no parameter {name!r}; it has {', '.join(known)}")
        low, high = _BOUNDS[name]
        if not value.isdecimal() or not low <= int(value) <= high:
            raise ConfigError(f"index = {text!r}: {name} must be a whole number between {low} and {high}")
    return tuple((name, int(given.get(name, default))) for name, default in known.items())


@dataclass(frozen=True)
class Progress:
    """How many rows of a collection are indexed, of how many, and how much of it is loaded (percent)."""

    indexed: int
    rows: int
    loaded: int


class VectorServer(Protocol):
    """Collections of rows: a number (the key), the numbers of a memory and of a part of it, a vector.

    Every call ends after `timeout` seconds. All errors are `IndexServerError`.
    """

    def connect(self, timeout: float) -> None:
        """Make the connection, unless there is one: before all else."""

    def parameters(self, collection: str, timeout: float) -> tuple[str, dict[str, int]] | None:
        """The kind of a collection's index (empty: it has none yet) and what it was built with; None if there is no
        such collection."""

    def create(self, collection: str, columns: int, address: Address, timeout: float) -> None:
        """Make an empty collection, its index, or what of them is not there; does not wait until it is loaded."""

    def insert(self, collection: str, first: int, memory: int, part: int, key_XD: np.ndarray, timeout: float) -> None:
        """Add rows with the numbers from `first` on."""

    def flush(self, collection: str, timeout: float) -> None:
        """Have what was added written and indexed; does not wait for the index."""

    def load(self, collection: str, timeout: float) -> None:
        """Have a collection loaded; does not wait for it."""

    def progress(self, collection: str, timeout: float) -> Progress: ...

    def unindexed(self, collection: str, timeout: float) -> int:
        """How many rows searches still find without their index; 0 where the server does not tell."""

    def count(self, collection: str, filter: str, timeout: float) -> int:
        """Rows that searches find."""

    def delete(self, collection: str, filter: str, timeout: float) -> None: ...

    def search(
        self, collection: str, query_BD: np.ndarray, count: int, filter: str, effort: int, timeout: float
    ) -> np.ndarray:
        """The numbers of up to `count` rows near each query, [B, count]; -1 where fewer were found."""
