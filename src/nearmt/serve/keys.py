"""Who asks, and what they may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from nearmt.serve.errors import Forbidden, NotFound

#: What a key may do.
RIGHTS = ("translate", "learn", "admin")


@dataclass(frozen=True)
class Principal:
    """Whoever a key belongs to."""

    name: str
    #: The memories it may use; None stands for all.
    memories: frozenset[str] | None
    #: Of `RIGHTS`.
    may: frozenset[str]
    #: Used where a request names no memories.
    default_memory: str | None = None
    #: Limits a minute; None stands for those of the server.
    requests: int | None = None
    characters: int | None = None

    def check(self, right: str) -> None:
        """Refuse what the key may not do."""
        if right not in self.may:
            raise Forbidden(f"the key '{self.name}' may not {right}")

    def sees(self, memory: str) -> bool:
        return self.memories is None or memory in self.memories

    def check_memory(self, memory: str) -> None:
        """Refuse a memory that the key does not have as one that does not exist."""
        if not self.sees(memory):
            raise NotFound(f"no memory '{memory}'")


#: Requests from this machine, where there is no key file.
ANONYMOUS = Principal("anonymous", None, frozenset(RIGHTS))


class Keyring(Protocol):
    """Knows the principals of keys."""

    @property
    def required(self) -> bool:
        """Whether requests need a key."""

    def principal(self, key: str | None) -> Principal:
        """The principal of a key, or of no key; raises `Unauthorized`."""


class OpenKeyring:
    """Without a key file: all requests may do everything. Clients that always send a key may send any."""

    required = False

    def principal(self, key: str | None) -> Principal:
        return ANONYMOUS
