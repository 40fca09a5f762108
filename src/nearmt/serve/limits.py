"""Requests and characters a minute for each key.

A bucket holds what a key may still use; it fills steadily and holds at most one minute's worth. A request that comes a
little too early waits, because clients such as Weblate stop using a service for half an hour after one 429; only one
that would have to wait longer than `patience` is refused, with the seconds after which it would pass.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from nearmt.serve.errors import TooLarge, TooMany
from nearmt.serve.keys import Principal

_MINUTE = 60.0
#: Clients whose buckets are remembered; a bucket that was not used for a minute is full, and may be forgotten.
_REMEMBERED = 10_000


@dataclass
class _Bucket:
    """What may still be used; negative while requests wait that have taken in advance."""

    left: float
    since: float

    def take(self, amount: float, per_minute: int, now: float, patience: float) -> float:
        """Seconds until the amount is available: it is taken if they are within the patience."""
        self.left = min(per_minute, self.left + (now - self.since) * per_minute / _MINUTE)
        self.since = now
        wait = self.wait(amount, per_minute)
        if wait <= patience:
            self.left -= amount
        return wait

    def wait(self, amount: float, per_minute: int) -> float:
        return max(0.0, (amount - self.left) * _MINUTE / per_minute)


class Limits:
    """Counts what each key uses."""

    def __init__(
        self,
        requests: int | None = None,
        characters: int | None = None,
        patience: float = 3.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        #: Of keys that have no limits of their own; None: unlimited.
        self.requests, self.characters = requests, characters
        self.patience = patience
        self._clock = clock
        self._buckets: OrderedDict[tuple[str, str], _Bucket] = OrderedDict()
        self._lock = threading.Lock()

    def request(self, principal: Principal) -> float:
        """Count a request and return the seconds that it has to wait; raises `TooMany`."""
        return self._take(principal.name, "requests", 1, principal.requests or self.requests)

    def text(self, principal: Principal, characters: int) -> float:
        """Count characters and return the seconds that they have to wait; raises `TooMany`."""
        most = principal.characters or self.characters
        if most is not None and characters > most:
            raise TooLarge(
                f"{characters:,} characters in one request; the key '{principal.name}' has {most:,} a minute"
            )
        return self._take(principal.name, "characters", characters, most)

    def _take(self, name: str, kind: str, amount: int, per_minute: int | None) -> float:
        if per_minute is None:
            return 0.0
        with self._lock:
            now = self._clock()
            bucket = self._buckets.setdefault((name, kind), _Bucket(per_minute, now))
            self._buckets.move_to_end((name, kind))
            while len(self._buckets) > _REMEMBERED:
                self._buckets.popitem(last=False)
            wait = bucket.take(amount, per_minute, now, self.patience)
        if wait > self.patience:
            seconds = math.ceil(wait)
            raise TooMany(f"more than {per_minute:,} {kind} a minute; try again in {seconds} s", seconds)
        return wait
