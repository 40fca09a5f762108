"""Ctrl-C, SIGTERM and SIGHUP end a command: it cleans up and says one line, or is ended after a grace period.

The first signal raises `KeyboardInterrupt` in the main thread, whose `with` and `finally` blocks free locks and remove
unfinished files. Python cannot do that while the main thread computes outside of Python, and a library may swallow
the exception. So a thread watches: when the command is still there after `GRACE` seconds, or when a second signal
comes, the process ends. What nearmt writes survives that, as it survives a power cut.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

#: Seconds to clean up in.
GRACE = 2.0
#: Seconds after which a main thread that waits for input is woken up again.
_NUDGE = 0.25
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP: whatever cleans up after Ctrl-C cleans up after these as well."""

    def __init__(self, number: int = signal.SIGTERM) -> None:
        super().__init__()
        self.number = number


def interruption(number: int) -> KeyboardInterrupt:
    """What a signal raises."""
    return KeyboardInterrupt() if number == signal.SIGINT else Terminated(number)


def exit_code(error: BaseException) -> int:
    """130 after Ctrl-C, 143 after SIGTERM, as shells have it."""
    return 128 + (error.number if isinstance(error, Terminated) else signal.SIGINT)


class _State:
    """Of the command that runs."""

    #: The main thread has been interrupted.
    raised = False
    #: It may take its time.
    patient = False
    #: What was heard so far is dealt with, and the command goes on.
    answered = False


_state = _State()


@contextmanager
def stopping() -> Iterator[None]:
    """Signals end the block. Does nothing in other threads than the main one, which signals never reach."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _state.raised = _state.patient = _state.answered = False
    with _handled(_raise_once), _quiet_finalisers():
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        watch = threading.Thread(target=_watch, args=(reading,), name="nearmt-signals", daemon=True)
        watch.start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(before, warn_on_full_buffer=False)
            os.close(writing)
            watch.join()
            os.close(reading)


@contextmanager
def noting(requested: list[int]) -> Iterator[None]:
    """Signals are noted in the list and end nothing, however many there are, until the block is left."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _handled(lambda number, frame: requested.append(number)), patient():
        try:
            yield
            _state.answered = True
        except KeyboardInterrupt:  # raised where the block can be left
            _state.raised = True
            raise


@contextmanager
def patient() -> Iterator[None]:
    """The block may take longer than the grace period: it saves what would be lost."""
    before, _state.patient = _state.patient, True
    try:
        yield
    finally:
        _state.patient = before


@contextmanager
def _handled(handler: Any) -> Iterator[None]:
    """Signals that are ignored (nohup, background jobs of scripts) stay so."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    heard = [number for number, old in before.items() if old not in (signal.SIG_IGN, None)]
    for number in heard:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])


def _raise_once(number: int, frame: FrameType | None) -> None:
    if not _state.raised:  # a second one must not break off the cleaning up; the watch ends the process
        _state.raised = True
        raise interruption(number)


@contextmanager
def _quiet_finalisers() -> Iterator[None]:
    """An interrupt that falls into a finaliser is lost there, with a traceback; the watch ends the command anyhow."""
    usual = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            usual(unraisable)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = usual


def _watch(reading: int) -> None:
    """End the process when a signal was heard and the command does not end."""
    first, since, own = 0, 0.0, 0
    while True:
        ready = select.select([reading], [], [], _NUDGE if first else None)[0]
        if _state.answered:
            first, _state.answered = 0, False
        if ready:
            data = os.read(reading, 64)
            if not data:
                return
            numbers = [number for number in data if number in _SIGNALS]
            echoes = min(own, len(numbers))
            own, numbers = own - echoes, numbers[echoes:]
            if numbers and not first:
                first, since, numbers = numbers[0], time.monotonic(), numbers[1:]
            if numbers and not _state.patient:
                _end(first)
        elif _state.patient:
            since = time.monotonic()
        elif first and time.monotonic() - since > GRACE:
            _end(first)
        elif first and not _state.raised and (main := threading.main_thread().ident) is not None:
            # It may have begun to wait for input just after the signal came.
            own += 1
            signal.pthread_kill(main, first)


def _end(number: int) -> NoReturn:
    os.write(2, b"nearmt: error: interrupted\n")
    os._exit(128 + number)
