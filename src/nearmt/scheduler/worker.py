"""A worker: one running batch for each lane. Bulk work has batches of its own, which get a share of the time.

In a common batch, long sentences of a document would make every step of interactive ones slower.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

import torch

from nearmt.decoding.forbidden import ForbiddenRule
from nearmt.decoding.hypothesis import SentenceBeam
from nearmt.decoding.marks import MarkRule
from nearmt.decoding.running import RunningBatch
from nearmt.engines.base import Scoring
from nearmt.models import TranslationModel
from nearmt.models.marks import Marks
from nearmt.scheduler.methods import SharedMethods
from nearmt.scheduler.queue import FairQueue
from nearmt.scheduler.tickets import Lane, Priority, Task

_numbers = count()

#: Seconds of bulk work for each second of interactive work, where there is both.
_BULK_SHARE = 0.25
#: Most seconds of bulk work that are saved up.
_MOST_ALLOWED = 0.1


class LaneFeed:
    """Gives a running batch tasks from the queue; sentences are tasks by number."""

    def __init__(self, queue: FairQueue, lane: Lane, model: TranslationModel) -> None:
        self._queue, self._lane = queue, lane
        scoring: Scoring = model.seq2seq.scoring.lease(self)
        self.methods = SharedMethods(model.seq2seq, scoring)
        self.tasks: dict[int, Task] = {}
        self.marks: dict[int, Marks | None] = {}
        self.forbidden: dict[int, re.Pattern[str] | None] = {}

    def take(self, most: int) -> list[int]:
        sentences = []
        for task in self._queue.take(self._lane, most):
            sentence = next(_numbers)
            try:
                self.methods.join(sentence, task)
            except Exception as error:  # of this task's store: others go on
                task.tell(error)
                continue
            self.tasks[sentence] = task
            self.marks[sentence], self.forbidden[sentence] = task.marks, task.forbidden
            sentences.append(sentence)
        return sentences

    def source(self, sentence: int) -> Sequence[int]:
        return self.tasks[sentence].source

    def beam(self, sentence: int) -> SentenceBeam:
        return self.tasks[sentence].beam

    def wanted(self, sentence: int) -> bool:
        return self.tasks[sentence].wanted

    def finished(self, sentence: int) -> None:
        task = self.tasks.pop(sentence)
        del self.marks[sentence], self.forbidden[sentence]
        if task.beam.finished:
            searches, missed, compared = self.methods.counts_of(sentence)
            task.tell(replace(task.beam.best, searches=searches, missed=missed, compared=compared))

    def fail(self, error: Exception) -> None:
        """A step failed: tell all tasks that were taken."""
        tasks = list(self.tasks.values())
        self.tasks.clear()
        for task in tasks:
            task.tell(error)


class Worker:
    """Runs the batches of all lanes. One thread at a time calls `step`."""

    def __init__(self, queue: FairQueue, slots: int) -> None:
        self._queue, self._slots = queue, slots
        self._batches: dict[Lane, tuple[RunningBatch, LaneFeed]] = {}
        #: Seconds that bulk work may still take while interactive work runs.
        self._allowance = 0.0

    @property
    def running(self) -> int:
        """Sentences that were taken and are not finished."""
        return sum(len(feed.tasks) for _, feed in list(self._batches.values()))

    @torch.inference_mode()
    def step(self) -> bool:
        """A step of every batch whose turn it is; False if nothing runs and nothing waits."""
        for lane, model in self._queue.lanes().items():
            if lane not in self._batches:
                self._batches[lane] = self._new_batch(lane, model)
        took = self._step_all(Priority.INTERACTIVE)
        if took:
            self._allowance = min(_MOST_ALLOWED, self._allowance + took * _BULK_SHARE)
            if self._allowance > 0:
                self._allowance -= self._step_all(Priority.BULK)
            return True
        moved = self._step_all(Priority.BULK) > 0
        if not moved:
            self._batches.clear()  # models that are closed are not kept by batches
        return moved

    def _step_all(self, priority: Priority) -> float:
        """A step of every batch of a priority; the seconds that it took, 0 if nothing runs."""
        start, moved = time.perf_counter(), False
        for lane, (batch, feed) in list(self._batches.items()):
            if lane.priority is not priority:
                continue
            try:
                moved |= batch.step()
            except Exception as error:  # the tasks are told; the worker goes on with a new batch
                del self._batches[lane]
                feed.fail(error)
                moved = True
        return max(time.perf_counter() - start, 1e-6) if moved else 0.0

    def stop(self, error: Exception) -> None:
        """Tell all tasks that were taken that nothing comes; after the last `step`."""
        for _, feed in self._batches.values():
            feed.fail(error)
        self._batches.clear()

    def _new_batch(self, lane: Lane, model: TranslationModel) -> tuple[RunningBatch, LaneFeed]:
        feed = LaneFeed(self._queue, lane, model)
        seq2seq = model.seq2seq
        rule = MarkRule(model.mark_tokens, feed.marks, seq2seq.eos_ids) if model.writes_marks else None
        ban = ForbiddenRule(model.codec.subwords, feed.forbidden)
        scoring = feed.methods.scoring
        return RunningBatch(seq2seq, feed.methods, feed, self._slots, scoring, rule, forbidden=ban), feed
