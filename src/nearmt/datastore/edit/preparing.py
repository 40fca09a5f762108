"""Pairs prepared for encoding: tokens, words and the lines of files, on threads or in processes of their own.

A GPU takes tokens faster than one process makes them. Processes are ordinary programs that read pairs and write arrays:
they start nothing of the caller's, and end when it ends.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from nearmt.contracts import Pair
from nearmt.datastore.disk.ids import digest_of
from nearmt.datastore.disk.pairs import pair_to_json
from nearmt.datastore.edit.tokens import tokens_of_all
from nearmt.models.codec import TextCodec
from nearmt.models.forced import ForcedPairs
from nearmt.models.ragged import Ragged
from nearmt.timing import timed

#: Blocks that are prepared before processes are started: a small corpus is done sooner without them.
_FEW = 4
#: Blocks that are prepared or waiting, for each process.
_AHEAD = 3
_Pipe: TypeAlias = "Connection[Any, Any]"


@dataclass(frozen=True)
class PreparedPairs:
    """P pairs with what does not need the model."""

    forced: ForcedPairs
    #: Whether the model has as many positions.
    fits_P: np.ndarray
    #: The pairs as JSON, a line each, and the digests of their ids.
    lines: Ragged
    digest_P: np.ndarray

    @classmethod
    def joined(cls, parts: Sequence[PreparedPairs]) -> PreparedPairs:
        """The pairs of several, in their order."""
        return parts[0] if len(parts) == 1 else cls(
            ForcedPairs.joined([part.forced for part in parts]),
            np.concatenate([part.fits_P for part in parts]),
            Ragged.joined([part.lines for part in parts]),
            np.concatenate([part.digest_P for part in parts]),
        )  # fmt: skip


@dataclass(frozen=True)
class Preparation:
    """How pairs are prepared: by this tokenizer, with these marks, for a model with so many positions."""

    codec: TextCodec
    marks: str
    positions: int
    prompt: int

    def __call__(self, pairs: Sequence[Pair]) -> PreparedPairs:
        tokens = tokens_of_all(self.codec, pairs, self.marks)
        forced = ForcedPairs.of(self.codec, [source for source, _ in tokens], [target for _, target in tokens])
        source_P, target_P = forced.source.length_R, forced.target.length_R
        fits_P = (source_P <= self.positions) & (target_P + self.prompt - 1 <= self.positions)
        # Too long: a pair without entries.
        rows = [target if fits else [] for (_, target), fits in zip(tokens, fits_P.tolist(), strict=True)]
        forced = forced if fits_P.all() else replace(forced, target=Ragged.of(rows))
        lines = [json.dumps(pair_to_json(pair), ensure_ascii=False).encode() + b"\n" for pair in pairs]
        return PreparedPairs(forced, fits_P, _bytes_of(lines), digests_of(pairs))


def _bytes_of(lines: Sequence[bytes]) -> Ragged:
    length_R = np.fromiter(map(len, lines), np.int64, len(lines))
    return Ragged(np.frombuffer(b"".join(lines), dtype=np.uint8), length_R)


def digests_of(pairs: Sequence[Pair]) -> np.ndarray:
    return np.asarray([digest_of(pair.id) for pair in pairs], dtype="<u8")


class Preparers:
    """Prepares blocks in order, on threads of this process and, once there are more than a few, in other processes."""

    def __init__(self, prepare: Preparation, blocks: Iterable[list[Pair]], processes: int) -> None:
        """Without processes, one thread prepares the next block while an earlier one is used."""
        self._prepare, self._blocks = prepare, iter(blocks)
        self._least, self._most = max(1, processes), max(1, _AHEAD * processes)
        self._waiting: deque[tuple[list[Pair], Future[PreparedPairs]]] = deque()
        self._threads = ThreadPoolExecutor(max(1, processes), "nearmt-prepare")
        self._left = _FEW
        self._workers = _Workers(prepare) if processes else None

    def __enter__(self) -> Preparers:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(wait=self._workers is None, cancel_futures=True)
        if self._workers is not None:
            self._workers.close()

    def read_ahead(self) -> bool:
        """Read a block and have it prepared, unless enough are on their way or no more are there."""
        if len(self._waiting) >= self._most:
            return False
        for block in islice(self._blocks, 1):
            self._waiting.append((block, self._threads.submit(self._task(block))))
            return True
        return False

    def _task(self, block: list[Pair]) -> Callable[[], PreparedPairs]:
        self._left -= 1
        if self._workers is None or self._left >= 0:
            return lambda: self._prepare(block)
        request, workers = _request(block), self._workers
        return lambda: (workers.ask(request) if request else None) or self._prepare(block)

    def __iter__(self) -> Iterator[tuple[list[Pair], PreparedPairs]]:
        while self.read_ahead():
            pass
        while self._waiting or self.read_ahead():
            block, future = self._waiting.popleft()
            # Enough that all processes have something to do; more is read when there is time.
            if len(self._waiting) < self._least:
                self.read_ahead()
            with timed("build/wait for tokens"):
                prepared = future.result()
            yield block, prepared


class _Workers:
    """Processes that prepare blocks, one for each thread that asks."""

    def __init__(self, prepare: Preparation) -> None:
        #: None if the tokenizer cannot be sent to another process.
        self._setup = _pickled(prepare)
        self._own = threading.local()
        self._started: list[subprocess.Popen[bytes]] = []
        self._closed = False

    def ask(self, request: bytes) -> PreparedPairs | None:
        """A prepared block; None if the process has none, for whatever reason: it is then prepared here."""
        if self._setup is None or getattr(self._own, "failed", False):
            return None
        try:
            requests, answers = self._connections()
            requests.send_bytes(request)
            prepared: PreparedPairs | None = answers.recv()
        except (OSError, EOFError):
            self._own.failed = True
            return None
        return prepared

    def _connections(self) -> tuple[_Pipe, _Pipe]:
        """Where this thread's process gets requests, and where it answers."""
        pipes: tuple[_Pipe, _Pipe] | None = getattr(self._own, "pipes", None)
        if pipes is None:
            process = _start()
            self._started.append(process)
            if self._closed:
                process.kill()
            assert process.stdin is not None and process.stdout is not None and self._setup is not None
            pipes = self._own.pipes = _writing(process.stdin.fileno()), _reading(process.stdout.fileno())
            pipes[0].send_bytes(self._setup)
        return pipes

    def close(self) -> None:
        """End the processes; threads that wait for one get no answer."""
        self._closed = True
        for process in self._started:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                with suppress(OSError):
                    assert stream is not None
                    stream.close()


