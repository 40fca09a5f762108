"""A bounded pool of threads for blocking work of requests, shared fairly among clients.

Work that finds no free thread waits: clients take turns, and one client never holds all threads. When too much waits,
further work is refused. Everything but the work itself runs in the event loop, so there is no lock.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from nearmt.scheduler import QueueFull

Result = TypeVar("Result")
#: Seconds that work may wait for a place in a full queue.
PATIENCE = 3.0


class Workers:
    """Threads, and the work that waits for one."""

    def __init__(self, threads: int = 64, queue: int = 256, patience: float = PATIENCE) -> None:
        self.threads, self.queue, self.patience = threads, queue, patience
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="nearmt-request")
        #: Threads that one client may hold.
        self._share = max(1, threads - max(1, threads // 4))
        self._running: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def running(self) -> int:
        return self._running.total()

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    async def run(self, client: str, work: Callable[[], Result]) -> Result:
        """Run work in a thread when it is the client's turn. If it is cancelled, the thread counts until it is done."""
        await self._turn(client)
        context = contextvars.copy_context()
        future = asyncio.get_running_loop().run_in_executor(self._pool, context.run, work)
        try:
            return await asyncio.shield(future)
        finally:
            if future.done():
                self._leave(client)
            else:
                future.add_done_callback(lambda future: self._abandoned(client, future))

    def _abandoned(self, client: str, future: asyncio.Future[Any]) -> None:
        """Work that was not waited for has ended, mostly with the error that its ticket was cancelled."""
        if not future.cancelled():
            future.exception()  # an error that is not retrieved is logged
        self._leave(client)

    def start(self) -> None:
        """Start all threads, so that their number does not grow with the load."""
        together = threading.Barrier(self.threads + 1)
        for _ in range(self.threads):
            self._pool.submit(together.wait)
        together.wait()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _turn(self, client: str) -> None:
        """Wait for a thread, which is counted as the client's when this returns."""
        if self._may_run(client) and not self._waiting.get(client):
            self._running[client] += 1
            return
        await self._room()
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(turn)
        self._next()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave(client)
            else:
                self._forget(client, turn)
            raise

    async def _room(self) -> None:
        end = asyncio.get_running_loop().time() + self.patience
        while self.waiting >= self.queue:
            if asyncio.get_running_loop().time() >= end:
                raise QueueFull(f"{self.waiting} requests wait already; try again soon")
            await asyncio.sleep(0.05)

    def _may_run(self, client: str) -> bool:
        return self.running < self.threads and self._running[client] < self._share

    def _leave(self, client: str) -> None:
        self._running[client] -= 1
        if not self._running[client]:
            del self._running[client]
        self._next()

    def _next(self) -> None:
        """Give free threads to clients in turn."""
        for client in list(self._waiting):
            if self.running >= self.threads:
                return
            if not self._may_run(client):
                continue
            turns = self._waiting[client]
            turn = turns.popleft()
            if turns:
                self._waiting.move_to_end(client)
            else:
                del self._waiting[client]
            self._running[client] += 1
            turn.set_result(None)

    def _forget(self, client: str, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(client)
        if turns and turn in turns:
            turns.remove(turn)
            if not turns:
                del self._waiting[client]
