"""Trials find known optima, keep to the budget and prefer the defaults on ties."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable

import pytest

from nearmt.errors import ConfigError
from nearmt.research.tuning.space import Axis, Point, Value
from nearmt.research.tuning.trials import Study, halve, run_trials

WEIGHTS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
TEMPERATURES = (1.0, 2.0, 3.5, 5.0, 7.0, 10.0, 14.0, 20.0)
QUARTERS = (0.25, 0.5, 1.0)


def axes_of(*names: str) -> list[Axis]:
    known = {
        "lambda": Axis("lambda", WEIGHTS, 0.5),
        "temperature": Axis("temperature", TEMPERATURES, 5.0),
        "cache-lambda": Axis("cache-lambda", WEIGHTS, 0.4),
        "cache-temperature": Axis("cache-temperature", TEMPERATURES, 3.5),
        "schedule": Axis("schedule", ("every:2", "geometric:2:8", "geometric:2:16"), "geometric:2:16"),
    }
    return [known[name] for name in names]


FOUR = ("lambda", "temperature", "cache-lambda", "cache-temperature")


def hill(top: Point, axes: list[Axis], noise: float = 0.0) -> Callable[[Point, int], float]:
    """A score that falls off from one point, with interacting settings; the first slices have noise."""

    def score(point: Point, slice_number: int) -> float:
        steps = [axis.position(point[axis.name]) - axis.position(top[axis.name]) for axis in axes]
        drop = sum(step**2 for step in steps) + 0.5 * steps[0] * steps[-1]
        seed = f"{sorted(point.items())}{slice_number}"
        error = random.Random(seed).uniform(-noise, noise) if slice_number < 2 else 0.0
        return round(40 - drop + error, 2)

    return score


def study_of(axes: list[Axis], objective: Callable[[Point, int], float], budget: float = 36, **more: object) -> Study:
    defaults: Point = {axis.name: axis.default for axis in axes}
    return Study(objective, axes, budget, QUARTERS, lambda point: {**defaults, **point}, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(12))
def test_smart_finds_the_optimum_within_the_papers_budget(seed: int) -> None:
    axes = axes_of(*FOUR)
    top: Point = {axis.name: random.Random(f"{seed}{axis.name}").choice(axis.values) for axis in axes}
    study = study_of(axes, hill(top, axes, noise=0.4))
    assert run_trials("smart", study, refine=False) == top
    assert study.spent <= 36


@pytest.mark.parametrize("names", [("lambda",), ("lambda", "temperature"), ("lambda", "schedule")], ids=len)
def test_grid_and_smart_agree(names: tuple[str, ...]) -> None:
    axes = axes_of(*names)
    for values in itertools.product(*(axis.values for axis in axes)):
        top = dict(zip(names, values, strict=True))
        exhaustive = study_of(axes, hill(top, axes), budget=100)
        assert run_trials("grid", exhaustive, refine=False) == top
        assert run_trials("smart", study_of(axes, hill(top, axes), budget=100), refine=False) == top
        assert exhaustive.spent == pytest.approx(len({*itertools.product(*(a.values for a in axes))}) - 1)


def test_refining_finds_values_in_between() -> None:
    axes = axes_of("lambda", "temperature")
    top: Point = {"lambda": 0.65, "temperature": 8.5}
    assert run_trials("smart", study_of(axes, hill(top, axes)), refine=True) == top
    assert run_trials("smart", study_of(axes, hill(top, axes)), refine=False) != top


@pytest.mark.parametrize("budget", [1, 2, 3, 5, 8, 13, 36])
@pytest.mark.parametrize("shares", [(1.0,), (0.5, 1.0), QUARTERS])
def test_budget_is_kept_and_no_trial_is_repeated(budget: int, shares: tuple[float, ...]) -> None:
    axes = axes_of(*FOUR)
    calls: Counter[tuple[object, ...]] = Counter()
    top: Point = {"lambda": 0.7, "temperature": 7.0, "cache-lambda": 0.6, "cache-temperature": 2.0}
    cost = 0.0

    def objective(point: Point, slice_number: int) -> float:
        nonlocal cost
        calls[*sorted(point.items()), slice_number] += 1
        cost += shares[slice_number] - (shares[slice_number - 1] if slice_number else 0.0)
        return hill(top, axes)(point, slice_number)

    study = study_of(axes, objective, budget)
    study.shares = shares
    best = run_trials("smart", study, refine=True)
    assert max(calls.values()) == 1
    assert study.spent <= budget + 1e-6 and study.spent == pytest.approx(cost - 1)  # the defaults are free
    assert study.score(best, study.last) == max(trial.score for trial in study.trials if trial.share == 1)
    assert len([trial for trial in study.trials if trial.share == 1]) >= 2  # a budget of 1 tries one point


def test_more_budget_is_never_worse() -> None:
    axes = axes_of(*FOUR)
    top: Point = {"lambda": 0.8, "temperature": 1.0, "cache-lambda": 0.2, "cache-temperature": 20.0}
    scores = []
    for budget in (1, 4, 9, 18, 36):
        study = study_of(axes, hill(top, axes), budget)
        scores.append(study.score(run_trials("smart", study, refine=False), study.last))
    assert scores == sorted(scores) and scores[-1] == 40


@pytest.mark.parametrize("strategy", ["smart", "grid"])
def test_defaults_win_ties(strategy: str) -> None:
    axes = axes_of("lambda", "temperature")
    study = study_of(axes, lambda point, slice_number: 12.0, budget=100)
    assert run_trials(strategy, study, refine=True) == {"lambda": 0.5, "temperature": 5.0}


@pytest.mark.parametrize("strategy", ["smart", "grid"])
def test_points_nearest_to_the_defaults_win_ties(strategy: str) -> None:
    axes = axes_of("lambda", "temperature")

    def plateau(point: Point, slice_number: int) -> float:
        return 2.0 if float(point["lambda"]) > 0.55 else 1.0

    study = study_of(axes, plateau, budget=100)
    assert run_trials(strategy, study, refine=False) == {"lambda": 0.6, "temperature": 5.0}


def test_halving_keeps_the_better_half() -> None:
    axis = axes_of("lambda")
    calls: list[tuple[Value, int]] = []

    def objective(point: Point, slice_number: int) -> float:
        calls.append((point["lambda"], slice_number))
        return float(point["lambda"])

    finalists = halve(study_of(axis, objective), [{"lambda": weight} for weight in WEIGHTS])
    assert [point["lambda"] for point in finalists] == [0.8, 0.7]
    assert [weight for weight, number in calls if number == 1] == [0.8, 0.7, 0.6, 0.5]
    assert [weight for weight, number in calls if number == 2] == [0.8, 0.7]


def test_dependent_setting_follows_until_it_is_tuned() -> None:
    """The default weight of the cache is lambda minus 0.1."""
    axes = axes_of("lambda", "cache-lambda")

    def complete(point: Point) -> Point:
        weight = point.get("lambda", 0.5)
        return {"lambda": weight, "cache-lambda": point.get("cache-lambda", round(float(weight) - 0.1, 2))}

    seen: list[Point] = []

    def objective(point: Point, slice_number: int) -> float:
        seen.append(point)
        return -abs(float(point["lambda"]) - 0.8) - abs(float(point["cache-lambda"]) - 0.7)

    best = run_trials("smart", Study(objective, axes, 36, QUARTERS, complete), refine=False)
    assert best == {"lambda": 0.8, "cache-lambda": 0.7}
    first = seen[:9]
    assert all(point["cache-lambda"] == round(float(point["lambda"]) - 0.1, 2) for point in first)


def test_grid_larger_than_the_budget_is_refused() -> None:
    study = study_of(axes_of(*FOUR), lambda point, slice_number: 0.0)
    with pytest.raises(ConfigError, match=r"the grid has 3,136 points.*--budget 3136.*--strategy smart"):
        run_trials("grid", study, refine=False)
    assert not study.trials


def test_trials_are_deterministic() -> None:
    axes = axes_of(*FOUR)
    top: Point = {"lambda": 0.3, "temperature": 14.0, "cache-lambda": 0.5, "cache-temperature": 7.0}
    runs = [study_of(axes, hill(top, axes, noise=1.0)) for _ in range(2)]
    for study in runs:
        run_trials("smart", study, refine=True)
    assert runs[0].trials == runs[1].trials


def test_points_nearest_to_the_defaults_win_within_the_margin() -> None:
    scores = {0.5: 30.0, 0.6: 30.4, 0.7: 30.6, 0.8: 30.5}
    for margin, expected in ((0.0, 0.7), (0.15, 0.7), (0.25, 0.6), (0.55, 0.6), (0.65, 0.5), (9.0, 0.5)):
        study = study_of(axes_of("lambda"), lambda point, _: scores.get(float(point["lambda"]), 20.0))
        assert run_trials("grid", study, refine=False, margin=margin) == {"lambda": expected}
    assert run_trials("smart", study, refine=False, margin=9.0) == {"lambda": 0.5}


def test_margin_considers_only_trials_on_the_whole_dev_set() -> None:
    """0.6 scores well on the first quarter only."""

    def score(point: Point, slice_number: int) -> float:
        return {0.5: 10.0, 0.6: 29.9 if slice_number == 0 else 0.0, 0.7: 30.0}.get(float(point["lambda"]), 5.0)

    study = study_of(axes_of("lambda"), score)
    assert run_trials("smart", study, refine=False, margin=1.0) == {"lambda": 0.7}
