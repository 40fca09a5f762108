"""What a function does on a GPU, recorded when it is called again and replayed from then on: one launch for many."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from nearmt.errors import NearmtWarning
from nearmt.timing import unheard

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
        capture = torch.cuda.graph(self._graph, pool=memory, capture_error_mode="thread_local")
        with unheard(), _without_collection(), capture:
            for mine, found in zip(self._outputs, function(), strict=True):
                mine.copy_(found)

    def replay(self) -> tuple[Tensor, ...]:
        self._graph.replay()
        return self._outputs


@contextmanager
def _without_collection() -> Iterator[None]:
    """Keep the garbage collector from freeing CUDA graphs and events of others, which would end a capture."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def recording_of(function: Function, like: tuple[Tensor, ...], memory: Any) -> Recording | None:
    """A recording, or None where the capture fails: then the function is called every time, which is slower."""
    try:
        return Recording(function, like, memory)
    except RuntimeError as error:  # CUDA's errors are
        torch.cuda.synchronize()  # raises if more than the capture is broken
        warnings.warn(f"a CUDA graph could not be captured ({_first_line(error)})", NearmtWarning, stacklevel=3)
        return None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


@dataclass
class _Known:
    """A function: where it finds its inputs, what it gave at its first call and, from the second on, what it does."""

    inputs: list[Tensor]
    called: bool = False
    outputs: tuple[Tensor, ...] = ()
    recording: Recording | None = None
    #: Whether a capture failed.
    unrecordable: bool = False


class Recorder:
    """Calls functions of tensors whose work depends on nothing but the tensors' shapes.

    They must read and write nothing else than these and memory that stays where it is, wait for nothing, and be right
    if they are called twice. What they return is overwritten by the next call. On a CPU they are just called.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._known: dict[Hashable, _Known] = {}
        #: Wrong by now, but perhaps not done with what was asked of them last.
        self._retired: list[Recording] = []
        self._memory: Any = None

    def __call__(
        self, name: Hashable, function: Function, *inputs: Tensor, sentences: int | None = None
    ) -> tuple[Tensor, ...]:
        """`name` stands for the function and all that it depends on beside the tensors, which may be on the host.

        Where inputs and outputs are about so many sentences, which stand side by side, others are added to make few
        sizes of many; what is computed for them is left out.
        """
        if self._device.type != "cuda":
            return function(*inputs)
        many = None if sentences is None else recorded_size(sentences)
        shapes = [_resized(part.shape, sentences, many) for part in inputs]
        key = name, tuple((shape, part.dtype) for shape, part in zip(shapes, inputs, strict=True))
        known = self._known.get(key)
        if known is None:
            mine = [
                torch.zeros(shape, dtype=part.dtype, device=self._device)
                for shape, part in zip(shapes, inputs, strict=True)
            ]
            known = self._known[key] = _Known(mine)
        whole = many == sentences
        for part, given in zip(known.inputs, inputs, strict=True):
            (part if whole else part[: len(given)]).copy_(given, non_blocking=True)
        found = self._done(known, function)
        return found if whole else tuple(part[: _resized(part.shape, many, sentences)[0]] for part in found)

    def _done(self, known: _Known, function: Function) -> tuple[Tensor, ...]:
        if not known.called or known.unrecordable:
            known.outputs, known.called = function(*known.inputs), True
            return known.outputs
        if known.recording is None:
            if self._memory is None:
                self._memory = torch.cuda.graph_pool_handle()
            known.recording = recording_of(lambda: function(*known.inputs), known.outputs, self._memory)
            self._retired = []  # to record is to wait for all that was asked before
            if known.recording is None:
                known.unrecordable = True
                return self._done(known, function)
        return known.recording.replay()

    def forget(self) -> None:
        """Memory has moved: what was recorded is wrong."""
        for known in self._known.values():
            if known.recording is not None:
                self._retired.append(known.recording)
                known.recording = None


def _resized(shape: torch.Size, sentences: int | None, wanted: int | None) -> torch.Size:
    """The shape of what is about so many sentences if they were as many as wanted."""
    if sentences is None or wanted is None:
        return shape
    return torch.Size([shape[0] // sentences * wanted, *shape[1:]])


class Beside:
    """Another queue of a GPU, for what need not be done before that which follows it. A CPU does one after the other.

    Two recordings that share memory must not be replayed at once: what is recorded here has a recorder of its own.
    """

    def __init__(self, device: torch.device) -> None:
        self.record = Recorder(device)
        on_gpu = device.type == "cuda"
        self._queue = torch.cuda.Stream(device) if on_gpu else None
        #: How far the other queue was when work was asked for here, and this one at the mark and at the end.
        self._begun, self._reached, self._ended = [torch.cuda.Event() if on_gpu else None for _ in range(3)]
        #: The other queue. To ask torch for it takes long: it is asked when work begins here, and remembered.
        self._other: torch.cuda.Stream | None = None
        #: Whether anything was asked for since `join`.
        self._busy = False

    @contextmanager
    def working(self) -> Iterator[None]:
        """What is asked for here is done after all that was asked for before, and beside what follows."""
        if self._queue is None or self._begun is None:
            yield
            return
        self._other = torch.cuda.current_stream(self._queue.device)
        self._begun.record(self._other)
        self._queue.wait_event(self._begun)
        self._busy = True
        torch.cuda.set_stream(self._queue)
        try:
            yield
        finally:
            torch.cuda.set_stream(self._other)

    def mark(self) -> None:
        """As far as here `wait` waits; to be called while working."""
        if self._reached is not None:
            self._reached.record(self._queue)

    def wait(self) -> None:
        """What follows is done after what was marked."""
        if self._reached is not None:
            self._reached.wait(self._other)

    def join(self) -> None:
        """What follows is done after all that was asked for here."""
        if self._busy and self._ended is not None:
            self._ended.record(self._queue)
            self._ended.wait()  # in the queue of whoever asks, who may be another one than worked here
            self._busy = False


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
