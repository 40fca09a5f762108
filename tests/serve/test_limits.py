"""Limits a minute: a little too early waits, much too early is refused."""

from __future__ import annotations

import pytest

from nearmt.serve.errors import TooLarge, TooMany
from nearmt.serve.keys import Principal
from nearmt.serve.limits import Limits


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def principal(name: str = "ada", requests: int | None = None, characters: int | None = None) -> Principal:
    return Principal(name, None, frozenset({"translate"}), None, requests, characters)


def test_without_limits_nothing_waits() -> None:
    limits = Limits()
    assert limits.request(principal()) == limits.text(principal(), 10**9) == 0


def test_early_requests_wait_and_many_are_refused() -> None:
    clock = Clock()
    limits = Limits(requests=60, patience=3, clock=clock)
    assert [limits.request(principal()) for _ in range(63)] == [0.0] * 60 + [1.0, 2.0, 3.0]
    with pytest.raises(TooMany) as refused:
        limits.request(principal())
    assert refused.value.retry_after == 4
    assert limits.request(principal("other")) == 0
    clock.now = 4.0
    assert limits.request(principal()) == 0


def test_a_refused_request_costs_nothing() -> None:
    clock = Clock()
    limits = Limits(requests=1, patience=0, clock=clock)
    limits.request(principal())
    for _ in range(100):
        with pytest.raises(TooMany):
            limits.request(principal())
    clock.now = 60.0
    assert limits.request(principal()) == 0


def test_the_limit_of_a_key_goes_before_that_of_the_server() -> None:
    limits = Limits(requests=1, patience=0)
    generous = principal(requests=3)
    assert [limits.request(generous) for _ in range(3)] == [0, 0, 0]


def test_characters_are_counted() -> None:
    clock = Clock()
    limits = Limits(characters=600, patience=5, clock=clock)
    assert limits.text(principal(), 600) == 0
    assert limits.text(principal(), 50) == 5.0
    with pytest.raises(TooMany):
        limits.text(principal(), 10)


def test_what_can_never_pass_is_no_matter_of_waiting() -> None:
    with pytest.raises(TooLarge, match="600 a minute"):
        Limits(characters=600).text(principal(), 601)
