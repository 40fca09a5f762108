"""Blocking work of requests: in threads, ended when the client has disconnected."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from fastapi import Request

from nearmt.scheduler import Cancelled
from nearmt.serve.keys import Principal
from nearmt.serve.workers import Workers

Result = TypeVar("Result")


class Cancellable(Protocol):
    """A ticket of the scheduler."""

    def cancel(self) -> None: ...


async def run(request: Request, work: Callable[[], Result], ticket: Cancellable | None = None) -> Result:
    """Run blocking work in a thread; the ticket is cancelled when the client disconnects.

    Work that has not started by then is dropped; work that has started and has no ticket is done to its end.
    """
    workers: Workers = request.app.state.workers
    principal: Principal | None = getattr(request.state, "principal", None)
    task = asyncio.ensure_future(workers.run(principal.name if principal else "", work))
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise gone.exception() or Cancelled("the client has disconnected")
    finally:
        gone.cancel()
        if not task.done():
            task.cancel()
            if ticket is not None:
                ticket.cancel()


async def _disconnected(request: Request) -> None:
    """Return when the client has disconnected; the body has been read by then, or is left unread."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
