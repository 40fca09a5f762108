"""Beam search. With the method `plain` it gives what `transformers` `generate()` gives, token for token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from nearmt.config.beam import BeamConfig
from nearmt.decoding.forbidden import ForbiddenRule
from nearmt.decoding.hypothesis import Hypothesis, SentenceBeam
from nearmt.decoding.marks import MarkRule
from nearmt.decoding.running import RunningBatch
from nearmt.engines.base import Scoring
from nearmt.engines.cuda.graphs import current
from nearmt.models import Seq2SeqModel
from nearmt.models.words import SourceWords
from nearmt.steps import Method, MethodState, Request


def new_beam(model: Seq2SeqModel, config: BeamConfig, source_length: int) -> SentenceBeam:
    """The beam of a sentence that has not begun."""
    limit = config.limit(model, source_length)
    return SentenceBeam(config.beams, config.length_penalty, limit, model.eos_ids, model.early_stopping)


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
    forbidden: ForbiddenRule | None = None,
) -> tuple[list[Hypothesis], MethodState]:
    """The best hypothesis of every source (token ids), and the method's state, which explains it if traced.

    `slots` is how many sentences are decoded at a time, if not all. A finished sentence is replaced in its slot: the
    method's state must be per sentence, and sentences of similar length should follow each other. `words` are those of
    each source, if the method is to compare them with those of stored sources; `marks` sees to it that translations
    have those of their sources, `forbidden` that they lack some words.
    """
    beams = [new_beam(model, config, length) for length in source_lengths]
    slots = slots or len(sources)
    assert slots >= len(sources) or (method.per_sentence and not trace)
    feed = _Sentences(sources, beams)
    with current(model.device):
        scoring: Scoring = model.scoring.lease(feed)
        longest = max(beam.limit for beam in beams)
        state = method.begin(Request(sources, source_lengths, longest, model.device, scoring, trace, words))
        batch = RunningBatch(model, state, feed, slots, scoring, marks, trace, forbidden)
        while batch.step():
            pass
    counts = zip(beams, state.searches, state.missed, state.compared, strict=True)
    return [replace(beam.best, searches=s, missed=m, compared=c) for beam, s, m, c in counts], state


class _Sentences:
    """The sentences of one request, in their order."""

    def __init__(self, sources: Sequence[Sequence[int]], beams: Sequence[SentenceBeam]) -> None:
        self._sources, self._beams = sources, beams
        self._begun = 0

    def take(self, most: int) -> list[int]:
        sentences = list(range(self._begun, len(self._sources)))[:most]
        self._begun += len(sentences)
        return sentences

    def source(self, sentence: int) -> Sequence[int]:
        return self._sources[sentence]

    def beam(self, sentence: int) -> SentenceBeam:
        return self._beams[sentence]

    def wanted(self, sentence: int) -> bool:
        return True

    def finished(self, sentence: int) -> None:
        pass
