"""Strategies of trials over a space of settings: a full grid, or coordinate ascent with successive halving."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from nearmt.errors import ConfigError
from nearmt.research.tuning.space import Axis, Point

#: Scores settings on the dev set up to and including a slice.
Objective: TypeAlias = Callable[[Point, int], float]
#: Fills in the settings that are missing.
Complete: TypeAlias = Callable[[Point], Point]
#: Values tried on either side of the best one; calibrated defaults are not far off.
_REACH = 2
# For sums of shares, which are not exact.
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Trial:
    """The score of settings on the first slices of the dev set."""

    settings: Point
    share: float  # of the dev set
    score: float


@dataclass
class Study:
    """The trials of one tuning run, and their cost: 1 is one translation of the dev set."""

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
        """Number of the last slice."""
        return len(self.shares) - 1

    def score(self, point: Point, slice_number: int, *, free: bool = False) -> float:
        """Return the score of a point, running a trial if needed; `free` trials do not count against the budget."""
        settings = self.complete(point)
        scores = self._known.setdefault(_key(settings), [])
        while len(scores) <= slice_number:
            cost = 0.0 if free else self._cost(len(scores) - 1, len(scores))
            scores.append(self.objective(settings, len(scores)))
            self.spent += cost
            self.trials.append(Trial(settings, self.shares[len(scores) - 1], scores[-1]))
        return scores[slice_number]

    def rank(self, point: Point, slice_number: int) -> tuple[float, float]:
        """Return the sort key of a point: its score, then its nearness to the defaults."""
        settings = self.complete(point)
        return self.score(point, slice_number), -sum(axis.distance(settings[axis.name]) for axis in self.axes)

    def nearest_to_defaults(self, best: Point, margin: float) -> Point:
        """Return the settings nearest to the defaults among those that score within `margin` of the best.

        On a dev set of some hundred sentences, smaller differences are mostly chance.
        """
        bound = self.score(best, self.last) - margin
        equals = [t.settings for t in self.trials if t.share == self.shares[-1] and t.score >= bound]
        return min(equals, key=lambda point: (-self.rank(point, self.last)[1], -self.score(point, self.last)))

    def affordable(self, points: list[Point], turns: int) -> list[Point]:
        """Return as many of the first points as an equal share of the remaining budget allows for this turn."""
        left = self.budget - self.spent
        # The minimum is one point on the whole dev set.
        share = min(left, max(1.0, left / turns))
        while points and self._halving_cost(points) > share + _TOLERANCE:
            points = points[:-1]
        return points

    def _halving_cost(self, points: list[Point]) -> float:
        """Upper bound of the cost of `halve`."""
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


def halve(study: Study, points: list[Point]) -> list[Point]:
    """Successive halving: keep the better half of the points after each slice; return those that finish."""
    for slice_number in range(len(study.shares)):
        ranked = sorted(points, key=lambda point: study.rank(point, slice_number), reverse=True)
        points = ranked if slice_number == study.last else ranked[: math.ceil(len(ranked) / 2)]
    return points


def smart(study: Study, refine: bool) -> Point:
    """Coordinate ascent from the defaults, one setting at a time, until no gain or no budget is left.

    Each round tries values near the best ones; with `refine`, the last rounds try values between them.
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
        points = [{**best, axis.name: value} for value in axis.nearby(now, _REACH)]
        finalists = halve(study, study.affordable(points, len(axes) - turn))
        # `max` keeps the first of equal points, which is the present best.
        best = max([best, *finalists], key=lambda point: study.rank(point, study.last))
    return best


def grid(study: Study) -> Point:
    """Try all points of the space, those nearest to the defaults first."""
    count = math.prod(len(axis.values) for axis in study.axes)
    if count > study.budget + _TOLERANCE:
        raise ConfigError(
            f"the grid has {count:,} points, more than the budget of {study.budget:g}; "
            f"give --budget {count}, fewer settings to tune, or --strategy smart"
        )
    best: Point = {}
    study.score(best, study.last, free=True)
    names = [axis.name for axis in study.axes]
    points = [dict(zip(names, values, strict=True)) for values in itertools.product(*(a.values for a in study.axes))]
    points.sort(key=lambda point: sum(axis.distance(point[axis.name]) for axis in study.axes))
    return max([best, *points], key=lambda point: study.rank(point, study.last))


def run_trials(strategy: str, study: Study, refine: bool, margin: float = 0.0) -> Point:
    """Run a strategy and return the complete best settings; ties go to those nearest to the defaults."""
    found = smart(study, refine) if strategy == "smart" else grid(study)
    return study.nearest_to_defaults(study.complete(found), margin)
