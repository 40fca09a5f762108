"""All state of one search, reordered in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearmt.contracts import MethodState
from nearmt.decoding.hypothesis import Candidate, StepTrace
from nearmt.models import DecoderState
from nearmt.timing import timed

Array = NDArray[Any]


class Chosen(NamedTuple):
    """Continuations, on the host: scores, the rows that they continue, and their tokens. Of any shape, all alike."""

    score: Array
    row: Array
    token: Array

    def at(self, place: Any) -> Chosen:
        return Chosen(self.score[place], self.row[place], self.token[place])

    def candidates(self) -> list[Candidate]:
        return [Candidate(s, int(r), int(t)) for s, r, t in zip(*(part.tolist() for part in self), strict=True)]


@dataclass
class SearchState:
    """The running rows of a request. Rows of one sentence are neighbours, each sentence has equally many."""

    decoder: DecoderState
    method: MethodState
    prefix_BT: Tensor  # prompt and tokens so far
    score_B: Tensor  # sum of log-probabilities
    sources: list[int]  # the sentence of each row
    traces: Sequence[tuple[StepTrace, ...]]  # how each row came about; stays empty unless asked for
    #: Of each step, for all rows: the row that it continued, and its token. What `prefix_BT` holds, without a transfer.
    history: list[tuple[Array, Array]] = field(default_factory=list)

    def tokens(self, row: int) -> list[int]:
        """What a row has said so far, without the prompt."""
        tokens = []
        for row_B, token_B in reversed(self.history):
            tokens.append(int(token_B[row]))
            row = int(row_B[row])
        return tokens[::-1]

    def advance(self, chosen_B: Chosen, sources: list[int], traces: Sequence[tuple[StepTrace, ...]]) -> None:
        """Continue with these: the one place where rows move."""
        with timed("beam/reorder"):
            # One transfer, for which nobody waits. Doubles hold all three exactly.
            found_3B = torch.from_numpy(np.stack(chosen_B)).to(self.prefix_BT.device, non_blocking=True)
            row_B, token_B1 = found_3B[1].long(), found_3B[2].long()[:, None]
            # Sentences leave, or the first step fans out: then the source side of the rows moves too.
            self.decoder.reorder(row_B, sources_change=sources != self.sources)
            self.method.reorder(row_B)
            self.prefix_BT = torch.cat([self.prefix_BT[row_B], token_B1], dim=1)
            self.score_B = found_3B[0].float()
            self.history.append((chosen_B.row.astype(np.int64), chosen_B.token.astype(np.int64)))
            self.sources, self.traces = sources, traces
