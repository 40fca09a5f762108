"""What a function does on a GPU, recorded when it is called again and replayed from then on: one launch for many."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

Function = Callable[..., tuple[Tensor, ...]]
Kept = TypeVar("Kept")

#: Sizes that are worth a recording of their own; beyond, multiples of the last.
_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


def recorded_size(count: int) -> int:
    """One of few sizes that is no smaller, so that few shapes are recorded."""
    return next((size for size in _SIZES if size >= count), -(-count // _SIZES[-1]) * _SIZES[-1])


def current(device: torch.device) -> AbstractContextManager[object]:
    """For a while kernels and recordings are those of this device; there may be several GPUs."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


class Recording:
    """What a function did. It is replayed on the same memory, and its results overwrite the earlier ones."""

    def __init__(self, function: Function, like: tuple[Tensor, ...], memory: Any) -> None:
        """`like` is what it gave before: libraries prepare themselves at the first call, which cannot be recorded.

        All recordings that share `memory` use it for what they need meanwhile, so results are put elsewhere.
        """
        self._outputs = tuple(torch.empty_like(part) for part in like)
        self._graph: Any = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=memory, capture_error_mode="thread_local"):
            for mine, found in zip(self._outputs, function(), strict=True):
                mine.copy_(found)

    def replay(self) -> tuple[Tensor, ...]:
        self._graph.replay()
        return self._outputs


class Recorder:
    """Calls functions of tensors whose work depends on nothing but the tensors' shapes.

    They must read and write nothing else than these and memory that stays where it is, wait for nothing, and be right
    if they are called twice. What they return is overwritten by the next call. On a CPU they are just called.
    """

    def __init__(self) -> None:
        #: What functions gave at their first calls.
        self._first: dict[Hashable, tuple[Tensor, ...]] = {}
        self._recordings: dict[Hashable, tuple[Recording, list[Tensor]]] = {}
        #: Wrong by now, but perhaps not done with what was asked of them last.
        self._retired: list[Recording] = []
        self._memory: Any = None

    def __call__(self, name: Hashable, function: Function, *inputs: Tensor) -> tuple[Tensor, ...]:
        """`name` stands for the function and all that it depends on beside the tensors."""
        if not inputs[0].is_cuda:
            return function(*inputs)
        key = name, tuple((part.shape, part.dtype) for part in inputs)
        if key not in self._first:
            found = self._first[key] = function(*inputs)
            return found
        if key not in self._recordings:
            self._recordings[key] = self._record(function, inputs, self._first[key])
        recording, mine = self._recordings[key]
        for part, given in zip(mine, inputs, strict=True):
            part.copy_(given)
        return recording.replay()

    def _record(
        self, function: Function, inputs: tuple[Tensor, ...], like: tuple[Tensor, ...]
    ) -> tuple[Recording, list[Tensor]]:
        if self._memory is None:
            self._memory = torch.cuda.graph_pool_handle()
        mine = [part.clone() for part in inputs]
        recording = Recording(lambda: function(*mine), like, self._memory)
        self._retired = []  # to record is to wait for all that was asked before
        return recording, mine

    def forget(self) -> None:
        """Memory has moved: what was recorded is wrong."""
        self._retired += [recording for recording, _ in self._recordings.values()]
        self._recordings = {}


class Pool(Generic[Kept]):
    """What requests leave to those that follow. Each has something of its own while it lives."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made_for: object = None
        self._kept: list[tuple[Kept, weakref.ref[object]]] = []

    def take(self, owner: object, made_for: object, make: Callable[[], Kept]) -> Kept:
        """Something that nobody else has; what was made for another object is forgotten."""
        with self._lock:
            if made_for is not self._made_for:
                self._made_for, self._kept = made_for, []
            free = next((kept for kept, other in self._kept if other() is None), None)
            taken = make() if free is None else free
            others = [(kept, other) for kept, other in self._kept if kept is not taken]
            self._kept = [*others, (taken, weakref.ref(owner))]
            return taken
