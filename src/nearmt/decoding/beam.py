"""Beam search. With the method `plain` it gives what `transformers` `generate()` gives, token for token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from nearmt.config.beam import BeamConfig
from nearmt.contracts import Method, MethodState, Scores, Step
from nearmt.decoding.candidates import recorded_best
from nearmt.decoding.hypothesis import Candidate, Hypothesis, SentenceBeam, StepTrace
from nearmt.decoding.state import Array, Chosen, SearchState
from nearmt.engines.cuda.graphs import Recorder, current
from nearmt.models import Seq2SeqModel
from nearmt.threads import check_wanted
from nearmt.timing import timed

#: So many sentences, at least, that are to follow others take their first step together: to a GPU many are hardly
#: more work than few.
AHEAD = {"cpu": 1, "cuda": 128}


@dataclass(frozen=True)
class Tracer:
    """Records how candidates came about, for those who explain a translation."""

    model: Scores
    mixed_BV: Tensor  # log-probabilities after mixing, before anything is forbidden or forced

    def extend(self, state: SearchState, chosen: list[Candidate]) -> list[tuple[StepTrace, ...]]:
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
    together: int | None = None,
) -> tuple[list[Hypothesis], object]:
    """The best hypothesis of every source (token ids), and the method's state for those who explain it.

    `together` is how many sentences are searched for at a time, if not all. As soon as one is done another takes its
    place: a method that remembers by sentence is needed, and sentences of similar length should follow each other.
    """
    beams = [
        SentenceBeam(
            config.beams, config.length_penalty, config.limit(model, length), model.eos_ids, model.early_stopping
        )
        for length in source_lengths
    ]
    state = method.begin(source_lengths, max(beam.limit for beam in beams), trace, sources)
    together = together or len(sources)
    assert together >= len(sources) or (method.by_sentence and not trace)
    with current(model.device):
        _Search(model, state, sources, beams, trace, together).run()
    searches = getattr(state, "searches", [0] * len(sources))
    return [replace(beam.best, searches=searches[number]) for number, beam in enumerate(beams)], state


@dataclass
class _Search:
    """One request: its sentences, the hypotheses of each, and who has not begun yet."""

    model: Seq2SeqModel
    method: MethodState
    sources: Sequence[Sequence[int]]
    beams: list[SentenceBeam]
    trace: bool
    #: How many are searched for at a time.
    places: int
    #: Sentences that have not begun.
    left: list[int] = field(init=False)
    record: Recorder = field(init=False)
    #: Sentences that have taken their first step, encoded together, and wait for places; the first `taken` have them.
    waiting: SearchState | None = None
    taken: int = 0

    def __post_init__(self) -> None:
        self.left = list(range(len(self.sources)))
        self.record = self.model.recorders.take(self, self.model, lambda: Recorder(self.model.device))

    def run(self) -> None:
        while self.left:  # one turn is enough, unless all are done at their first step
            running = self._begin(self.places)
            while running.sentences:
                self._step(running, others_follow=True)

    def _begin(self, most: int) -> SearchState:
        """The next sentences after their first step, which fans out into beams: each is encoded and projected once."""
        sentences, self.left = self.left[:most], self.left[most:]
        for sentence, lag in zip(sentences, self.method.lags(sentences), strict=True):
            self.beams[sentence].lag = lag
        count, prompt = len(sentences), self.model.prompt
        state = SearchState(
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
        self._step(state, others_follow=False)
        return state

    def _step(self, state: SearchState, others_follow: bool) -> None:
        """All rows go on by a token. Places of sentences that are done fall to others, or are given up."""
        check_wanted()
        logits_BV, hidden_BH = self.model.step(state.decoder, state.newest_BT)
        before = Scores.of(logits_BV.clone()) if self.trace else None
        total_B = self._total(logits_BV)
        mixed = self.method.scores(Step(logits_BV, hidden_BH, state.times, state.sources, self.model.eos_ids))
        tracer = None if before is None else Tracer(before, mixed.log_probs())
        beams = [self.beams[sentence] for sentence in state.sentences]
        ranked = _constrain(self.model, state, beams, mixed, total_B)
        best_SK, ranks_S = self._decide(state, ranked, tracer)
        done = [place for place, ranks in enumerate(ranks_S) if not ranks]
        self.method.leave([state.sentences[place] for place in done])
        newcomers = self._newcomers(done) if others_follow else []
        replaced = [place for places, _, _ in newcomers for place in places]
        kept = [place for place, ranks in enumerate(ranks_S) if ranks or place in replaced]
        if not kept:
            state.sentences = []
            return
        # Rows of places that fall to others go on anyhow, and are then forgotten.
        size, count = self.beams[0].size, best_SK.score.shape[1]
        rows = [place * count + rank for place in kept for rank in ranks_S[place] or range(size)]
        chosen_B = Chosen(*(part.reshape(-1) for part in best_SK)).at(rows)
        traces = tracer.extend(state, chosen_B.candidates()) if tracer else [()] * len(rows)
        state.advance(chosen_B, kept, traces)
        for places, waiting, newer in newcomers:
            state.replace([kept.index(place) for place in places], waiting, newer)

    def _total(self, logits_BV: Tensor) -> Tensor | None:
        """What makes logits of log-probabilities, where rules are to see logits: in greedy search."""
        rules = self.model.constraint
        wanted = rules is not None and rules.reads_signs and self.beams[0].size == 1
        return logits_BV.logsumexp(dim=1) if wanted else None

    def _newcomers(self, free: list[int]) -> list[tuple[list[int], SearchState, list[int]]]:
        """Who takes places that are free, as long as there is somebody: the places, a group, and whom of it."""
        newcomers = []
        while free and (waiting := self._at_hand()) is not None:
            newer = list(range(self.taken, len(waiting.sentences)))[: len(free)]
            newcomers.append((free[: len(newer)], waiting, newer))
            free, self.taken = free[len(newer) :], self.taken + len(newer)
        return newcomers

    def _at_hand(self) -> SearchState | None:
        """The group that waits for places; none only if all have places."""
        while self.left and (self.waiting is None or self.taken == len(self.waiting.sentences)):
            self.waiting, self.taken = self._begin(max(self.places, AHEAD.get(self.model.device.type, 1))), 0
        return None if self.waiting is None or self.taken == len(self.waiting.sentences) else self.waiting

    def _decide(self, state: SearchState, scores: Scores, tracer: Tracer | None) -> tuple[Chosen, list[list[int]]]:
        """The best continuations of each sentence [S, K], and the ranks of those with which it goes on, if it does."""
        beams = [self.beams[sentence] for sentence in state.sentences]
        best_SK = self._best_continuations(state, beams[0], scores)

        def finish(candidate: Candidate, score: float, truncated: bool) -> Hypothesis:
            tokens = [*state.tokens(candidate.row), candidate.token]
            trace = tracer.extend(state, [candidate])[0] if tracer else ()
            return Hypothesis(tokens, score, truncated, trace)

        with timed("beam/choose"):
            lengths, times = state.length_S.tolist(), state.time_S.tolist()
            ends_SK = np.isin(best_SK.token, beams[0].eos_ids)
            # Ranks of those that go on where nothing happens, as long as there are so many.
            rank_SR = ends_SK.argsort(axis=1, kind="stable")[:, : beams[0].size]
            eventful_S = _eventful(beams, best_SK, ends_SK, rank_SR, lengths)
            ranks_S = rank_SR.tolist()
            for place in np.flatnonzero(eventful_S).tolist():
                candidates = best_SK.at(place).candidates()
                ranks_S[place] = beams[place].advance(candidates, lengths[place], times[place], finish)
        return best_SK, ranks_S

    def _best_continuations(self, state: SearchState, beam: SentenceBeam, scores: Scores) -> Chosen:
        """Per open sentence its best, best first, [S, K]: enough that a full beam goes on even if all others end."""
        with timed("beam/top"):
            keep = max(2, 1 + len(beam.eos_ids)) * beam.size
            found_S3K = recorded_best(self.record, scores, state.score_B, len(state.sentences), keep)
            # What goes on is decided on the host: one transfer, for which the program waits.
            return Chosen(*found_S3K.cpu().numpy().transpose(1, 0, 2))


def _constrain(
    model: Seq2SeqModel, state: SearchState, beams: list[SentenceBeam], scores: Scores, total_B: Tensor | None
) -> Scores:
    """Apply the generation config: its rules, and the forced last token where a sentence reaches its bound."""
    lengths = state.length_S.tolist()
    at_bound = [length >= beam.limit for length, beam in zip(lengths, beams, strict=True)]
    if model.constraint is not None:
        # Some rules scale log-probabilities.
        log_prob_BV = scores.log_probs()
        said_BT = torch.from_numpy(state.said_BT).to(log_prob_BV.device)
        kinds = list(zip(lengths, at_bound, strict=True))
        for length, last in sorted(set(kinds)):  # rules want rows of one length
            rows = state.rows_of([place for place, kind in enumerate(kinds) if kind == (length, last)])
            total = None if total_B is None else total_B[rows]
            log_prob_BV[rows] = model.constraint(said_BT[rows, :length], log_prob_BV[rows], last, total)
        return Scores(log_prob_BV, torch.zeros_like(scores.offset_B))
    last_rows = state.rows_of([place for place, last in enumerate(at_bound) if last])
    if last_rows and model.forced_last is not None:
        scores.logits_BV[last_rows] = -torch.inf
        for token in model.forced_last:
            scores.logits_BV[last_rows, token] = -scores.offset_B[last_rows]
    return scores


def _eventful(beams: list[SentenceBeam], best_SK: Chosen, ends_SK: Array, rank_SR: Array, lengths: list[int]) -> Array:
    """Which sentences have something to decide, [S]: a hypothesis ends, a bound is reached, nothing better can come."""
    size = beams[0].size
    norm_S = np.array([beam.hoped_norm(length) for length, beam in zip(lengths, beams, strict=True)])
    leader_S = np.take_along_axis(best_SK.score, rank_SR[:, :1], axis=1)[:, 0]
    few_S = (~ends_SK).sum(axis=1) < size
    at_limit_S = np.array([length >= beam.limit for length, beam in zip(lengths, beams, strict=True)])
    beaten_S = leader_S / norm_S <= np.array([beam.bar for beam in beams])
    eventful_S: Array = ends_SK[:, :size].any(axis=1) | few_S | at_limit_S | beaten_S
    return eventful_S
