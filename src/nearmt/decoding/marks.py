"""Every mark of a sentence exactly once in its translation: which tokens a hypothesis may continue with."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from nearmt.decoding.state import BeamState
from nearmt.models.marks import Marks, MarkTokens


class MarkRule:
    """Applies to sentences with marks; others are not touched."""

    def __init__(self, tokens: MarkTokens, marks: Sequence[Marks | None], ends: Sequence[int]) -> None:
        self._tokens, self._marks, self._ends = tokens, marks, list(ends)
        self._openers = torch.tensor(tokens.openers)

    def apply(self, state: BeamState, slots: Sequence[int], logits_BV: Tensor) -> None:
        """Rule out tokens that would repeat, break or miss a mark; the logits of these slots change in place."""
        for slot in slots:
            if (marks := self._marks[state.sentences[slot]]) is not None:
                for row in state.rows_of([slot]):
                    self._constrain(logits_BV[row], marks, state.tokens(row))

    def _constrain(self, logits_V: Tensor, marks: Marks, tokens: list[int]) -> None:
        progress = self._tokens.progress(tokens)
        only, banned = self._tokens.next_tokens(marks, progress)
        if only is not None:
            kept = logits_V[only].clone()
            logits_V.fill_(-math.inf)
            logits_V[only] = kept
            return
        if banned:
            logits_V[banned] = -math.inf
        if marks.numbers.difference(progress.written):
            self._open_instead_of_ending(logits_V)

    def _open_instead_of_ending(self, logits_V: Tensor) -> None:
        """The sentence may not end yet: what it gives to the end goes to the marks that are missing."""
        end = logits_V[self._ends].logsumexp(dim=0)
        openers = self._openers.to(logits_V.device)
        opening = logits_V[openers]
        logits_V[openers] = torch.logaddexp(opening, end - opening.isfinite().sum().log()).where(
            opening.isfinite(), opening
        )
        logits_V[self._ends] = -math.inf
