"""Side by side is the same work as one after the other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch
from torch import Tensor

from nearmt.threads import check_wanted, in_order, scripted, side_by_side
from nearmt.timing import Timings, timed


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_results_come_with_their_numbers() -> None:
    found = dict(side_by_side([partial(pow, number, 2) for number in range(20)]))
    assert found == {number: number * number for number in range(20)}


@pytest.mark.usefixtures("two_threads")
def test_two_tasks_run_at_the_same_time_on_one_thread_each() -> None:
    both = threading.Barrier(2, timeout=60)

    def task() -> int:
        both.wait()  # returns only if another task has come here too
        return torch.get_num_threads()

    assert sorted(side_by_side([task, task])) == [(0, 1), (1, 1)]
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_timers_hear_what_workers_do() -> None:
    def task() -> None:
        with timed("work"):
            pass

    timings = Timings()
    with timings.active():
        list(side_by_side([task] * 5))
    assert timings.calls["work"] == 5


@pytest.mark.usefixtures("two_threads")
def test_an_error_ends_the_work_and_leaves_the_threads_as_they_were() -> None:
    begun = []

    def task(number: int) -> None:
        begun.append(number)
        if number == 1:
            raise ValueError("one")
        time.sleep(0.01)  # the others together last long enough for the error to be heard

    with pytest.raises(ValueError, match="one"):
        list(side_by_side([partial(task, number) for number in range(1000)]))
    assert len(begun) < 1000 and torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_abandoned_tasks_end_at_their_next_step() -> None:
    """A caller that stops early does not wait for the rest of a task."""
    steps, begun = [0], threading.Event()

    def endless() -> None:
        while True:
            steps[0] += 1
            begun.set()
            check_wanted()

    def failing() -> None:
        assert begun.wait(60)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(side_by_side([endless, failing]))
    after = steps[0]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("nearmt_")]
    assert steps[0] == after
    check_wanted()  # nothing to end here


def test_one_thread_takes_one_task_after_the_other() -> None:
    torch.set_num_threads(1)
    order: list[int] = []
    found = side_by_side([partial(order.append, number) for number in range(3)])
    next(found)
    assert order == [0]


def test_a_scripted_function_is_the_same_function() -> None:
    def doubled(value: Tensor, times: int) -> Tensor:
        for _ in range(times):
            value = value + value
        return value

    compiled = scripted(doubled)
    assert isinstance(compiled, torch.jit.ScriptFunction)
    assert compiled(torch.ones(2), 3).tolist() == doubled(torch.ones(2), 3).tolist() == [8.0, 8.0]


def test_what_cannot_be_compiled_runs_as_it_is() -> None:
    def spoken(value: object) -> str:
        return f"{value!r:>4}"

    assert scripted(spoken) is spoken
    assert scripted(spoken)(1) == "   1"


@pytest.mark.usefixtures("two_threads")
def test_results_come_in_order_and_tasks_are_taken_as_they_are_needed() -> None:
    taken = 0

    def tasks() -> Iterator[Callable[[], int]]:
        nonlocal taken
        for number in range(50):
            taken += 1

            def task(number: int = number) -> int:
                time.sleep(0.002 * (number % 3))
                return number

            yield task

    for number, found in enumerate(in_order(tasks(), ahead=5)):
        assert found == number and taken <= number + 5
    assert taken == 50 and torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_tasks_in_order_run_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=60)
    assert len(list(in_order([both.wait] * 6, ahead=3))) == 6


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("last", [1, 40])
def test_an_error_of_a_task_in_order_comes_in_its_turn(last: int) -> None:
    def task(number: int) -> int:
        if number == last:
            raise ValueError("last")
        return number

    found: list[int] = []

    def collect() -> None:
        for number in in_order((partial(task, number) for number in range(100)), ahead=4):
            found.append(number)

    with pytest.raises(ValueError, match="last"):
        collect()
    assert found == list(range(last)) and torch.get_num_threads() == 2
