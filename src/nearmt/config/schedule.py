"""When to search the datastore (section 3.3 of the paper)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from nearmt.errors import ConfigError


class Schedule(Protocol):
    """Tells how many steps lie between a search and the next one."""

    def interval(self, time: int, source_length: int) -> int:
        """i_k for a search at step t_k = `time` of a sentence with |x| = `source_length`."""

    def __hash__(self) -> int:
        """Equal schedules search at the same steps."""


@dataclass(frozen=True)
class EverySchedule:
    """Search every `steps` steps."""

    steps: int

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ConfigError(f"schedule = '{self}': the interval must be at least 1")

    def interval(self, time: int, source_length: int) -> int:
        return self.steps

    def __str__(self) -> str:
        return f"every:{self.steps}"


@dataclass(frozen=True)
class GeometricSchedule:
    """Search often at the beginning of a sentence and rarely later (equation 6).

    i_k = floor(min(i_max, i_min * 2 ** (r * t_k))) with r = (i_max / 2) / |x|
    """

    i_min: int
    i_max: int

    def __post_init__(self) -> None:
        if not 1 <= self.i_min <= self.i_max:
            raise ConfigError(f"schedule = '{self}': needs 1 <= i_min <= i_max")

    def interval(self, time: int, source_length: int) -> int:
        # r * t_k in one division: rounding r first can miss a whole number. Beyond the second bound
        # i_max wins anyway; unclamped, a short source overflows a float.
        exponent = min(0.5 * self.i_max * time / max(1, source_length), math.log2(self.i_max / self.i_min) + 1)
        return math.floor(min(self.i_max, self.i_min * 2**exponent))

    def __str__(self) -> str:
        return f"geometric:{self.i_min}:{self.i_max}"


def parse_schedule(text: str) -> Schedule:
    """`every:6` or `geometric:2:16`."""
    kind, _, rest = text.partition(":")
    try:
        numbers = [int(part) for part in rest.split(":")]
        if kind == "every":
            return EverySchedule(*numbers)
        if kind == "geometric":
            return GeometricSchedule(*numbers)
    except (ValueError, TypeError):
        pass
    raise ConfigError(f"schedule = {text!r}: give every:STEPS or geometric:MIN:MAX, for example geometric:2:16")


@lru_cache(maxsize=4096)
def search_steps(schedule: Schedule, source_length: int, max_steps: int) -> dict[int, int]:
    """Every step t_k at which one sentence searches, with the interval i_k that follows it. Not to be written to."""
    steps = {}
    time = 1
    while time <= max_steps:
        steps[time] = schedule.interval(time, source_length)
        time += steps[time]
    return steps
