"""Beam search. With the method `plain` it gives what `transformers` `generate()` gives, token for token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nearmt.config import Config, option
from nearmt.contracts import Method, Scores, Step
from nearmt.decoding.candidates import best_candidates
from nearmt.decoding.hypothesis import Candidate, Hypothesis, SentenceBeam, StepTrace
from nearmt.decoding.state import Array, Chosen, SearchState
from nearmt.models import Seq2SeqModel
from nearmt.timing import timed


@dataclass(frozen=True)
class SearchConfig(Config):
    """How the best translation is searched for."""

    beams: int = option(5, "hypotheses kept per sentence; 1 is greedy search", low=1, high=100)
    length_penalty: float = option(1.0, "scores are divided by length ** this", low=-10, high=10)
    max_new_tokens: int | None = option(
        None, "most output tokens of a sentence (default: 3 times its source tokens, plus 32)", low=1
    )

    def limit(self, model: Seq2SeqModel, source_length: int) -> int:
        """The length bound of one sentence, never beyond the model's positions."""
        wanted = self.max_new_tokens or 3 * source_length + 32
        # The last token is never fed back, so all positions but the start token's count.
        return max(len(model.prompt), min(wanted, model.positions - 1))


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
    config: SearchConfig,
    trace: bool = False,
) -> tuple[list[Hypothesis], object]:
    """The best hypothesis of every source (token ids), and the method's state for those who explain it."""
    beams = [
        SentenceBeam(config.beams, config.length_penalty, config.limit(model, length), model.eos_ids)
        for length in source_lengths
    ]
    state = _start(model, method, sources, source_lengths, max(beam.limit for beam in beams), trace)
    newest_BT = state.prefix_BT
    prompt_length = newest_BT.shape[1]
    while state.sources:
        length = state.prefix_BT.shape[1]  # of a candidate, without the start token
        logits_BV, hidden_BH = model.step(state.decoder, newest_BT)
        before = Scores.of(logits_BV.clone()) if trace else None
        step = Step(logits_BV, hidden_BH, time=length - prompt_length + 1, sources=state.sources)
        mixed = state.method.scores(step)
        tracer = None if before is None else Tracer(before, mixed.log_probs())
        ranked = _constrain(model, state, beams, length, mixed)
        _advance(state, beams, ranked, length, step.time, tracer)
        newest_BT = state.prefix_BT[:, -1:]
    return [beam.best for beam in beams], state.method


def _start(
    model: Seq2SeqModel,
    method: Method,
    sources: Sequence[Sequence[int]],
    source_lengths: Sequence[int],
    max_steps: int,
    trace: bool,
) -> SearchState:
    """One row a sentence: the first step fans out into beams, so sources are encoded and projected once."""
    count = len(sources)
    return SearchState(
        decoder=model.encode(sources),
        method=method.begin(source_lengths, max_steps, trace, sources),
        prefix_BT=torch.tensor([model.prompt] * count, device=model.device),
        score_B=torch.zeros(count, device=model.device),
        sources=list(range(count)),
        traces=[()] * count,
    )


def _constrain(
    model: Seq2SeqModel, state: SearchState, beams: list[SentenceBeam], length: int, scores: Scores
) -> Scores:
    """Apply the generation config: its rules, and the forced last token where a sentence reaches its bound."""
    if model.constraint is not None:
        # Some rules scale log-probabilities.
        log_prob_BV = model.constraint(state.prefix_BT, scores.log_probs())
        scores = Scores(log_prob_BV, torch.zeros_like(scores.offset_B))
    last = [row for row, source in enumerate(state.sources) if length >= beams[source].limit]
    if last and model.forced_last is not None:
        scores.logits_BV[last] = -torch.inf
        scores.logits_BV[last, model.forced_last] = -scores.offset_B[last]
    return scores


def _advance(
    state: SearchState, beams: list[SentenceBeam], scores: Scores, length: int, step: int, tracer: Tracer | None
) -> None:
    """Pick the best continuations of every sentence and let the sentences decide what goes on."""
    open_sources = list(dict.fromkeys(state.sources))
    best_SK = _best_continuations(state, beams, scores, len(open_sources))

    def finish(candidate: Candidate, score: float, truncated: bool) -> Hypothesis:
        tokens = [*state.tokens(candidate.row), candidate.token]
        trace = tracer.extend(state, [candidate])[0] if tracer else ()
        return Hypothesis(tokens, score, truncated, trace)

    with timed("beam/choose"):
        size, count = beams[0].size, best_SK.score.shape[1]
        ends_SK = np.isin(best_SK.token, beams[0].eos_ids)
        # Ranks of those that go on where nothing happens, as long as there are so many.
        rank_SR = ends_SK.argsort(axis=1, kind="stable")[:, :size]
        eventful_S = _eventful([beams[source] for source in open_sources], best_SK, ends_SK, rank_SR, length)
        place_SR = (rank_SR + count * np.arange(len(rank_SR))[:, None]).tolist()
        places, sources = list[int](), list[int]()
        for place, source in enumerate(open_sources):
            if eventful_S[place]:
                ranks = beams[source].advance(best_SK.at(place).candidates(), length, step, finish)
                place_SR[place] = [place * count + rank for rank in ranks]
            places += place_SR[place]
            sources += [source] * len(place_SR[place])
    if places:
        chosen_B = Chosen(*(part.reshape(-1) for part in best_SK)).at(places)
        traces = tracer.extend(state, chosen_B.candidates()) if tracer else [()] * len(places)
        state.advance(chosen_B, sources, traces)
    else:
        state.sources = []


def _eventful(beams: list[SentenceBeam], best_SK: Chosen, ends_SK: Array, rank_SR: Array, length: int) -> Array:
    """Which sentences have something to decide, [S]: a hypothesis ends, a bound is reached, nothing better can come."""
    size, norm = beams[0].size, length ** beams[0].length_penalty
    leader_S = np.take_along_axis(best_SK.score, rank_SR[:, :1], axis=1)[:, 0]
    few_S = (~ends_SK).sum(axis=1) < size
    at_limit_S = np.array([length >= beam.limit for beam in beams])
    beaten_S = leader_S / norm <= np.array([beam.bar for beam in beams])
    eventful_S: Array = ends_SK[:, :size].any(axis=1) | few_S | at_limit_S | beaten_S
    return eventful_S


def _best_continuations(state: SearchState, beams: list[SentenceBeam], scores: Scores, sentences: int) -> Chosen:
    """Per open sentence its best, best first, [S, K]: enough that a full beam goes on even if all others end."""
    with timed("beam/top"):
        keep = max(2, 1 + len(beams[0].eos_ids)) * beams[0].size
        found = best_candidates(scores, state.score_B, sentences, keep)
        # What goes on is decided on the host: one transfer, for which the program waits. Doubles hold all exactly.
        return Chosen(*torch.stack([part_SK.double() for part_SK in found]).cpu().numpy())
