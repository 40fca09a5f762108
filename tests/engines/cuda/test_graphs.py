"""What requests leave to those that follow, and functions that are called where nothing can be recorded."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch
from torch import Tensor

from nearmt.engines.cuda import graphs
from nearmt.engines.cuda.graphs import Pool, Recorder, recorded_size
from nearmt.errors import NearmtWarning


class Owner:
    """A request."""


def test_nobody_has_what_another_has() -> None:
    pool, store, owners = Pool[list[int]](), object(), [Owner() for _ in range(4)]
    taken = [pool.take(owner, store, list) for owner in owners]
    assert len({id(one) for one in taken}) == 4


def test_what_one_leaves_the_next_one_has() -> None:
    pool, store, stays, leaves = Pool[list[int]](), object(), Owner(), Owner()
    kept, left = pool.take(stays, store, list), pool.take(leaves, store, list)
    left.append(7)
    del leaves
    gc.collect()
    follower = Owner()
    assert pool.take(follower, store, list) is left
    another = pool.take(stranger := Owner(), store, list)
    assert another is not left and another is not kept
    del stranger, follower


def test_an_owner_may_take_two() -> None:
    """It may be made anew while it lives: what it has is not given on."""
    pool, store, owner = Pool[list[int]](), object(), Owner()
    assert pool.take(owner, store, list) is not pool.take(owner, store, list)


def test_what_was_made_for_something_else_is_forgotten() -> None:
    pool, old, new = Pool[list[int]](), object(), object()
    first = pool.take(owner := Owner(), old, list)
    del owner
    gc.collect()
    second = pool.take(owner := Owner(), new, list)
    assert second is not first
    del owner
    gc.collect()
    # Not even for the one that it was made for.
    assert pool.take(Owner(), old, list) is not first


def test_threads_do_not_share() -> None:
    pool, store, together = Pool[list[int]](), object(), Barrier(8)

    def take(owner: Owner) -> list[int]:
        together.wait()
        return pool.take(owner, store, list)

    owners = [Owner() for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        taken = list(threads.map(take, owners))
    assert len({id(one) for one in taken}) == 8


def test_on_a_cpu_functions_are_called() -> None:
    record, calls = Recorder(torch.device("cpu")), list[int]()

    def double(number_X: Tensor, more_X: Tensor) -> tuple[Tensor, ...]:
        calls.append(len(number_X))
        return 2 * number_X, more_X

    first = record("double", double, torch.arange(3), torch.zeros(1))
    again = record("double", double, torch.arange(3) + 1, torch.ones(1))
    assert [part.tolist() for part in first] == [[0, 2, 4], [0.0]]
    assert [part.tolist() for part in again] == [[2, 4, 6], [1.0]]
    record.forget()
    assert record("double", double, torch.arange(2), torch.ones(1))[0].tolist() == [0, 2]
    assert calls == [3, 3, 2]


def test_recordings_come_in_few_sizes() -> None:
    expected = [1, 4, 6, 8, 48, 64, 64, 128, 128, 192]
    assert [recorded_size(count) for count in (1, 4, 5, 7, 48, 49, 64, 65, 128, 129)] == expected


def test_a_capture_that_fails_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where another thread or the garbage collector freed what a capture must not see freed."""

    class Broken:
        def __init__(self, *_: object) -> None:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture\nmore")

    monkeypatch.setattr(graphs, "Recording", Broken)
    monkeypatch.setattr("torch.cuda.synchronize", lambda: None)
    monkeypatch.setattr("torch.cuda.graph_pool_handle", lambda: None)
    record = Recorder(torch.device("cpu"))
    record._device = torch.device("cuda")
    real_zeros = torch.zeros
    monkeypatch.setattr("torch.zeros", lambda shape, dtype, device: real_zeros(shape, dtype=dtype))
    calls: list[int] = []

    def double(part: Tensor) -> tuple[Tensor, ...]:
        calls.append(1)
        return (2 * part,)

    with pytest.warns(NearmtWarning, match="a CUDA graph could not be captured") as told:
        found = [record("double", double, torch.tensor([value]))[0].item() for value in range(4)]
    assert found == [0, 2, 4, 6] and len(calls) == 4 and len(told) == 1 and "\n" not in str(told[0].message)


def test_a_capture_keeps_the_collector_away() -> None:
    with graphs._without_collection():
        assert not gc.isenabled()
    assert gc.isenabled()
