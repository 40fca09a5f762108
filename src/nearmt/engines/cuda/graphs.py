"""CUDA graphs: a function is captured at its second call with the same shapes and replayed from then on."""

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

from nearmt.engines.cuda.sizes import padded_size
from nearmt.errors import NearmtWarning
from nearmt.timing import unheard

Function = Callable[..., tuple[Tensor, ...]]
Kept = TypeVar("Kept")


def current(device: torch.device) -> AbstractContextManager[object]:
    """Make a GPU the current device of this thread; nothing on a CPU."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


class CapturedGraph:
    """A captured function. A replay reads and writes the same memory, and overwrites the earlier results."""

    def __init__(self, function: Function, like: tuple[Tensor, ...], pool: Any) -> None:
        """`like` is what an earlier call returned: libraries initialise at their first call, which cannot be captured.

        Graphs that share the memory `pool` overwrite each other's temporaries, so results are copied out of it.
        """
        self._outputs = tuple(torch.empty_like(part) for part in like)
        self._graph: Any = torch.cuda.CUDAGraph()
        capture = torch.cuda.graph(self._graph, pool=pool, capture_error_mode="thread_local")
        with unheard(), _no_garbage_collection(), capture:
            for mine, found in zip(self._outputs, function(), strict=True):
                mine.copy_(found)

    def replay(self) -> tuple[Tensor, ...]:
        self._graph.replay()
        return self._outputs


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Keep the garbage collector from freeing other CUDA graphs and events, which would invalidate a capture."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def capture(function: Function, like: tuple[Tensor, ...], pool: Any) -> CapturedGraph | None:
    """A captured graph, or None where the capture fails: then the function is called every time, which is slower."""
    try:
        return CapturedGraph(function, like, pool)
    except RuntimeError as error:  # CUDA's errors are
        torch.cuda.synchronize()  # raises if more than the capture is broken
        warnings.warn(f"a CUDA graph could not be captured ({_first_line(error)})", NearmtWarning, stacklevel=3)
        return None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


@dataclass
class _Known:
    """A function with its static inputs, the results of its first call and, from the second on, its graph."""

    inputs: list[Tensor]
    called: bool = False
    outputs: tuple[Tensor, ...] = ()
    graph: CapturedGraph | None = None
    #: A capture failed.
    uncapturable: bool = False


class GraphRunner:
    """Calls functions of tensors whose work depends on nothing but the tensors' shapes.

    A function must read and write only its inputs and memory that stays in place, must not synchronise, and must be
    idempotent. Its results are overwritten by the next call. On a CPU functions are just called.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._known: dict[Hashable, _Known] = {}
        #: Invalid graphs whose last replay may still run.
        self._retired: list[CapturedGraph] = []
        self._pool: Any = None

    def __call__(
        self, name: Hashable, function: Function, *inputs: Tensor, slots: int | None = None
    ) -> tuple[Tensor, ...]:
        """`name` identifies the function and all that it depends on besides its inputs, which may be on the host.

        With `slots`, the first dimension of inputs and outputs has this many equal parts; it is padded to one of a few
        captured sizes, and the results are cut.
        """
        if self._device.type != "cuda":
            return function(*inputs)
        many = None if slots is None else padded_size(slots)
        shapes = [_resized(part.shape, slots, many) for part in inputs]
        key = name, tuple((shape, part.dtype) for shape, part in zip(shapes, inputs, strict=True))
        known = self._known.get(key)
        if known is None:
            static = [
                torch.zeros(shape, dtype=part.dtype, device=self._device)
                for shape, part in zip(shapes, inputs, strict=True)
            ]
            known = self._known[key] = _Known(static)
        whole = many == slots
        for part, given in zip(known.inputs, inputs, strict=True):
            (part if whole else part[: len(given)]).copy_(given, non_blocking=True)
        found = self._run(known, function)
        return found if whole else tuple(part[: _resized(part.shape, many, slots)[0]] for part in found)

    def _run(self, known: _Known, function: Function) -> tuple[Tensor, ...]:
        if not known.called or known.uncapturable:
            known.outputs, known.called = function(*known.inputs), True
            return known.outputs
        if known.graph is None:
            if self._pool is None:
                self._pool = torch.cuda.graph_pool_handle()
            known.graph = capture(lambda: function(*known.inputs), known.outputs, self._pool)
            self._retired = []  # a capture synchronises: none of them runs any more
            if known.graph is None:
                known.uncapturable = True
                return self._run(known, function)
        return known.graph.replay()

    def invalidate(self) -> None:
        """Memory was reallocated: captured graphs refer to freed addresses."""
        for known in self._known.values():
            if known.graph is not None:
                self._retired.append(known.graph)
                known.graph = None


def _resized(shape: torch.Size, slots: int | None, wanted: int | None) -> torch.Size:
    """The shape with another number of slots in its first dimension."""
    if slots is None or wanted is None:
        return shape
    return torch.Size([shape[0] // slots * wanted, *shape[1:]])


class SideStream:
    """A second CUDA stream for work that later work need not wait for. On a CPU everything runs in order.

    Two graphs that share a memory pool must not replay concurrently: graphs of this stream have a runner of their own.
    """

    def __init__(self, device: torch.device) -> None:
        self.graphs = GraphRunner(device)
        on_gpu = device.type == "cuda"
        self._stream = torch.cuda.Stream(device) if on_gpu else None
        #: Where the main stream was when work began here; where this stream was at the mark and at the end.
        self._begun, self._marked, self._ended = [torch.cuda.Event() if on_gpu else None for _ in range(3)]
        #: The main stream. Asking torch for it is slow: it is asked when work begins here, and remembered.
        self._main: torch.cuda.Stream | None = None
        #: Whether work was issued since `join`.
        self._busy = False

    @contextmanager
    def working(self) -> Iterator[None]:
        """Issue work here: it runs after everything issued before, concurrently with what follows."""
        if self._stream is None or self._begun is None:
            yield
            return
        self._main = torch.cuda.current_stream(self._stream.device)
        self._begun.record(self._main)
        self._stream.wait_event(self._begun)
        self._busy = True
        torch.cuda.set_stream(self._stream)
        try:
            yield
        finally:
            torch.cuda.set_stream(self._main)

    def mark(self) -> None:
        """Mark the point that `wait` waits for; called while working."""
        if self._marked is not None:
            self._marked.record(self._stream)

    def wait(self) -> None:
        """The main stream continues after the mark."""
        if self._marked is not None:
            self._marked.wait(self._main)

    def join(self) -> None:
        """The caller's stream continues after all work issued here."""
        if self._busy and self._ended is not None:
            self._ended.record(self._stream)
            self._ended.wait()  # on the caller's stream, which may be another one than the main stream
            self._busy = False


class Pool(Generic[Kept]):
    """Objects with buffers and graphs that requests re-use. A request has one of its own while it lives."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: list[tuple[Kept, weakref.ref[object]]] = []

    def take(self, owner: object, make: Callable[[], Kept]) -> Kept:
        """An object that no other living owner has."""
        with self._lock:
            free = next((kept for kept, other in self._kept if other() is None), None)
            taken = make() if free is None else free
            others = [(kept, other) for kept, other in self._kept if kept is not taken]
            self._kept = [*others, (taken, weakref.ref(owner))]
            return taken
