"""What the server has done since it was started."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping

from nearmt.scheduler import Scheduler
from nearmt.serve.values import Statistics, Timing, Translated

#: Timers by what the first part of their name stands for.
_GROUPS = {"model": "model", "beam": "model", "index": "search", "store": "search", "cache": "cache", "mix": "cache"}
#: Timers before and after.
Span = tuple[Mapping[str, float], Mapping[str, float]]


class Counts:
    """Texts by origin, and searches, steps and translations of the model."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._start = time.monotonic()

    def add(self, translations: list[Translated]) -> None:
        with self._lock:
            for found in translations:
                self._counts["texts"] += 1
                self._counts[found.origin] += 1
                self._counts["searches"] += found.searches
                self._counts["missed"] += found.missed
                self._counts["steps"] += found.steps

    def statistics(self, scheduler: Scheduler) -> Statistics:
        with self._lock:
            counts = Counter(self._counts)
        return Statistics(
            seconds=time.monotonic() - self._start,
            texts=counts["texts"],
            by_origin={name: counts[name] for name in ("machine", "memory", "repaired", "copied")},
            searches=counts["searches"],
            missed=counts["missed"],
            steps=counts["steps"],
            queued=scheduler.queued,
            running=scheduler.running,
            slots=scheduler.slots,
            timers=dict(scheduler.timings.seconds),
        )


def timing(seconds: float, *spans: Span) -> Timing:
    """The time of a request, from timers before and after it. They are those of all requests that run meanwhile."""
    groups: Counter[str] = Counter()
    for before, after in spans:
        for name, value in after.items():
            if group := _GROUPS.get(name.partition("/")[0]):
                groups[group] += value - before.get(name, 0.0)  # type: ignore[assignment]  # seconds
    return Timing(seconds, float(groups["model"]), float(groups["search"]), float(groups["cache"]))
