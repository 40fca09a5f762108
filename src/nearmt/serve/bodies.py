"""Limits of request bodies: their size, and the time that they take.

A body may take `GRACE` seconds, and longer as long as it keeps up a minimal speed: a large upload on a slow line
passes, a client that sends a byte now and then does not hold a connection.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.exceptions import HTTPException

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

GRACE = 20.0
#: Bytes a second.
SLOWEST = 4096


class LimitedBody:
    """`receive` of a request with limits. After the body it only tells when the client is gone.

    Errors are those of Starlette, which FastAPI does not replace by others while it reads.
    """

    def __init__(self, receive: Receive, most: int, announced: int | None) -> None:
        self._receive, self._most = receive, most
        self._announced = announced
        self._start = time.monotonic()
        self._complete = False
        self.size = 0

    async def __call__(self) -> Message:
        if self._complete:
            return await self._receive()
        self._check(self._announced or 0)
        message = await self._next()
        self.size += len(message.get("body", b""))
        self._check(self.size)
        self._complete = not message.get("more_body", False)
        return message

    async def _next(self) -> Message:
        left = self._start + GRACE + self.size / SLOWEST - time.monotonic()
        try:
            return await asyncio.wait_for(self._receive(), max(left, 0.0))
        except TimeoutError:
            raise HTTPException(408, "the body of the request came too slowly") from None

    def _check(self, size: int) -> None:
        if size > self._most:
            raise HTTPException(413, f"the body of the request is larger than {_shown(self._most)}")


def _shown(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size} bytes"
