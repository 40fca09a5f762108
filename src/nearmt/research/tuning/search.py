"""Ways through a space of settings: every point, or where the gain is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from nearmt.errors import ConfigError
from nearmt.research.tuning.space import Axis, Point

#: Score of settings on the dev set up to and including a slice.
Objective: TypeAlias = Callable[[Point, int], float]
#: Settings of which only some are given, with the others filled in.
Complete: TypeAlias = Callable[[Point], Point]
#: How far a round looks on either side of the best value: defaults from the store are not far off.
_REACH = 2
# Sums of shares are not exact.
_LITTLE = 1e-9


@dataclass(frozen=True)
class Trial:
    """What settings scored on the first slices of the dev set."""

    settings: Point
    share: float  # of the dev set
    score: float


@dataclass
class Study:
    """The trials of one search, and what they cost: 1 is one translation of the dev set."""

    objective: Objective
    axes: list[Axis]
    budget: float
    #: The share of the dev set up to each slice; the last one is 1.
    shares: Sequence[float] = (1.0,)
    complete: Complete = dict
    spent: float = 0.0
    trials: list[Trial] = field(default_factory=list)
    _known: dict[tuple[object, ...], list[float]] = field(default_factory=dict)

    @property
    def last(self) -> int:
        """The slice with which the dev set is complete."""
        return len(self.shares) - 1

    def score(self, point: Point, slice_number: int, *, free: bool = False) -> float:
        """The score of a point, tried unless it is known; `free` is not counted against the budget."""
        settings = self.complete(point)
        scores = self._known.setdefault(_key(settings), [])
        while len(scores) <= slice_number:
            cost = 0.0 if free else self._cost(len(scores) - 1, len(scores))
            scores.append(self.objective(settings, len(scores)))
            self.spent += cost
            self.trials.append(Trial(settings, self.shares[len(scores) - 1], scores[-1]))
        return scores[slice_number]

    def merit(self, point: Point, slice_number: int) -> tuple[float, float]:
        """What points are ranked by: of equal ones, the nearest to the defaults is the best."""
        settings = self.complete(point)
        return self.score(point, slice_number), -sum(axis.distance(settings[axis.name]) for axis in self.axes)

    def modest(self, best: Point, margin: float) -> Point:
        """Of all settings that score within `margin` of the best, those nearest to the defaults.

        What a dev set of some hundred sentences says beyond that is mostly chance.
        """
        bound = self.score(best, self.last) - margin
        equals = [t.settings for t in self.trials if t.share == self.shares[-1] and t.score >= bound]
        return min(equals, key=lambda point: (-self.merit(point, self.last)[1], -self.score(point, self.last)))

    def affordable(self, points: list[Point], turns: int) -> list[Point]:
        """The first points, as many as can compete for an equal share of what is left for so many turns."""
        left = self.budget - self.spent
        # One point that sees the whole dev set is the least that makes sense.
        share = min(left, max(1.0, left / turns))
        while points and self._competition(points) > share + _LITTLE:
            points = points[:-1]
        return points

    def _competition(self, points: list[Point]) -> float:
        """The most that `compete` can cost."""
        missing = sum(self._cost(len(self._known.get(_key(self.complete(p)), [])) - 1, 0) for p in points)
        count = len(points)
        for slice_number in range(1, len(self.shares)):
            count = math.ceil(count / 2)
            missing += count * self._cost(slice_number - 1, slice_number)
        return missing

    def _cost(self, seen: int, wanted: int) -> float:
        return max(0.0, self.shares[wanted] - (self.shares[seen] if seen >= 0 else 0.0))


def _key(settings: Point) -> tuple[object, ...]:
    return tuple(sorted(settings.items()))


def compete(study: Study, points: list[Point]) -> list[Point]:
    """Successive halving: the better half of the points goes on to the next slice; who has seen all."""
    for slice_number in range(len(study.shares)):
        ranked = sorted(points, key=lambda point: study.merit(point, slice_number), reverse=True)
        points = ranked if slice_number == study.last else ranked[: math.ceil(len(ranked) / 2)]
    return points


def smart(study: Study, refine: bool) -> Point:
    """One setting after the other, from the defaults on, until nothing gets better or the budget is spent.

    Each round looks beside the best values, the last ones between them.
    """
    best: Point = {}
    study.score(best, study.last, free=True)
    for axes in [study.axes, [axis.refined() for axis in study.axes]] if refine else [study.axes]:
        while (better := _round(study, axes, best)) != best:
            best = better
    return best


def _round(study: Study, axes: list[Axis], best: Point) -> Point:
    for turn, axis in enumerate(axes):
        now = study.complete(best)[axis.name]
        points = [{**best, axis.name: value} for value in axis.others(now, _REACH)]
        finalists = compete(study, study.affordable(points, len(axes) - turn))
        # The first of equals stays: it is what the others were compared with.
        best = max([best, *finalists], key=lambda point: study.merit(point, study.last))
    return best


def grid(study: Study) -> Point:
    """All points of the space, those near the defaults first."""
    count = math.prod(len(axis.values) for axis in study.axes)
    if count > study.budget + _LITTLE:
        raise ConfigError(
            f"the grid has {count:,} points, more than the budget of {study.budget:g}; "
            f"give --budget {count}, fewer settings to tune, or --strategy smart"
        )
    best: Point = {}
    study.score(best, study.last, free=True)
    names = [axis.name for axis in study.axes]
    points = [dict(zip(names, values, strict=True)) for values in itertools.product(*(a.values for a in study.axes))]
    points.sort(key=lambda point: sum(axis.distance(point[axis.name]) for axis in study.axes))
    return max([best, *points], key=lambda point: study.merit(point, study.last))


def run_search(strategy: str, study: Study, refine: bool, margin: float = 0.0) -> Point:
    """The best settings, all of them given; of those that are as good, the ones nearest to the defaults."""
    found = smart(study, refine) if strategy == "smart" else grid(study)
    return study.modest(study.complete(found), margin)
