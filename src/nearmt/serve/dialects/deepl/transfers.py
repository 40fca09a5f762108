"""Imports and exports of memories, whose files are sent and fetched at addresses that need no key.

An address holds a random token and is valid for an hour. Tokens live in this process only.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from nearmt.serve.errors import NotFound
from nearmt.serve.keys import Principal

#: Seconds.
LIFETIME = 3600.0
_MOST = 1000

Operation = Literal["import", "export"]


@dataclass(frozen=True)
class Transfer:
    """An import or an export."""

    id: str
    token: str
    operation: Operation
    principal: Principal
    #: The memory that is exported, or the name for one that is imported.
    memory: str
    #: As announced.
    content_type: str
    content_length: int
    #: The job that reads an uploaded file.
    job: str | None = None
    created: float = field(default_factory=time.time)

    @property
    def expires(self) -> float:
        return self.created + LIFETIME


class Transfers:
    """Transfers by id and by token; the oldest are forgotten."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._transfers: OrderedDict[str, Transfer] = OrderedDict()
        self._clock = clock
        self._lock = threading.Lock()

    def add(
        self,
        operation: Operation,
        principal: Principal,
        memory: str,
        content_type: str = "application/xml",
        content_length: int = 0,
    ) -> Transfer:
        transfer = Transfer(
            secrets.token_hex(16),
            secrets.token_urlsafe(32),
            operation,
            principal,
            memory,
            content_type,
            content_length,
            created=self._clock(),
        )
        with self._lock:
            self._transfers[transfer.id] = transfer
            while len(self._transfers) > _MOST:
                self._transfers.popitem(last=False)
        return transfer

    def get(self, principal: Principal, id: str) -> Transfer:
        with self._lock:
            transfer = self._transfers.get(id)
        if transfer is None or transfer.principal.name != principal.name:
            raise NotFound(f"no job '{id[:64]}'")
        return transfer

    def has_expired(self, transfer: Transfer) -> bool:
        return self._clock() > transfer.expires

    def by_token(self, token: str, operation: Operation) -> Transfer:
        """The transfer of an address that is still valid."""
        with self._lock:
            for transfer in self._transfers.values():
                if transfer.operation == operation and secrets.compare_digest(transfer.token.encode(), token.encode()):
                    if not self.has_expired(transfer):
                        return transfer
                    break
        raise NotFound("this address is not valid, or no longer")

    def begin(self, transfer: Transfer, memory: str, job: str) -> None:
        """Note the job that reads an upload; an address takes one file."""
        with self._lock:
            self._transfers[transfer.id] = replace(transfer, memory=memory, job=job)
