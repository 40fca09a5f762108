"""Other programs in separate processes, so that they do not change nearmt's thread settings, nor nearmt theirs."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from queue import SimpleQueue
from typing import Any


class Process:
    """A process that keeps the result of `load`; functions called in it get that as their first argument."""

    def __init__(self, load: Callable[..., Any], *arguments: Any) -> None:
        self._pool = ProcessPoolExecutor(1, get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN))
        try:
            self._pool.submit(_load_here, load, arguments).result()
        except BaseException:
            self.close()
            raise

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._pool.submit(_apply, function, arguments).result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


class ProcessPool:
    """Several processes that loaded the same; each call goes to an idle one."""

    def __init__(self, count: int, load: Callable[..., Any], *arguments: Any) -> None:
        self._processes: list[Process] = []
        try:
            for _ in range(count):
                self._processes.append(Process(load, *arguments))
        except BaseException:
            self.close()
            raise
        self._idle: SimpleQueue[Process] = SimpleQueue()
        for process in self._processes:
            self._idle.put(process)

    def map(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return the results in the order of the calls."""
        with ThreadPoolExecutor(len(self._processes)) as threads:
            return list(threads.map(lambda arguments: self._call(function, arguments), calls))

    def _call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        process = self._idle.get()
        try:
            return process.call(function, *arguments)
        finally:
            self._idle.put(process)

    def close(self) -> None:
        for process in self._processes:
            process.close()


#: What `load` returned in this process.
_loaded: list[Any] = []


def _load_here(load: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    _loaded[:] = [load(*arguments)]


def _apply(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return function(_loaded[0], *arguments)
