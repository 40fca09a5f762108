"""Named timers: where the time of a run goes.

    timings = Timings()
    with timings.active():
        ...                      # anywhere below: `with timed("index/search"): ...`
    print(timings.rows())

Timers cost a dictionary look-up when no `Timings` is active. Work on a GPU is asynchronous: its time shows
up in the timer during which the program waits for the result, unless the listener synchronises
(`Timings(synchronise=torch.cuda.synchronize)`), which tells what each part costs and slows the whole down.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field

_listener: ContextVar[Timings | None] = ContextVar("nearmt_timings", default=None)
# For blocks while no `Timings` is active.
_INACTIVE = nullcontext()


@dataclass
class _Inside:
    """Seconds that timers within a block told."""

    seconds: float = 0.0


#: The timer in which timers that are started now lie.
_open_timer: ContextVar[_Inside | None] = ContextVar("nearmt_open_timer", default=None)


@dataclass
class Timings:
    """Seconds and calls by name; the time of a timer within another is not the other's."""

    seconds: dict[str, float] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    #: Seconds during which it was active.
    elapsed: float = 0.0
    #: Called before a timer is started and before it is stopped: waits for what runs elsewhere.
    synchronise: Callable[[], None] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @contextmanager
    def active(self) -> Iterator[Timings]:
        """Collect what `timed` reports while the block runs."""
        token = _listener.set(self)
        start = time.perf_counter()
        try:
            yield self
        finally:
            self.elapsed += time.perf_counter() - start
            _listener.reset(token)

    def rows(self) -> list[tuple[str, float, int]]:
        """(name, seconds, calls), the most time first."""
        ranked = sorted(self.seconds.items(), key=lambda item: item[1], reverse=True)
        return [(name, seconds, self.calls[name]) for name, seconds in ranked]

    def add(self, name: str, seconds: float, inside: _Inside | None = None, around: _Inside | None = None) -> None:
        """Count a block: its time without that of the timers within it, which tell theirs themselves."""
        with self._lock:  # batches may run side by side
            own = max(0.0, seconds - (inside.seconds if inside else 0.0))
            self.seconds[name] = self.seconds.get(name, 0.0) + own
            self.calls[name] = self.calls.get(name, 0) + 1
            if around is not None:
                around.seconds += seconds

    def shares(self) -> dict[str, float]:
        """The part of each name in the time of all threads, and under "" what is left; together they are 1.

        Threads side by side take more seconds than pass.
        """
        told = sum(self.seconds.values())
        whole = max(self.elapsed, told) or 1.0
        return {name: seconds / whole for name, seconds in self.seconds.items()} | {"": 1.0 - told / whole}


def timed(name: str) -> AbstractContextManager[None]:
    """Add the time of the block to the listening `Timings`, if there is one."""
    listener = _listener.get()
    return _INACTIVE if listener is None else _timed(name, listener)


@contextmanager
def _timed(name: str, listener: Timings) -> Iterator[None]:
    _wait(listener)
    around, inside = _open_timer.get(), _Inside()
    token = _open_timer.set(inside)
    start = time.perf_counter()
    try:
        yield
    finally:
        _wait(listener)
        seconds = time.perf_counter() - start
        _open_timer.reset(token)
        listener.add(name, seconds, inside, around)


@contextmanager
def unheard() -> Iterator[None]:
    """Turn timers off in the block: during the capture of a CUDA graph nothing runs, so there is no time to measure."""
    token = _listener.set(None)
    try:
        yield
    finally:
        _listener.reset(token)


def _wait(listener: Timings) -> None:
    if listener.synchronise is not None:
        listener.synchronise()
