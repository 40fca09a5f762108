"""A lock that threads get in the order in which they asked."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from nearmt.serve.errors import Busy


class Turns:
    """One thread at a time; none that asks again and again keeps out the others."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()

    @contextmanager
    def held(self, what: str, patience: float) -> Iterator[None]:
        """Hold the lock while the block runs; `Busy` if others have it for longer than `patience` seconds."""
        turn = object()
        with self._changed:
            self._waiting.append(turn)
            try:
                if not self._changed.wait_for(lambda: self._waiting[0] is turn, patience):
                    raise Busy(f"{what} is being changed; try again when that is done")
            except BaseException:
                self._leave(turn)
                raise
        try:
            yield
        finally:
            with self._changed:
                self._leave(turn)

    def _leave(self, turn: object) -> None:
        self._waiting.remove(turn)
        self._changed.notify_all()