def _start() -> subprocess.Popen[bytes]:
    """A process that prepares; one thread is enough for it, and Ctrl-C is the caller's."""
    path = os.pathsep.join(part or str(Path.cwd()) for part in sys.path)
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.Popen(
        [sys.executable, "-c", "from nearmt.datastore.edit.preparing import serve; serve()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )


def serve() -> None:
    """Prepare what comes in, until the input ends."""
    requests, answers = _reading(0), _writing(1)
    os.dup2(2, 1)  # what is printed is no answer
    with suppress(EOFError, BrokenPipeError):
        prepare: Preparation = requests.recv()
        while True:
            columns = requests.recv()
            try:
                answer = prepare([Pair(*fields) for fields in zip(*columns, strict=True)])
            except Exception:  # raised where the pairs come from, by preparing them there
                answer = None
            answers.send(answer)


def _request(pairs: Sequence[Pair]) -> bytes | None:
    """Pairs as columns, which takes a third of the time of pickling each."""
    names = ("source", "target", "id", "origin", "metadata")
    return _pickled([[getattr(pair, name) for pair in pairs] for name in names])


def _pickled(item: object) -> bytes | None:
    """None for what cannot be sent to another process, such as metadata of a type of the caller's."""
    try:
        return pickle.dumps(item, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, TypeError, AttributeError):
        return None


def _reading(descriptor: int) -> _Pipe:
    """A connection of its own to a pipe, whose messages are Python's objects: both ends are processes of this build."""
    return Connection(os.dup(descriptor), writable=False)


def _writing(descriptor: int) -> _Pipe:
    return Connection(os.dup(descriptor), readable=False)
