"""The running batch of a beam search: its slots, their steps, and what fills them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from nearmt.contracts import Scores
from nearmt.decoding.forbidden import ForbiddenRule
from nearmt.decoding.hypothesis import Candidate, Hypothesis, SentenceBeam, StepTrace
from nearmt.decoding.marks import MarkRule
from nearmt.decoding.rules import constrain
from nearmt.decoding.state import Array, BeamState, Chosen
from nearmt.engines.base import Scoring
from nearmt.engines.devices import device_of
from nearmt.models import Seq2SeqModel
from nearmt.steps import MethodState, Step
from nearmt.threads import check_wanted
from nearmt.timing import timed


class Feed(Protocol):
    """Where the sentences of a running batch come from; each is named by a number."""

    def take(self, most: int) -> list[int]:
        """Up to `most` sentences that begin now; the batch goes on without, if there are none."""

    def source(self, sentence: int) -> Sequence[int]:
        """The subword ids of a sentence."""

    def beam(self, sentence: int) -> SentenceBeam:
        """The hypotheses of a sentence. All sentences of a batch have as many beams."""

    def wanted(self, sentence: int) -> bool:
        """Whether the translation is still waited for; if not, the slot is free."""

    def finished(self, sentence: int) -> None:
        """A sentence is finished, or no longer wanted. The state of its method is released after this."""


@dataclass(frozen=True)
class Tracer:
    """Records how candidates came about, to explain a translation."""

    model: Scores
    mixed_BV: Tensor  # log-probabilities after mixing, before constraints

    def extend(self, state: BeamState, chosen: list[Candidate]) -> list[tuple[StepTrace, ...]]:
        """The trace of each candidate: its row's so far, and this step."""
        row = torch.tensor([candidate.row for candidate in chosen], device=self.mixed_BV.device)
        token = torch.tensor([candidate.token for candidate in chosen], device=self.mixed_BV.device)
        after = self.mixed_BV[row, token].tolist()
        before = (self.model.logits_BV[row, token] + self.model.offset_B[row]).tolist()
        return [
            (*state.traces[candidate.row], StepTrace(candidate.row, b, a))
            for candidate, b, a in zip(chosen, before, after, strict=True)
        ]


@dataclass
class Waiting:
    """Sentences that were encoded and took their first step together; the first `taken` have slots."""

    state: BeamState
    taken: int = 0

    def next(self, most: int) -> list[int]:
        """The positions of the next sentences that get slots."""
        chosen = list(range(self.taken, len(self.state.sentences)))[:most]
        self.taken += len(chosen)
        return chosen

    @property
    def left(self) -> bool:
        return self.taken < len(self.state.sentences)


