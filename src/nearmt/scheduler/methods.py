"""Methods side by side: the sentences of one batch may have different stores, methods and settings.

Decoder steps and the choice of candidates are those of the whole batch. What belongs to a store or to settings, which
is retrieval and mixing, is done by one group of rows after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from nearmt.contracts import Evidence, Scores
from nearmt.engines.base import Scoring
from nearmt.models import Seq2SeqModel
from nearmt.models.words import SourceWords
from nearmt.retrieval.source import EntrySource
from nearmt.scheduler.tickets import Task
from nearmt.steps import Method, MethodState, Request, Step

#: Sentences after which a group takes no more: what it keeps of finished ones is freed with it.
_SENTENCES = 1000


@dataclass(eq=False)
class _Group:
    """Sentences with the same method and the same snapshot of its store; a request that sentences are appended to."""

    method: Method
    state: MethodState
    snapshot: EntrySource | None
    sources: list[Sequence[int]]
    lengths: list[int]
    words: list[SourceWords]
    left: int = 0

    def add(self, task: Task) -> int:
        """Append a sentence and return its number in this group."""
        self.sources.append(task.source)
        self.lengths.append(task.length)
        if task.words is not None:
            self.words.append(task.words)
        self.left += 1
        return len(self.sources) - 1

    def takes(self, snapshot: EntrySource | None) -> bool:
        """Whether sentences can join that are to see this snapshot."""
        return self.snapshot is snapshot and len(self.sources) < _SENTENCES


@dataclass
class SharedMethods:
    """The `MethodState` of a batch with several methods, which keep all state per sentence."""

    model: Seq2SeqModel
    scoring: Scoring
    evidence: list[Evidence] | None = field(default=None, init=False)
    _groups: dict[Method, _Group] = field(default_factory=dict, init=False)
    #: The group of each running sentence, and its number there.
    _members: dict[int, tuple[_Group, int]] = field(default_factory=dict, init=False)

    @property
    def store(self) -> EntrySource | None:
        """One of the stores, if there are any."""
        return next((group.state.store for group, _ in self._members.values() if group.state.store is not None), None)

    @property
    def searches(self) -> Sequence[int]:
        raise NotImplementedError("ask `counts_of`, before a sentence is released")

    missed = compared = searches

    def counts_of(self, sentence: int) -> tuple[int, int, int]:
        """Searches, missed ones, and entries compared, for a sentence that was not released yet."""
        group, number = self._members[sentence]
        state = group.state
        return state.searches[number], state.missed[number], state.compared[number]

    def join(self, sentence: int, task: Task) -> None:
        """A sentence that begins next. It sees its store as it is now."""
        group = self._group_for(task.method)
        self._members[sentence] = group, group.add(task)

    def _group_for(self, method: Method) -> _Group:
        snapshot = None if method.store is None else method.store.snapshot()
        group = self._groups.get(method)
        if group is None or not group.takes(snapshot):
            sources: list[Sequence[int]] = []
            lengths: list[int] = []
            words: list[SourceWords] = []
            model = self.model
            request = Request(sources, lengths, model.positions, model.device, self.scoring, words=words)
            state = method.begin(request)
            group = self._groups[method] = _Group(method, state, state.store, sources, lengths, words)
        return group

    def begin(self, sentences: Sequence[int]) -> list[float]:
        tolerance: dict[int, float] = {}
        for group, members in self._grouped(sentences).items():
            found = group.state.begin([number for _, number in members])
            tolerance.update((sentences[place], each) for (place, _), each in zip(members, found, strict=True))
        return [tolerance[sentence] for sentence in sentences]

    def scores(self, step: Step) -> Scores:
        grouped = self._grouped(step.sentences)
        if len(grouped) == 1:
            ((group, members),) = grouped.items()
            return group.state.scores(_part(step, members, None))
        offset_B = step.logits_BV.new_empty(len(step.logits_BV))
        for group, members in grouped.items():
            rows = _rows([slot for slot, _ in members], step.rows_each)
            row_R = torch.tensor(rows, device=offset_B.device)
            scores = group.state.scores(_part(step, members, row_R))
            step.logits_BV.index_copy_(0, row_R, scores.logits_BV)
            offset_B.index_copy_(0, row_R, scores.offset_B)
        return Scores(step.logits_BV, offset_B)

    def reorder(self, row_B: Tensor) -> None:
        """Methods that keep all state per sentence have nothing to reorder."""

    def release(self, sentences: Sequence[int]) -> None:
        for group, members in self._grouped(sentences).items():
            group.state.release([number for _, number in members])
            group.left -= len(members)
        for sentence in sentences:
            del self._members[sentence]
        # Their methods may not come back, and a group is cheap to make anew.
        self._groups = {method: group for method, group in self._groups.items() if group.left}

    def _grouped(self, sentences: Sequence[int]) -> dict[_Group, list[tuple[int, int]]]:
        """By group: positions in `sentences`, and numbers in the group."""
        grouped: dict[_Group, list[tuple[int, int]]] = {}
        for place, sentence in enumerate(sentences):
            group, number = self._members[sentence]
            grouped.setdefault(group, []).append((place, number))
        return grouped


def _part(step: Step, members: Sequence[tuple[int, int]], row_R: Tensor | None) -> Step:
    """The step of one group, whose rows these are (None: all)."""
    numbers = [number for _, number in members]
    if row_R is None:
        return replace(step, sentences=numbers)
    repeating = None
    if step.repeating is not None:
        repeats = set(step.repeating)
        repeating = [place for place, row in enumerate(row_R.tolist()) if row in repeats] or None
    return Step(
        step.logits_BV.index_select(0, row_R),
        step.hidden_BH.index_select(0, row_R),
        [step.times[slot] for slot, _ in members],
        numbers,
        step.ends,
        repeating,
        None if step.newest_B is None else step.newest_B.index_select(0, row_R),
    )


def _rows(slots: Sequence[int], each: int) -> list[int]:
    return [slot * each + row for slot in slots for row in range(each)]
