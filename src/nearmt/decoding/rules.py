"""What may follow: the generation config, the bound of a sentence, and its marks."""

from __future__ import annotations

import torch
from torch import Tensor

from nearmt.contracts import Scores
from nearmt.decoding.hypothesis import SentenceBeam
from nearmt.decoding.marks import MarkRule
from nearmt.decoding.state import BeamState
from nearmt.models import Seq2SeqModel


def constrain(
    model: Seq2SeqModel,
    state: BeamState,
    beams: list[SentenceBeam],
    scores: Scores,
    total_B: Tensor | None,
    marks: MarkRule | None,
) -> Scores:
    """Apply marks, then the generation config: its rules, and the forced last token where a sentence reaches its
    bound."""
    lengths = state.length_S.tolist()
    at_bound = [length >= beam.limit for length, beam in zip(lengths, beams, strict=True)]
    if marks is not None:
        left = [beam.limit - length for length, beam in zip(lengths, beams, strict=True)]
        marks.apply(state, left, scores.logits_BV)
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