class RunningBatch:
    """Sentences that are decoded together, in at most `slots` slots; they come from a feed, which may be open-ended."""

    def __init__(
        self,
        model: Seq2SeqModel,
        method: MethodState,
        feed: Feed,
        slots: int,
        scoring: Scoring,
        marks: MarkRule | None = None,
        trace: bool = False,
        forbidden: ForbiddenRule | None = None,
    ) -> None:
        """`marks` sees to it that translations have the marks of their sources, `forbidden` that they lack words."""
        self.model, self.method, self.feed, self.slots = model, method, feed, slots
        self._scoring, self._marks, self._trace, self._forbidden = scoring, marks, trace, forbidden
        self._running: BeamState | None = None
        self._waiting: Waiting | None = None

    @property
    def occupied(self) -> int:
        """Slots in use."""
        return 0 if self._running is None else len(self._running.sentences)

    def step(self) -> bool:
        """A step of all running sentences, or the first one of the next; False if there are none."""
        if not self.occupied:
            self._running = self._begin(self.slots)
            return self._running is not None
        assert self._running is not None
        self._step(self._running, refill=True)
        return True

    def _begin(self, most: int) -> BeamState | None:
        """The next sentences after their first step, which fans out into beams: each is encoded once."""
        sentences = self.feed.take(most)
        if not sentences:
            return None
        for sentence, tolerance in zip(sentences, self.method.begin(sentences), strict=True):
            self.feed.beam(sentence).tolerance = tolerance
        count, prompt = len(sentences), self.model.prompt
        state = BeamState(
            decoder=self.model.encode([self.feed.source(sentence) for sentence in sentences]),
            method=self.method,
            sentences=sentences,
            time_S=np.ones(count, dtype=np.int64),
            prompt=len(prompt),
            newest_BT=torch.tensor([prompt] * count, device=self.model.device),
            score_B=torch.zeros(count, device=self.model.device),
            said_BT=np.array([prompt] * count),
            total_BT=np.zeros((count, len(prompt)), np.float32),
            traces=[()] * count,
        )
        self._step(state, refill=False)
        return state

    def _step(self, state: BeamState, refill: bool) -> None:
        """Extend all rows by a token. Slots of finished sentences are refilled, or removed; spare ones are filled."""
        check_wanted()
        logits_BV, hidden_BH = self.model.step(state.decoder, state.newest_BT)
        before = self._scoring.normalise(logits_BV.clone()) if self._trace else None
        beams = [self.feed.beam(sentence) for sentence in state.sentences]
        total_B = self._total(logits_BV, beams[0])
        times = state.time_S.tolist()
        repeating = None if self.method.store is None else np.flatnonzero(state.repeats_B()).tolist() or None
        newest_B = state.newest_BT[:, -1]
        step = Step(logits_BV, hidden_BH, times, state.sentences, self.model.eos_ids, repeating, newest_B)
        mixed = self.method.scores(step)
        tracer = None if before is None else Tracer(before, mixed.log_probs())
        ranked = constrain(self.model, state, beams, mixed, total_B, self._marks)
        best_SK, ranks_S = self._decide(state, beams, ranked, tracer)
        free = self._release(state, ranks_S)
        room = self.slots - len(state.sentences)
        newcomers = self._newcomers(len(free) + room) if refill else []
        self._continue(state, best_SK, ranks_S, free, newcomers, tracer, beams[0].size)

    def _release(self, state: BeamState, ranks_S: list[list[int]]) -> list[int]:
        """The slots whose sentences are finished, or no longer wanted."""
        free = []
        for slot, sentence in enumerate(state.sentences):
            if not ranks_S[slot] or not self.feed.wanted(sentence):
                ranks_S[slot] = []
                self.feed.finished(sentence)
                free.append(slot)
        self.method.release([state.sentences[slot] for slot in free])
        return free

    def _continue(
        self,
        state: BeamState,
        best_SK: Chosen,
        ranks_S: list[list[int]],
        free: list[int],
        newcomers: list[tuple[BeamState, list[int]]],
        tracer: Tracer | None,
        size: int,
    ) -> None:
        """Rows continue with what was chosen. Newcomers get free slots first, then copies of any slot."""
        count = sum(len(chosen) for _, chosen in newcomers)
        refilled, unfilled = free[:count], set(free[count:])
        kept = [slot for slot in range(len(state.sentences)) if slot not in unfilled]
        if not kept:
            state.sentences = []
            return
        places = [kept.index(slot) for slot in refilled]
        places += range(len(kept), len(kept) + count - len(refilled))
        kept += [kept[-1]] * (count - len(refilled))
        # Rows of refilled slots are continued by any candidates, and then overwritten.
        most = best_SK.score.shape[1]
        rows = [slot * most + rank for slot in kept for rank in ranks_S[slot] or range(size)]
        chosen_B = Chosen(*(part.reshape(-1) for part in best_SK)).at(rows)
        traces = tracer.extend(state, chosen_B.candidates()) if tracer else [()] * len(rows)
        state.advance(chosen_B, kept, traces)
        for newer, chosen in newcomers:
            state.refill(places[: len(chosen)], newer, chosen)
            places = places[len(chosen) :]

    def _total(self, logits_BV: Tensor, beam: SentenceBeam) -> Tensor | None:
        """What turns log-probabilities into logits, for rules that read logits: in greedy search."""
        rules = self.model.constraint
        wanted = rules is not None and rules.reads_signs and beam.size == 1
        return logits_BV.logsumexp(dim=1) if wanted else None

    def _newcomers(self, free: int) -> list[tuple[BeamState, list[int]]]:
        """Sentences for free slots, while there are any: a waiting group, and which of its sentences."""
        newcomers = []
        while free and (waiting := self._next_waiting()) is not None:
            chosen = waiting.next(free)
            newcomers.append((waiting.state, chosen))
            free -= len(chosen)
        return newcomers

    def _next_waiting(self) -> Waiting | None:
        """The group whose sentences get slots next; None if no sentences are left now."""
        while self._waiting is None or not self._waiting.left:
            begun = self._begin(max(self.slots, device_of(self.model.device).ahead))
            if begun is None:
                return None
            self._waiting = Waiting(begun)  # none are left if all were finished by their first step
        return self._waiting

    def _decide(
        self, state: BeamState, beams: list[SentenceBeam], scores: Scores, tracer: Tracer | None
    ) -> tuple[Chosen, list[list[int]]]:
        """The best continuations of each slot [S, K], and the ranks of those that continue (none: finished)."""
        best_SK = self._best_continuations(state, beams[0], scores)

        def finish(candidate: Candidate, score: float, truncated: bool) -> Hypothesis:
            tokens = [*state.tokens(candidate.row), candidate.token]
            trace = tracer.extend(state, [candidate])[0] if tracer else ()
            log_probs = state.log_probs(candidate.row, candidate.score)
            return Hypothesis(tokens, score, truncated, trace, log_probs=log_probs)

        with timed("beam/choose"):
            lengths, times = state.length_S.tolist(), state.time_S.tolist()
            ends_SK = np.isin(best_SK.token, beams[0].eos_ids)
            # Ranks of the candidates that continue where nothing happens.
            rank_SR = ends_SK.argsort(axis=1, kind="stable")[:, : beams[0].size]
            eventful_S = _eventful(beams, best_SK, ends_SK, rank_SR, lengths)
            ranks_S = rank_SR.tolist()
            for slot in np.flatnonzero(eventful_S).tolist():
                candidates = best_SK.at(slot).candidates()
                ranks_S[slot] = beams[slot].advance(candidates, lengths[slot], times[slot], finish)
        return best_SK, ranks_S

    def _best_continuations(self, state: BeamState, beam: SentenceBeam, scores: Scores) -> Chosen:
        """The best continuations of each slot, best first, [S, K]: enough for a full beam even if all others end."""
        with timed("beam/top"):
            keep = max(2, 1 + len(beam.eos_ids)) * beam.size
            while True:
                found_S3K = self._scoring.best(scores, state.score_B, len(state.sentences), keep)
                # The host decides what continues: one transfer, one synchronisation a step.
                chosen_SK = Chosen(*found_S3K.cpu().numpy().transpose(1, 0, 2))
                broken = [] if self._forbidden is None else self._forbidden.broken(state, chosen_SK)
                if not broken:
                    return chosen_SK
                rows, tokens = zip(*broken, strict=True)
                scores.logits_BV[list(rows), list(tokens)] = -torch.inf


def _eventful(beams: list[SentenceBeam], best_SK: Chosen, ends_SK: Array, rank_SR: Array, lengths: list[int]) -> Array:
    """Which slots need a decision, [S]: a hypothesis ends, a bound is reached, or nothing better can come."""
    size = beams[0].size
    norm_S = np.array([beam.hoped_norm(length) for length, beam in zip(lengths, beams, strict=True)])
    leader_S = np.take_along_axis(best_SK.score, rank_SR[:, :1], axis=1)[:, 0]
    few_S = (~ends_SK).sum(axis=1) < size
    at_limit_S = np.array([length >= beam.limit for length, beam in zip(lengths, beams, strict=True)])
    beaten_S = leader_S / norm_S <= np.array([beam.bar for beam in beams])
    eventful_S: Array = ends_SK[:, :size].any(axis=1) | few_S | at_limit_S | beaten_S
    return eventful_S
