"""All state of one search, reordered in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
    """Running rows of a request. Rows of one sentence are neighbours, each sentence has equally many."""

    decoder: DecoderState
    method: MethodState
    sentences: list[int]  # whose rows they are, in the order of the rows
    time_S: Array  # the step that each sentence takes next: 1 is the first
    prompt: int  # tokens that all rows begin with
    newest_BT: Tensor  # what the decoder has not been fed yet
    score_B: Tensor  # sum of log-probabilities
    said_BT: Array  # prompt and tokens so far, on the host; what lies behind a row's length means nothing
    traces: Sequence[tuple[StepTrace, ...]]  # how each row came about; stays empty unless asked for

    @property
    def rows_each(self) -> int:
        return len(self.said_BT) // len(self.sentences)

    @property
    def sources(self) -> list[int]:
        """The sentence of each row."""
        each = range(self.rows_each)
        return [sentence for sentence in self.sentences for _ in each]

    @property
    def times(self) -> list[int]:
        """The step of each row."""
        each = range(self.rows_each)
        return [time for time in self.time_S.tolist() for _ in each]

    @property
    def length_S(self) -> Array:
        """Tokens of a candidate of each sentence, without the start token."""
        length_S: Array = self.time_S + (self.prompt - 1)
        return length_S

    def rows_of(self, places: list[int]) -> list[int]:
        """The rows of the sentences in these places."""
        each = self.rows_each
        return [place * each + row for place in places for row in range(each)]

    def tokens(self, row: int) -> list[int]:
        """What a row has said so far, without the prompt."""
        end = int(self.length_S[row // self.rows_each])
        said: list[int] = self.said_BT[row, self.prompt : end].tolist()
        return said

    def advance(self, chosen_B: Chosen, kept: list[int], traces: Sequence[tuple[StepTrace, ...]]) -> None:
        """Continue with these, of the sentences in these places: the one place where rows move."""
        with timed("beam/reorder"):
            # One transfer, for which nobody waits. Doubles hold all three exactly.
            found_3B = torch.from_numpy(np.stack(chosen_B)).to(self.score_B.device, non_blocking=True)
            row_B = found_3B[1].long()
            self.decoder.reorder(row_B, kept)
            self.method.reorder(row_B)
            self.newest_BT, self.score_B = found_3B[2].long()[:, None], found_3B[0].float()
            end_S = self.length_S[kept]
            said_BT = self.said_BT[chosen_B.row.astype(np.int64)]
            if end_S.max() == said_BT.shape[1]:
                said_BT = np.pad(said_BT, ((0, 0), (0, 1 + said_BT.shape[1] // 2)))
            end_B = end_S.repeat(len(said_BT) // len(kept))
            said_BT[np.arange(len(said_BT)), end_B] = chosen_B.token
            self.said_BT, self.traces = said_BT, traces
            self.sentences, self.time_S = [self.sentences[place] for place in kept], self.time_S[kept] + 1

    def replace(self, places: list[int], newer: SearchState, chosen: list[int]) -> None:
        """Sentences that are done leave their places to some of a newer search, whose rows are as many."""
        with timed("beam/replace"):
            self.decoder.replace(places, newer.decoder, chosen)
            rows, newer_rows = self.rows_of(places), newer.rows_of(chosen)
            both_2R = torch.from_numpy(np.array([rows, newer_rows]))
            row_R, newer_R = both_2R.to(self.score_B.device, non_blocking=True)
            self.newest_BT.index_copy_(0, row_R, newer.newest_BT.index_select(0, newer_R))
            self.score_B.index_copy_(0, row_R, newer.score_B.index_select(0, newer_R))
            self.said_BT[rows, : newer.said_BT.shape[1]] = newer.said_BT[newer_rows]
            self.time_S[places] = newer.time_S[chosen]
            for place, sentence in zip(places, chosen, strict=True):
                self.sentences[place] = newer.sentences[sentence]
