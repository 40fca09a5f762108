"""Independent work on all cores: several small computations side by side beat one that is spread over the cores."""

from __future__ import annotations

import contextvars
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")
Function = TypeVar("Function", bound=Callable[..., Any])


def workers() -> int:
    """How many tasks `side_by_side` runs at a time."""
    return torch.get_num_threads()


class Abandoned(Exception):
    """Raised in a task whose result is no longer waited for."""


#: Set when the results of the tasks that run here are no longer waited for.
_abandoned: contextvars.ContextVar[threading.Event | None] = contextvars.ContextVar("nearmt_abandoned", default=None)


def check_wanted() -> None:
    """End a task of `side_by_side` whose result is no longer waited for; long tasks call this at every step."""
    event = _abandoned.get()
    if event is not None and event.is_set():
        raise Abandoned


def side_by_side(tasks: Sequence[Callable[[], Result]]) -> Iterator[tuple[int, Result]]:
    """The number and the result of each task as it ends; the first tasks are begun first.

    As many tasks run at a time as torch may use threads, each of them on one thread. When the caller stops early (an
    error, Ctrl-C), tasks that have begun end where they call `check_wanted`.
    """
    if workers() == 1 or len(tasks) < 2:
        yield from ((number, task()) for number, task in enumerate(tasks))
        return
    with _pool(min(workers(), len(tasks))) as submit:
        running = {submit(task): number for number, task in enumerate(tasks)}
        for future in as_completed(running):
            yield running[future], future.result()


def in_order(tasks: Iterable[Callable[[], Result]], ahead: int) -> Iterator[Result]:
    """The results of tasks in their order, computed as by `side_by_side`.

    A task is taken from `tasks`, in the caller's thread, when fewer than `ahead` results are outstanding.
    """
    if workers() == 1:
        yield from (task() for task in tasks)
        return
    waiting: deque[Future[Result]] = deque()
    with _pool(workers()) as submit:
        for task in tasks:
            waiting.append(submit(task))
            if len(waiting) >= ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@contextmanager
def _pool(size: int) -> Iterator[Callable[[Callable[[], Any]], Future[Any]]]:
    """Threads of which each computes on one thread; what begins a task there."""
    threads = workers()
    pool = ThreadPoolExecutor(size, "nearmt", initializer=torch.set_num_threads, initargs=(1,))
    abandoned = threading.Event()

    def submit(task: Callable[[], Any]) -> Future[Any]:
        # What listens to timers here listens there too.
        context = contextvars.copy_context()
        context.run(_abandoned.set, abandoned)
        return pool.submit(context.run, task)

    try:
        yield submit
    finally:
        abandoned.set()
        pool.shutdown(cancel_futures=True)
        # The number of threads is one of a thread, but new threads begin with the one that was set last.
        torch.set_num_threads(threads)


def scripted(function: Function) -> Function:
    """The same function, or module, as TorchScript, during which other threads can run Python.

    Itself where torch has no TorchScript, or where that does not understand it.
    """
    with warnings.catch_warnings():
        # Torch means to drop TorchScript one day; from then on functions run as they are.
        warnings.simplefilter("ignore")
        try:
            return torch.jit.script(function)  # type: ignore[no-any-return]
        except Exception:  # torch raises all kinds, and the function is good as it is
            return function
