"""Ctrl-C, SIGTERM and SIGHUP end a command: it cleans up and prints one line, or is ended after a grace period.

The first signal raises `KeyboardInterrupt` in the main thread, whose `with` and `finally` blocks free locks and remove
unfinished files. Python cannot do that while the main thread runs native code, and a library may swallow the exception.
A watch thread ends the process if the command still runs after `GRACE` seconds, or at a second signal. Files that
nearmt writes survive that, as they survive a power cut.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any, NoReturn

#: Seconds for cleaning up.
GRACE = 2.0
#: Seconds between signals to a main thread that waits for input.
_NUDGE = 0.25
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP; handlers of Ctrl-C handle these too."""

    def __init__(self, number: int = signal.SIGTERM) -> None:
        super().__init__()
        self.number = number


def interruption(number: int) -> KeyboardInterrupt:
    """The exception for a signal."""
    return KeyboardInterrupt() if number == signal.SIGINT else Terminated(number)


def exit_code(error: BaseException) -> int:
    """130 after Ctrl-C, 143 after SIGTERM: the convention of shells."""
    return 128 + (error.number if isinstance(error, Terminated) else signal.SIGINT)


class _State:
    """State of the running command."""

    #: Whether the main thread has been interrupted.
    raised = False
    #: Whether it may exceed the grace period.
    patient = False
    #: Number of signals that were only noted.
    noted = 0


_state = _State()


@contextmanager
def stopping() -> Iterator[None]:
    """Signals end the block. Does nothing outside the main thread, which alone gets signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _state.raised = _state.patient = False
    _state.noted = 0
    with _handled(_raise_once), _quiet_finalisers(), _watched():
        yield


@contextmanager
def _watched() -> Iterator[None]:
    """Run the watch thread, which reads signals from a pipe."""
    with ExitStack() as ends:
        try:
            reading, writing = os.pipe()
        except OSError:  # too many open files: the command reports that itself
            yield
            return
        ends.callback(os.close, reading)
        os.set_blocking(writing, False)
        before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        watch = threading.Thread(target=_Watch(reading).run, name="nearmt-signals", daemon=True)
        watch.start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(before, warn_on_full_buffer=False)
            os.close(writing)
            watch.join()


@contextmanager
def noting(requested: list[int]) -> Iterator[None]:
    """Signals are appended to the list and do not interrupt the block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def note(number: int, frame: FrameType | None) -> None:
        requested.append(number)
        _state.noted += 1

    with _handled(note), patient():
        try:
            yield
        except KeyboardInterrupt:  # raised by the block itself
            _state.raised = True
            raise


@contextmanager
def patient() -> Iterator[None]:
    """The block may take longer than the grace period, to save results."""
    before, _state.patient = _state.patient, True
    try:
        yield
    finally:
        _state.patient = before


@contextmanager
def _handled(handler: Any) -> Iterator[None]:
    """Install a handler for the signals that are not ignored (as by nohup)."""
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
    if not _state.raised:  # a second signal does not interrupt the cleanup; the watch thread ends the process
        _state.raised = True
        raise interruption(number)


@contextmanager
def _quiet_finalisers() -> Iterator[None]:
    """Hide the traceback of an interrupt in a finaliser, where it is lost; the watch thread ends the command."""
    usual = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            usual(unraisable)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = usual


class _Watch:
    """Ends the process if the command does not end after a signal."""

    def __init__(self, reading: int) -> None:
        self._reading = reading
        #: The first signal, and the time since which the command cleans up.
        self._first, self._since = 0, 0.0
        #: Signals sent by this thread, and those that a patient block noted: neither is a second signal.
        self._sent = self._ignored = 0

    def run(self) -> None:
        while True:
            ready = select.select([self._reading], [], [], _NUDGE if self._first else None)[0]
            if not ready:
                self._wait()
            elif data := os.read(self._reading, 64):
                self._hear([number for number in data if number in _SIGNALS])
            else:
                return

    def _hear(self, numbers: list[int]) -> None:
        for number in numbers:
            if self._sent:
                self._sent -= 1
                continue
            if _state.patient or _state.noted > self._ignored:
                self._ignored += 1
            elif self._first:
                _end(self._first)
            else:
                self._first, self._since = number, time.monotonic()

    def _wait(self) -> None:
        if _state.patient:
            self._since = time.monotonic()
        elif self._first and time.monotonic() - self._since > GRACE:
            _end(self._first)
        elif self._first and not _state.raised and (main := threading.main_thread().ident) is not None:
            # It may have started to wait for input just after the signal.
            self._sent += 1
            signal.pthread_kill(main, self._first)


def _end(number: int) -> NoReturn:
    os.write(2, b"nearmt: error: interrupted\n")
    os._exit(128 + number)
