"""A lock that threads get in the order in which they asked."""

from __future__ import annotations

import threading

import pytest

from nearmt.serve.errors import Busy
from nearmt.serve.turns import Turns


def test_threads_get_it_in_order() -> None:
    turns, order = Turns(), list[int]()
    asked = [threading.Event() for _ in range(4)]

    def wait(number: int) -> None:
        asked[number].set()
        with turns.held("it", 30):
            order.append(number)

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(4)]
    with turns.held("it", 30):
        for number, thread in enumerate(threads):
            thread.start()
            asked[number].wait(30)
            while len(turns._waiting) < number + 2:
                pass
    for thread in threads:
        thread.join(30)
    assert order == [0, 1, 2, 3]


def test_who_waits_too_long_is_told_and_forgotten() -> None:
    turns = Turns()
    with turns.held("it", 30), pytest.raises(Busy, match="memory 'a' is being changed"), turns.held("memory 'a'", 0.01):
        pass
    with turns.held("it", 0.01):
        pass


def test_an_error_frees_it() -> None:
    turns = Turns()
    with pytest.raises(ValueError, match="no"), turns.held("it", 1):
        raise ValueError("no")
    with turns.held("it", 0.01):
        pass
