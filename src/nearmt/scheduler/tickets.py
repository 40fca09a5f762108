"""What a request is: who sent it, how urgent it is, how long it waits."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from nearmt.decoding.hypothesis import Hypothesis, SentenceBeam
from nearmt.models import TranslationModel
from nearmt.models.marks import Marks
from nearmt.models.words import SourceWords
from nearmt.scheduler.errors import Cancelled, DeadlineExceeded
from nearmt.steps import Method


class Priority(IntEnum):
    """What begins first."""

    INTERACTIVE = 0
    BULK = 1


class Ticket:
    """One request. Sentences of a request that is cancelled or late leave the running batch at its next step."""

    def __init__(
        self, client: str = "", priority: Priority = Priority.INTERACTIVE, deadline: float | None = None
    ) -> None:
        """`deadline` is in seconds from now. Clients take turns."""
        self.client, self.priority, self.seconds = client, priority, deadline
        self._ends = None if deadline is None else time.monotonic() + deadline
        self._lock = threading.Lock()
        self._told: list[Callable[[], None]] = []
        self.cancelled = False

    def cancel(self) -> None:
        with self._lock:
            self.cancelled = True
            told = list(self._told)
        for tell in told:
            tell()

    @contextmanager
    def telling(self, tell: Callable[[], None]) -> Iterator[None]:
        """Call a function when the request is cancelled while the block runs."""
        with self._lock:
            self._told.append(tell)
        try:
            yield
        finally:
            with self._lock:
                self._told.remove(tell)

    @property
    def left(self) -> float | None:
        """Seconds until the deadline; None without one."""
        return None if self._ends is None else self._ends - time.monotonic()

    @property
    def wanted(self) -> bool:
        left = self.left
        return not self.cancelled and (left is None or left > 0)

    def check(self) -> None:
        """Raise what ended the request, if anything did."""
        if self.cancelled:
            raise Cancelled("the request was cancelled")
        if not self.wanted:
            raise DeadlineExceeded(f"not translated within {self.seconds:g} seconds; send fewer sentences at a time")


class Lane(NamedTuple):
    """Tasks that share a batch: those with one model, as many beams and one priority."""

    model: int
    beams: int
    priority: Priority


#: Told the result of a task: a hypothesis, or why there is none.
Done = Callable[[Hypothesis | Exception], None]


@dataclass(eq=False)
class Task:
    """A sentence to decode."""

    ticket: Ticket
    model: TranslationModel
    method: Method
    source: Sequence[int]
    length: int  # |x|
    beam: SentenceBeam
    words: SourceWords | None
    marks: Marks | None
    #: What its translation must not have.
    forbidden: re.Pattern[str] | None
    done: Done
    #: Set once the result was told, and when its request ended without it.
    told: bool = field(default=False, init=False)
    dropped: bool = field(default=False, init=False)

    @property
    def lane(self) -> Lane:
        return Lane(id(self.model), self.beam.size, self.ticket.priority)

    @property
    def wanted(self) -> bool:
        return not self.dropped and self.ticket.wanted

    def tell(self, result: Hypothesis | Exception) -> None:
        if not self.told:
            self.told = True
            self.done(result)
