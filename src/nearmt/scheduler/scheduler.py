"""The scheduler: workers that decode the sentences of all requests together."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue

import torch

from nearmt.config.base import Config, option
from nearmt.decoding.beam import new_beam
from nearmt.decoding.hypothesis import Hypothesis
from nearmt.engines.cuda.graphs import current
from nearmt.engines.devices import device_of
from nearmt.models.words import SourceWords
from nearmt.scheduler.errors import Stopped
from nearmt.scheduler.queue import FairQueue
from nearmt.scheduler.tickets import Priority, Task, Ticket
from nearmt.scheduler.worker import Worker
from nearmt.threads import workers
from nearmt.timing import Timings
from nearmt.translator import SourcePart, Translator

#: The position and the result of each sentence of a request; None when it was cancelled.
Results = SimpleQueue[tuple[int, Hypothesis | Exception] | None]
#: Sentences of a bulk request that wait in the queue at a time.
_BULK_AHEAD = 256


@dataclass(frozen=True)
class SchedulerConfig(Config):
    """How sentences of several requests are decoded together."""

    slots: int = option(8, "sentences that each worker decodes at a time", low=1, high=1024)
    workers: int | None = option(None, "running batches (default: one per CPU thread, one on a GPU)", low=1, high=256)
    queue: int = option(10_000, "interactive sentences that may wait", low=1)


class Scheduler:
    """Sentences of all requests share running beam searches: one per worker, model and number of beams.

    What a sentence is translated to does not depend on what shares its batch, where that holds for the engine (see
    docs/reliability.md).
    """

    def __init__(self, config: SchedulerConfig | None = None, device: str | torch.device = "cpu") -> None:
        """`device` is that of the models."""
        self.config = config or SchedulerConfig()
        self.timings = Timings()
        self._device = torch.device(device)
        number = self.config.workers or (workers() if device_of(self._device).concurrent else 1)
        self._queue = FairQueue(self.config.queue, number)
        self._alone = threading.Semaphore(1)
        self._stopped = threading.Event()
        self._workers = [Worker(self._queue, self.config.slots) for _ in range(number)]
        self._threads = [
            threading.Thread(target=self._run, args=(worker,), name=f"nearmt-decoder-{place}", daemon=True)
            for place, worker in enumerate(self._workers)
        ]
        for thread in self._threads:
            thread.start()

    def decoder(self, ticket: Ticket) -> SharedDecoder:
        """What decodes the sentences of one request: `translator.decoding_with(scheduler.decoder(ticket))`."""
        return SharedDecoder(self, ticket)

    @property
    def queued(self) -> int:
        """Sentences that wait."""
        return len(self._queue)

    @property
    def running(self) -> int:
        """Sentences that are decoded now."""
        return sum(worker.running for worker in self._workers)

    @property
    def slots(self) -> int:
        """Sentences that can be decoded at a time, of each model and number of beams."""
        return self.config.slots * len(self._workers)

    def close(self, drain: float = 0.0) -> None:
        """Take no new work, and finish what runs and waits for up to `drain` seconds."""
        self._queue.close()
        end = time.monotonic() + drain
        while time.monotonic() < end and (self.queued or self.running):
            time.sleep(0.02)
        self._stopped.set()
        with self._queue.changed:
            self._queue.changed.notify_all()
        for thread in self._threads:
            thread.join(timeout=10)
        for task in self._queue.clear():
            task.tell(Stopped("the server stopped before this sentence was translated"))
        for worker in self._workers:
            worker.stop(Stopped("the server stopped before this sentence was translated"))

    def submit(self, tasks: Sequence[Task]) -> None:
        """Put tasks of one request into the queue."""
        self._queue.put(tasks)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One request at a time may decode outside of the shared batches."""
        with self._alone:
            yield

    def _run(self, worker: Worker) -> None:
        with ExitStack() as stack:
            stack.enter_context(self.timings.active())
            stack.enter_context(current(self._device))
            if device_of(self._device).concurrent:
                torch.set_num_threads(1)
            while not self._stopped.is_set():
                if worker.step():
                    continue
                with self._queue.changed:
                    if not len(self._queue) and not self._stopped.is_set():
                        self._queue.changed.wait()


@dataclass(frozen=True)
class SharedDecoder:
    """Decodes the sentences of one request in the scheduler's batches. Implements `translator.PartDecoder`."""

    scheduler: Scheduler
    ticket: Ticket

    def decode(self, translator: Translator, parts: Sequence[SourcePart]) -> Iterator[tuple[int, Hypothesis]]:
        """The position and the best hypothesis of each part as it is finished."""
        if not parts:
            return
        results: Results = SimpleQueue()
        tasks = [_task(translator, part, self.ticket, position, results) for position, part in enumerate(parts)]
        # The longest first: the last ones to finish are short.
        tasks.sort(key=lambda task: task.length, reverse=True)
        window = _BULK_AHEAD if self.ticket.priority is Priority.BULK else len(tasks)
        waiting = iter(tasks[window:])
        with self.ticket.telling(lambda: results.put(None)):
            try:
                self.scheduler.submit(tasks[:window])
                for _ in tasks:
                    position, result = self._next(results)
                    if isinstance(result, Exception):
                        raise result
                    if (task := next(waiting, None)) is not None:
                        self.scheduler.submit([task])
                    yield position, result
            finally:
                for task in tasks:  # after an error the slots of the others are free
                    task.dropped = True

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self.scheduler.alone():
            self.ticket.check()
            yield

    def _next(self, results: Results) -> tuple[int, Hypothesis | Exception]:
        """The next result, or the error of what has ended the request before."""
        while True:
            self.ticket.check()
            left = self.ticket.left
            with suppress(Empty):
                found = results.get(timeout=None if left is None else max(left, 0.001))
                if found is not None:
                    return found


def _task(
    translator: Translator,
    part: SourcePart,
    ticket: Ticket,
    position: int,
    results: Results,
) -> Task:
    model = translator.model
    return Task(
        ticket=ticket,
        model=model,
        method=translator.method,
        source=part.ids,
        length=part.length,
        beam=new_beam(model.seq2seq, translator.beam, part.length),
        words=None if translator.datastore is None else SourceWords.of(model.codec, part.ids),
        marks=part.marks,
        forbidden=part.forbidden,
        done=lambda result: results.put((position, result)),
    )
