"""All state of one search, reordered in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nearmt.contracts import MethodState
from nearmt.decoding.hypothesis import Candidate, StepTrace
from nearmt.models import DecoderState
from nearmt.timing import timed


@dataclass
class SearchState:
    """The running rows of a request. Rows of one sentence are neighbours, each sentence has equally many."""

    decoder: DecoderState
    method: MethodState
    prefix_BT: Tensor  # prompt and tokens so far
    score_B: Tensor  # sum of log-probabilities
    sources: list[int]  # the sentence of each row
    tokens: Sequence[tuple[int, ...]]  # of each row, without the prompt: what `prefix_BT` holds, without a transfer
    traces: Sequence[tuple[StepTrace, ...]]  # how each row came about; stays empty unless asked for

    def advance(self, survivors: list[Candidate], sources: list[int], traces: Sequence[tuple[StepTrace, ...]]) -> None:
        """Continue with these candidates: the one place where rows move."""
        with timed("beam/reorder"):
            # One transfer, for which nobody waits. Doubles hold all three exactly.
            chosen_B3 = torch.tensor(survivors, dtype=torch.float64).to(self.prefix_BT.device, non_blocking=True)
            row_B, token_B1 = chosen_B3[:, 1].long(), chosen_B3[:, 2:].long()
            # Sentences leave, or the first step fans out: then the source side of the rows moves too.
            self.decoder.reorder(row_B, sources_change=sources != self.sources)
            self.method.reorder(row_B)
            self.prefix_BT = torch.cat([self.prefix_BT[row_B], token_B1], dim=1)
            self.score_B = chosen_B3[:, 0].float()
            self.tokens = [(*self.tokens[survivor.row], survivor.token) for survivor in survivors]
            self.sources, self.traces = sources, traces
