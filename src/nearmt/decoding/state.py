"""All state of a running beam search, reordered in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearmt.decoding.hypothesis import Candidate, StepTrace
from nearmt.models import DecoderState
from nearmt.steps import MethodState
from nearmt.timing import timed

Array = NDArray[Any]

#: The most tokens whose repetition is noticed.
REPEATED = 8
# The positions looked at for that, from the end. A repetition of 1, 2, ... tokens ends a row if all positions of its
# group in _LATER have the tokens of those in _EARLIER; _REPETITIONS are where groups begin.
_WINDOW = np.arange(-2 * REPEATED, 0)
_PERIODS = np.array([1, 1, *(period for period in range(2, REPEATED + 1) for _ in range(period))])
_LATER = np.array([-1, -2, *(-step for period in range(2, REPEATED + 1) for step in range(1, period + 1))])
_EARLIER = _LATER - _PERIODS
_REPETITIONS = np.flatnonzero(np.diff(_PERIODS, prepend=0))


class Chosen(NamedTuple):
    """Continuations, on the host: scores, the rows that they continue, and their tokens, all of one shape."""

    score: Array
    row: Array
    token: Array

    def at(self, index: Any) -> Chosen:
        return Chosen(self.score[index], self.row[index], self.token[index])

    def candidates(self) -> list[Candidate]:
        return [Candidate(s, int(r), int(t)) for s, r, t in zip(*(part.tolist() for part in self), strict=True)]


@dataclass
class BeamState:
    """Running rows of a request. A slot holds the adjacent rows of one sentence, equally many in each slot."""

    decoder: DecoderState
    method: MethodState
    sentences: list[int]  # the sentence in each slot
    time_S: Array  # the next step of each slot: 1 is the first
    prompt: int  # tokens that all rows begin with
    newest_BT: Tensor  # tokens that the decoder has not been fed yet
    score_B: Tensor  # sum of log-probabilities
    said_BT: Array  # prompt and tokens so far, on the host; undefined beyond a row's length
    total_BT: Array  # the score after each of them
    traces: Sequence[tuple[StepTrace, ...]]  # how each row came about; empty unless asked for
    last_BW: Array = field(init=False)  # the latest tokens of each row without the prompt, as far as repetitions go

    def __post_init__(self) -> None:
        at_BW = self.length_S.repeat(self.rows_each)[:, None] + _WINDOW
        last_BW = self.said_BT[np.arange(len(at_BW))[:, None], at_BW.clip(min=0)]
        # No token equals what is before the beginning.
        self.last_BW = np.where(at_BW >= self.prompt, last_BW, _WINDOW)

    @property
    def rows_each(self) -> int:
        return len(self.said_BT) // len(self.sentences)

    @property
    def length_S(self) -> Array:
        """Tokens of a candidate of each sentence, without the start token."""
        length_S: Array = self.time_S + (self.prompt - 1)
        return length_S

    def rows_of(self, slots: list[int]) -> list[int]:
        """The rows of these slots."""
        each = self.rows_each
        return [slot * each + row for slot in slots for row in range(each)]

    def tokens(self, row: int) -> list[int]:
        """The tokens of a row so far, without the prompt."""
        end = int(self.length_S[row // self.rows_each])
        said: list[int] = self.said_BT[row, self.prompt : end].tolist()
        return said

    def tokens_of(self, slot: int) -> list[list[int]]:
        """The tokens of all rows of a slot so far, without the prompt."""
        first, end = slot * self.rows_each, int(self.time_S[slot]) + self.prompt - 1
        said: list[list[int]] = self.said_BT[first : first + self.rows_each, self.prompt : end].tolist()
        return said

    def log_probs(self, row: int, score: float) -> tuple[float, ...]:
        """The log-probabilities of the tokens of a row so far, and of the next one, with which it has this score."""
        end = int(self.length_S[row // self.rows_each])
        totals = [0.0, *self.total_BT[row, self.prompt : end].tolist(), score]
        return tuple(after - before for before, after in pairwise(totals))

    def repeats_B(self) -> Array:
        """Which rows end with a repetition: the same token three times, or the same 2 to REPEATED tokens twice, [B]."""
        found_B: Array = (self.last_BW[:, -1 - REPEATED : -1] == self.last_BW[:, -1:]).any(axis=1)
        # Few rows have said their latest token just before.
        row_C = np.flatnonzero(found_B)
        if not len(row_C):
            return found_B
        last_CW = self.last_BW[row_C]
        same_CX = last_CW[:, _LATER] == last_CW[:, _EARLIER]
        found_B[row_C] = np.logical_and.reduceat(same_CX, _REPETITIONS, axis=1).any(axis=1)
        return found_B

    def advance(self, chosen_B: Chosen, kept: list[int], traces: Sequence[tuple[StepTrace, ...]]) -> None:
        """Continue the kept slots with the chosen candidates: the one place where rows move."""
        with timed("beam/reorder"):
            # One asynchronous transfer; doubles hold all three exactly.
            found_3B = torch.from_numpy(np.stack(chosen_B)).to(self.score_B.device, non_blocking=True)
            row_B = found_3B[1].long()
            self.decoder.reorder(row_B, kept)
            self.method.reorder(row_B)
            self.newest_BT, self.score_B = found_3B[2].long()[:, None], found_3B[0].float()
            end_S = self.length_S[kept]
            rows = chosen_B.row.astype(np.int64)
            said_BT, total_BT = self.said_BT[rows], self.total_BT[rows]
            if end_S.max() == said_BT.shape[1]:
                longer = (0, 0), (0, 1 + said_BT.shape[1] // 2)
                said_BT, total_BT = np.pad(said_BT, longer), np.pad(total_BT, longer)
            place_B = np.arange(len(said_BT)), end_S.repeat(len(said_BT) // len(kept))
            said_BT[place_B], total_BT[place_B] = chosen_B.token, chosen_B.score
            self.said_BT, self.total_BT, self.traces = said_BT, total_BT, traces
            self.last_BW = np.hstack([self.last_BW[rows][:, 1:], said_BT[place_B][:, None]])
            self.sentences, self.time_S = [self.sentences[slot] for slot in kept], self.time_S[kept] + 1

    def refill(self, slots: list[int], newer: BeamState, chosen: list[int]) -> None:
        """Put sentences of a waiting group, with as many rows each, into the slots of finished ones."""
        with timed("beam/replace"):
            self.decoder.replace(slots, newer.decoder, chosen)
            rows, newer_rows = self.rows_of(slots), newer.rows_of(chosen)
            both_2R = torch.from_numpy(np.array([rows, newer_rows]))
            row_R, newer_R = both_2R.to(self.score_B.device, non_blocking=True)
            self.newest_BT.index_copy_(0, row_R, newer.newest_BT.index_select(0, newer_R))
            self.score_B.index_copy_(0, row_R, newer.score_B.index_select(0, newer_R))
            self.said_BT[rows, : newer.said_BT.shape[1]] = newer.said_BT[newer_rows]
            self.total_BT[rows, : newer.total_BT.shape[1]] = newer.total_BT[newer_rows]
            self.last_BW[rows] = newer.last_BW[newer_rows]
            self.time_S[slots] = newer.time_S[chosen]
            for slot, sentence in zip(slots, chosen, strict=True):
                self.sentences[slot] = newer.sentences[sentence]
