"""Other programs in processes of their own, where they and nearmt do not set each other's threads."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from queue import SimpleQueue
from typing import Any


class Process:
    """A process that holds what `load` gives; what is called in it is given that first."""

    def __init__(self, load: Callable[..., Any], *arguments: Any) -> None:
        self._pool = ProcessPoolExecutor(1, get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN))
        try:
            self._pool.submit(_hold, load, arguments).result()
        except BaseException:
            self.close()
            raise

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._pool.submit(_apply, function, arguments).result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


class Crew:
    """Several processes that hold the same; each takes the next piece of work when it is done with one."""

    def __init__(self, count: int, load: Callable[..., Any], *arguments: Any) -> None:
        self._members: list[Process] = []
        try:
            for _ in range(count):
                self._members.append(Process(load, *arguments))
        except BaseException:
            self.close()
            raise
        self._idle: SimpleQueue[Process] = SimpleQueue()
        for member in self._members:
            self._idle.put(member)

    def each(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The results, in the order of the calls."""
        with ThreadPoolExecutor(len(self._members)) as threads:
            return list(threads.map(lambda arguments: self._call(function, arguments), calls))

    def _call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        member = self._idle.get()
        try:
            return member.call(function, *arguments)
        finally:
            self._idle.put(member)

    def close(self) -> None:
        for member in self._members:
            member.close()


#: What this process holds.
_held: list[Any] = []


def _hold(load: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    _held[:] = [load(*arguments)]


def _apply(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return function(_held[0], *arguments)
