"""Threads are bounded, shared among clients in turn, and never lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from nearmt.scheduler import QueueFull
from nearmt.serve.workers import Workers


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 30))


class Gate:
    """Work that runs until it is let go."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self._open = threading.Event()

    def work(self, name: str) -> Callable[[], str]:
        def wait() -> str:
            self.started.append(name)
            assert self._open.wait(30)
            return name

        return wait

    def open(self) -> None:
        self._open.set()


async def until(happened: Callable[[], bool]) -> None:
    while not happened():
        await asyncio.sleep(0.005)


def test_all_threads_can_be_started_at_once() -> None:
    workers, before = Workers(5), threading.active_count()
    workers.start()
    assert threading.active_count() == before + 5
    workers.close()


def test_results_and_errors_come_back() -> None:
    async def test() -> None:
        workers = Workers(2)
        assert await workers.run("a", lambda: 3) == 3
        with pytest.raises(ZeroDivisionError):
            await workers.run("a", lambda: 1 / 0)  # type: ignore[arg-type, return-value]
        assert (workers.running, workers.waiting) == (0, 0)

    run(test)


def test_clients_take_turns() -> None:
    """A client with much work delays others by at most one piece of it."""

    async def test() -> None:
        workers, order, gate = Workers(1), list[str](), Gate()
        first = asyncio.ensure_future(workers.run("busy", gate.work("first")))
        await until(lambda: bool(gate.started))
        rest = [asyncio.ensure_future(workers.run("busy", lambda: order.append("busy"))) for _ in range(5)]
        await asyncio.sleep(0)
        other = asyncio.ensure_future(workers.run("other", lambda: order.append("other")))
        await asyncio.sleep(0)
        gate.open()
        await asyncio.gather(first, *rest, other)
        assert order.index("other") <= 1

    run(test)


def test_one_client_does_not_get_all_threads() -> None:
    async def test() -> None:
        workers, gate = Workers(4), Gate()
        mine = [asyncio.ensure_future(workers.run("a", gate.work("a"))) for _ in range(9)]
        await until(lambda: len(gate.started) == 3)
        assert await workers.run("b", lambda: "at once") == "at once"
        assert (workers.running, workers.waiting) == (3, 6)
        gate.open()
        await asyncio.gather(*mine)
        assert (workers.running, workers.waiting) == (0, 0)

    run(test)


def test_a_full_queue_refuses_after_some_patience() -> None:
    async def test() -> None:
        workers, gate = Workers(1, queue=1, patience=0.1), Gate()
        work = [asyncio.ensure_future(workers.run("a", gate.work("a"))) for _ in range(2)]
        await until(lambda: workers.waiting == 1)
        with pytest.raises(QueueFull):
            await workers.run("b", lambda: None)
        gate.open()
        await asyncio.gather(*work)
        assert await workers.run("b", lambda: 1) == 1

    run(test)


def test_cancelled_work_gives_its_place_back() -> None:
    async def test() -> None:
        workers, gate = Workers(1), Gate()
        started = asyncio.ensure_future(workers.run("a", gate.work("a")))
        await until(lambda: bool(gate.started))
        waiting = asyncio.ensure_future(workers.run("b", gate.work("b")))
        await until(lambda: workers.waiting == 1)
        waiting.cancel()
        started.cancel()
        await asyncio.gather(started, waiting, return_exceptions=True)
        # The thread is still at work.
        assert (workers.running, workers.waiting) == (1, 0)
        gate.open()
        await until(lambda: workers.running == 0)
        assert gate.started == ["a"]
        assert await workers.run("c", lambda: 1) == 1

    run(test)
