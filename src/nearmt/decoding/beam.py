"""Beam search. With the method `plain` it gives what `transformers` `generate()` gives, token for token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from nearmt.config.beam import BeamConfig
from nearmt.contracts import Scores
from nearmt.decoding.hypothesis import Candidate, Hypothesis, SentenceBeam, StepTrace
from nearmt.decoding.marks import MarkRule
from nearmt.decoding.state import Array, BeamState, Chosen
from nearmt.engines.base import Scoring
from nearmt.engines.cuda.graphs import current
from nearmt.engines.devices import device_of
from nearmt.models import Seq2SeqModel
from nearmt.models.words import SourceWords
from nearmt.steps import Method, MethodState, Request, Step
from nearmt.threads import check_wanted
from nearmt.timing import timed


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


@torch.inference_mode()
def beam_search(
    model: Seq2SeqModel,
    method: Method,
    sources: Sequence[Sequence[int]],
    source_lengths: Sequence[int],
    config: BeamConfig,
    trace: bool = False,
    slots: int | None = None,
    words: Sequence[SourceWords] = (),
    marks: MarkRule | None = None,
) -> tuple[list[Hypothesis], MethodState]:
    """The best hypothesis of every source (token ids), and the method's state, which explains it if traced.

    `slots` is how many sentences are decoded at a time, if not all. A finished sentence is replaced in its slot: the
    method's state must be per sentence, and sentences of similar length should follow each other. `words` are those of
    each source, if the method is to compare them with those of stored sources; `marks` sees to it that translations
    have those of their sources.
    """
    beams = [
        SentenceBeam(
            config.beams, config.length_penalty, config.limit(model, length), model.eos_ids, model.early_stopping
        )
        for length in source_lengths
    ]
    slots = slots or len(sources)
    assert slots >= len(sources) or (method.per_sentence and not trace)
    with current(model.device):
        decoding = _Decoding(model, method, sources, source_lengths, beams, trace, slots, words, marks)
        decoding.run()
    state = decoding.method
    return [replace(beam.best, searches=state.searches[number]) for number, beam in enumerate(beams)], state


class _Decoding:
    """One request: its sentences, the hypotheses of each, and the sentences that have not begun yet."""

    def __init__(
        self,
        model: Seq2SeqModel,
        method: Method,
        sources: Sequence[Sequence[int]],
        lengths: Sequence[int],
        beams: list[SentenceBeam],
        trace: bool,
        slots: int,
        words: Sequence[SourceWords],
        marks: MarkRule | None,
    ) -> None:
        self.marks = marks
        self.model, self.sources, self.beams, self.trace, self.slots = model, sources, beams, trace, slots
        self.scoring: Scoring = model.scoring.lease(self)
        longest = max(beam.limit for beam in beams)
        self.method = method.begin(Request(sources, lengths, longest, model.device, self.scoring, trace, words))
        #: Sentences that have not begun.
        self.left = list(range(len(sources)))
        #: Sentences that were encoded and took their first step together, and wait for slots; the first `taken` have
        #: theirs.
        self.waiting: BeamState | None = None
        self.taken = 0

    def run(self) -> None:
        while self.left:  # one turn is enough, unless all sentences finish at their first step
            running = self._begin(self.slots)
            while running.sentences:
                self._step(running, refill=True)

    def _begin(self, most: int) -> BeamState:
        """The next sentences after their first step, which fans out into beams: each is encoded once."""
        sentences, self.left = self.left[:most], self.left[most:]
        for sentence, tolerance in zip(sentences, self.method.begin(sentences), strict=True):
            self.beams[sentence].tolerance = tolerance
        count, prompt = len(sentences), self.model.prompt
        state = BeamState(
            decoder=self.model.encode([self.sources[sentence] for sentence in sentences]),
            method=self.method,
            sentences=sentences,
            time_S=np.ones(count, dtype=np.int64),
            prompt=len(prompt),
            newest_BT=torch.tensor([prompt] * count, device=self.model.device),
            score_B=torch.zeros(count, device=self.model.device),
            said_BT=np.array([prompt] * count),
            traces=[()] * count,
        )
        self._step(state, refill=False)
        return state

    def _step(self, state: BeamState, refill: bool) -> None:
        """Extend all rows by a token. Slots of finished sentences are refilled, or removed."""
        check_wanted()
        logits_BV, hidden_BH = self.model.step(state.decoder, state.newest_BT)
        before = self.scoring.normalise(logits_BV.clone()) if self.trace else None
        total_B = self._total(logits_BV)
        times = state.time_S.tolist()
        repeating = None if self.method.store is None else np.flatnonzero(state.repeats_B()).tolist() or None
        step = Step(logits_BV, hidden_BH, times, state.sentences, self.model.eos_ids, repeating)
        mixed = self.method.scores(step)
        tracer = None if before is None else Tracer(before, mixed.log_probs())
        beams = [self.beams[sentence] for sentence in state.sentences]
        ranked = _constrain(self.model, state, beams, mixed, total_B, self.marks)
        best_SK, ranks_S = self._decide(state, ranked, tracer)
        finished = [slot for slot, ranks in enumerate(ranks_S) if not ranks]
        self.method.release([state.sentences[slot] for slot in finished])
        newcomers = self._newcomers(finished) if refill else []
        refilled = [slot for slots, _, _ in newcomers for slot in slots]
        kept = [slot for slot, ranks in enumerate(ranks_S) if ranks or slot in refilled]
        if not kept:
            state.sentences = []
            return
        # Rows of refilled slots are continued by any candidates, and then overwritten.
        size, count = self.beams[0].size, best_SK.score.shape[1]
        rows = [slot * count + rank for slot in kept for rank in ranks_S[slot] or range(size)]
        chosen_B = Chosen(*(part.reshape(-1) for part in best_SK)).at(rows)
        traces = tracer.extend(state, chosen_B.candidates()) if tracer else [()] * len(rows)
        state.advance(chosen_B, kept, traces)
        for slots, waiting, newer in newcomers:
            state.refill([kept.index(slot) for slot in slots], waiting, newer)

    def _total(self, logits_BV: Tensor) -> Tensor | None:
        """What turns log-probabilities into logits, for rules that read logits: in greedy search."""
        rules = self.model.constraint
        wanted = rules is not None and rules.reads_signs and self.beams[0].size == 1
        return logits_BV.logsumexp(dim=1) if wanted else None

    def _newcomers(self, free: list[int]) -> list[tuple[list[int], BeamState, list[int]]]:
        """Sentences for free slots, while there are any: the slots, a waiting group, and which of its sentences."""
        newcomers = []
        while free and (waiting := self._waiting_group()) is not None:
            newer = list(range(self.taken, len(waiting.sentences)))[: len(free)]
            newcomers.append((free[: len(newer)], waiting, newer))
            free, self.taken = free[len(newer) :], self.taken + len(newer)
        return newcomers

    def _waiting_group(self) -> BeamState | None:
        """The group that waits for slots; None only if all sentences have begun and have slots."""
        while self.left and (self.waiting is None or self.taken == len(self.waiting.sentences)):
            self.waiting, self.taken = self._begin(max(self.slots, device_of(self.model.device).ahead)), 0
        return None if self.waiting is None or self.taken == len(self.waiting.sentences) else self.waiting

    def _decide(self, state: BeamState, scores: Scores, tracer: Tracer | None) -> tuple[Chosen, list[list[int]]]:
        """The best continuations of each slot [S, K], and the ranks of those that continue (none: finished)."""
        beams = [self.beams[sentence] for sentence in state.sentences]
        best_SK = self._best_continuations(state, beams[0], scores)

        def finish(candidate: Candidate, score: float, truncated: bool) -> Hypothesis:
            tokens = [*state.tokens(candidate.row), candidate.token]
            trace = tracer.extend(state, [candidate])[0] if tracer else ()
            return Hypothesis(tokens, score, truncated, trace)

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
            found_S3K = self.scoring.best(scores, state.score_B, len(state.sentences), keep)
            # The host decides what continues: one transfer, one synchronisation a step.
            return Chosen(*found_S3K.cpu().numpy().transpose(1, 0, 2))


def _constrain(
    model: Seq2SeqModel,
    state: BeamState,
    beams: list[SentenceBeam],
    scores: Scores,
    total_B: Tensor | None,
    marks: MarkRule | None,
) -> Scores:
    """Apply the generation config: its rules, and the forced last token where a sentence reaches its bound; before the
    bound, a sentence keeps its marks."""
    lengths = state.length_S.tolist()
    at_bound = [length >= beam.limit for length, beam in zip(lengths, beams, strict=True)]
    if marks is not None:
        marks.apply(state, [slot for slot, last in enumerate(at_bound) if not last], scores.logits_BV)
    if model.constraint is not None:
        # Some rules scale log-probabilities.
        log_prob_BV = scores.log_probs()
        said_BT = torch.from_numpy(state.said_BT).to(log_prob_BV.device)
        kinds = list(zip(lengths, at_bound, strict=True))
        for length, last in sorted(set(kinds)):  # rules want rows of one length
            rows = state.rows_of([slot for slot, kind in enumerate(kinds) if kind == (length, last)])
            total = None if total_B is None else total_B[rows]
            log_prob_BV[rows] = model.constraint(said_BT[rows, :length], log_prob_BV[rows], last, total)
        return Scores(log_prob_BV, torch.zeros_like(scores.offset_B))
    last_rows = state.rows_of([slot for slot, last in enumerate(at_bound) if last])
    if last_rows and model.forced_last is not None:
        scores.logits_BV[last_rows] = -torch.inf
        for token in model.forced_last:
            scores.logits_BV[last_rows, token] = -scores.offset_B[last_rows]
    return scores


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
