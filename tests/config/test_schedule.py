"""When to search: equation 6 and the fixed interval."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearmt.config.schedule import EverySchedule, GeometricSchedule, parse_schedule, search_steps
from nearmt.errors import ConfigError


def exact_interval(i_min: int, i_max: int, source_length: int, time: int) -> int:
    """Equation 6 without rounding: the largest whole i <= i_max with i <= i_min * 2 ** (p / q)."""
    exponent = Fraction(i_max, 2 * source_length) * time
    p, q = exponent.numerator, exponent.denominator
    if p >= q * i_max.bit_length():  # 2 ** exponent alone exceeds i_max
        return i_max
    return max(i for i in range(i_min, i_max + 1) if i**q <= i_min**q * 2**p)


def test_the_example_of_the_paper() -> None:
    steps = search_steps(GeometricSchedule(2, 16), source_length=20, max_steps=60)
    assert list(steps) == [1, 3, 7, 20, 36, 52]
    # 2 * 2 ** 0.4 = 2.6, 2 * 2 ** 1.2 = 4.6, 2 * 2 ** 2.8 = 13.9, then 16.
    assert list(steps.values()) == [2, 4, 13, 16, 16, 16]


@pytest.mark.parametrize(
    ("source_length", "expected"),
    [
        (1, [1, 9, 17]),  # the first interval is i_max already
        (4, [1, 5, 13]),  # 2 * 2 ** 1 = 4, then 8
        (9, [1, 3, 8, 16]),  # 2 * 2 ** (4/9) = 2.7, 2 * 2 ** (12/9) = 5.04, then 8
        (100, [1, 3, 5, 7, 9, 11, 13, 15, 18]),  # 2 * 2 ** 0.52 = 2.9 at step 13, 2 * 2 ** 0.6 = 3.03 at 15
    ],
)
def test_geometric_by_hand(source_length: int, expected: list[int]) -> None:
    assert list(search_steps(GeometricSchedule(2, 8), source_length, 18)) == expected


def test_every() -> None:
    assert search_steps(EverySchedule(6), source_length=3, max_steps=20) == {1: 6, 7: 6, 13: 6, 19: 6}
    assert list(search_steps(EverySchedule(1), source_length=3, max_steps=4)) == [1, 2, 3, 4]


def test_a_short_source_does_not_overflow() -> None:
    schedule = GeometricSchedule(2, 32)
    assert [schedule.interval(time, 1) for time in (1, 64, 65, 1000, 10**6)] == [32] * 5
    assert list(search_steps(schedule, 1, 1000)) == list(range(1, 1001, 32))
    assert schedule.interval(1, 0) == 32  # an empty source


@pytest.mark.parametrize("text", ["every:6", "geometric:2:16", "every:1", "geometric:3:3"])
def test_parsing_and_writing(text: str) -> None:
    assert str(parse_schedule(text)) == text


def test_parsing_finds_the_kind() -> None:
    assert parse_schedule("every:6") == EverySchedule(6)
    assert parse_schedule("geometric:2:16") == GeometricSchedule(2, 16)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "every",
        "every:",
        "every:x",
        "every:0",
        "every:-3",
        "every:2.5",
        "every:2:3",
        "geometric",
        "geometric:2",
        "geometric:2:16:3",
        "geometric:16:2",
        "geometric:0:4",
        "geometric:two:4",
        "never:3",
        "6",
    ],
)
def test_bad_schedules_are_config_errors_that_name_them(text: str) -> None:
    with pytest.raises(ConfigError, match="schedule = "):
        parse_schedule(text)


limits = st.tuples(st.integers(1, 64), st.integers(1, 64)).map(sorted)


@settings(deadline=None)
@given(limits=limits, source_length=st.integers(1, 512), max_steps=st.integers(1, 400))
def test_intervals_stay_within_their_limits_and_never_shrink(
    limits: list[int], source_length: int, max_steps: int
) -> None:
    i_min, i_max = limits
    steps = search_steps(GeometricSchedule(i_min, i_max), source_length, max_steps)
    times, intervals = list(steps), list(steps.values())
    assert times[0] == 1
    assert all(i_min <= interval <= i_max for interval in intervals)
    assert intervals == sorted(intervals)
    assert [later - time for time, later in pairwise(times)] == intervals[:-1]
    assert times[-1] <= max_steps < times[-1] + intervals[-1]


@settings(deadline=None)
@given(limits=limits, source_length=st.integers(1, 48), time=st.integers(1, 200))
def test_equation_6_exactly(limits: list[int], source_length: int, time: int) -> None:
    i_min, i_max = limits
    assert GeometricSchedule(i_min, i_max).interval(time, source_length) == exact_interval(
        i_min, i_max, source_length, time
    )


@pytest.mark.parametrize(("i_min", "i_max", "source_length", "time"), [(1, 2, 49, 49), (1, 4, 98, 49), (2, 8, 392, 98)])
def test_equation_6_where_the_exponent_is_whole(i_min: int, i_max: int, source_length: int, time: int) -> None:
    """All three are steps at which such a sentence searches."""
    schedule = GeometricSchedule(i_min, i_max)
    assert time in search_steps(schedule, source_length, time)
    assert schedule.interval(time, source_length) == exact_interval(i_min, i_max, source_length, time)
