"""Buffers that requests re-use, and functions that are called where nothing can be captured."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
import torch
from torch import Tensor

from nearmt.engines.cuda import graphs
from nearmt.engines.cuda.graphs import GraphRunner, Pool, SideStream
from nearmt.errors import NearmtWarning

CPU = torch.device("cpu")


class Owner:
    """A request."""


# Pools.


def test_requests_do_not_share() -> None:
    pool, owners = Pool[list[int]](), [Owner() for _ in range(4)]
    taken = [pool.take(owner, list) for owner in owners]
    assert len({id(part) for part in taken}) == 4


def test_a_later_request_re_uses_the_buffers_of_an_ended_one() -> None:
    pool, stays, ends = Pool[list[int]](), Owner(), Owner()
    kept, freed = pool.take(stays, list), pool.take(ends, list)
    freed.append(7)
    del ends
    gc.collect()
    follower, stranger = Owner(), Owner()
    assert pool.take(follower, list) is freed
    another = pool.take(stranger, list)
    assert another is not freed and another is not kept


def test_an_owner_may_take_twice() -> None:
    """It may be made anew while it lives: what it has is not given to others."""
    pool, owner = Pool[list[int]](), Owner()
    assert pool.take(owner, list) is not pool.take(owner, list)


def test_threads_do_not_share() -> None:
    pool, together = Pool[list[int]](), Barrier(8)

    def take(owner: Owner) -> list[int]:
        together.wait()
        return pool.take(owner, list)

    owners = [Owner() for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        taken = list(threads.map(take, owners))
    assert len({id(part) for part in taken}) == 8


# Functions that are called on a CPU, and captured on a GPU.


def test_on_a_cpu_functions_are_called() -> None:
    run, calls = GraphRunner(CPU), list[int]()

    def double(number_X: Tensor, more_X: Tensor) -> tuple[Tensor, ...]:
        calls.append(len(number_X))
        return 2 * number_X, more_X

    first = run("double", double, torch.arange(3), torch.zeros(1))
    again = run("double", double, torch.arange(3) + 1, torch.ones(1))
    assert [part.tolist() for part in first] == [[0, 2, 4], [0.0]]
    assert [part.tolist() for part in again] == [[2, 4, 6], [1.0]]
    run.invalidate()
    assert run("double", double, torch.arange(2), torch.ones(1))[0].tolist() == [0, 2]
    assert calls == [3, 3, 2]


class Replayed:
    """A captured graph as a GPU would replay it: the same function on the same static inputs."""

    made = 0

    def __init__(self, function: graphs.Function, like: tuple[Tensor, ...], pool: Any) -> None:
        type(self).made += 1
        self._function, self._outputs = function, tuple(torch.empty_like(part) for part in like)

    def replay(self) -> tuple[Tensor, ...]:
        for mine, found in zip(self._outputs, self._function(), strict=True):
            mine.copy_(found)
        return self._outputs


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> GraphRunner:
    """A runner that captures; its tensors are on the CPU."""
    monkeypatch.setattr(graphs, "CapturedGraph", Replayed)
    monkeypatch.setattr(Replayed, "made", 0)
    monkeypatch.setattr("torch.cuda.synchronize", lambda: None)
    monkeypatch.setattr("torch.cuda.graph_pool_handle", lambda: "pool")
    runner, real_zeros = GraphRunner(CPU), torch.zeros
    runner._device = torch.device("cuda")
    monkeypatch.setattr("torch.zeros", lambda shape, dtype, device: real_zeros(shape, dtype=dtype))
    return runner


def double(part: Tensor) -> tuple[Tensor, ...]:
    return (2 * part,)


def test_the_second_call_is_captured_and_replayed(as_on_a_gpu: GraphRunner) -> None:
    found = [as_on_a_gpu("double", double, torch.tensor([value]))[0].item() for value in range(4)]
    assert found == [0, 2, 4, 6] and Replayed.made == 1
    # Another shape, another type and another name each have a graph of their own.
    for given in (torch.tensor([1, 2]), torch.tensor([1.0])):
        for _ in range(3):
            assert torch.equal(as_on_a_gpu("double", double, given)[0], 2 * given)
    for value in range(3):
        assert as_on_a_gpu("again", double, torch.tensor([value]))[0].item() == 2 * value
    assert Replayed.made == 4


def test_inputs_are_padded_to_a_captured_size(as_on_a_gpu: GraphRunner) -> None:
    """5 slots of 2 rows become 6; the results are cut."""
    sizes = list[int]()

    def each(row_B: Tensor, slot_S: Tensor) -> tuple[Tensor, ...]:
        sizes.append(len(slot_S))
        return 2 * row_B, slot_S + 1

    for slots in (5, 6, 5, 5):
        row_B, slot_S = torch.arange(2 * slots), torch.arange(slots)
        rows, numbers = as_on_a_gpu("each", each, row_B, slot_S, slots=slots)
        assert torch.equal(rows, 2 * row_B) and torch.equal(numbers, slot_S + 1)
    assert set(sizes) == {6} and Replayed.made == 1


def test_invalid_graphs_are_captured_anew(as_on_a_gpu: GraphRunner) -> None:
    for value in range(3):
        as_on_a_gpu("double", double, torch.tensor([value]))
    as_on_a_gpu.invalidate()
    as_on_a_gpu.invalidate()  # there is none left to retire
    assert len(as_on_a_gpu._retired) == 1
    assert as_on_a_gpu("double", double, torch.tensor([9]))[0].item() == 18
    assert Replayed.made == 2 and not as_on_a_gpu._retired


def test_where_a_capture_fails_functions_are_called(as_on_a_gpu: GraphRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where another thread or the garbage collector freed something during the capture."""

    class Broken:
        def __init__(self, *_: object) -> None:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture\nmore")

    monkeypatch.setattr(graphs, "CapturedGraph", Broken)
    calls = list[int]()

    def counted(part: Tensor) -> tuple[Tensor, ...]:
        calls.append(1)
        return (2 * part,)

    with pytest.warns(NearmtWarning, match="a CUDA graph could not be captured") as told:
        found = [as_on_a_gpu("double", counted, torch.tensor([value]))[0].item() for value in range(4)]
    assert found == [0, 2, 4, 6] and len(calls) == 4 and len(told) == 1 and "\n" not in str(told[0].message)


def test_a_capture_is_not_interrupted_by_the_garbage_collector() -> None:
    with graphs._no_garbage_collection():
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with graphs._no_garbage_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_on_a_cpu_a_side_stream_runs_in_order() -> None:
    side, done = SideStream(CPU), list[str]()
    with side.working():
        done.append("aside")
        side.mark()
    side.wait()
    done.append("main")
    side.join()
    assert done == ["aside", "main"]


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_there_is_no_current_device_without_a_gpu(device: str) -> None:
    with graphs.current(torch.device(device)):
        assert torch.zeros(1).device == CPU
