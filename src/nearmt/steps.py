"""What beam search and methods say to each other: a request, its steps, and the scores of each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from nearmt.contracts import Evidence, Scores
from nearmt.engines.base import Scoring
from nearmt.models import TranslationModel
from nearmt.models.words import SourceWords
from nearmt.retrieval.source import EntrySource, LiveSource


@dataclass(frozen=True)
class Request:
    """Sentences that one beam search decodes. A sentence is named by its position here.

    Where methods keep all state per sentence, sentences may be appended at any time before they begin.
    """

    #: Subword ids of each sentence.
    sources: Sequence[Sequence[int]]
    #: |x| of each sentence: subwords with the end of sentence, without language tags.
    lengths: Sequence[int]
    #: The most steps of any sentence.
    max_steps: int
    #: The model's.
    device: torch.device
    scoring: Scoring
    #: Keep the evidence of every step.
    trace: bool = False
    #: The words of each sentence; empty if they are not known.
    words: Sequence[SourceWords] = ()


@dataclass(frozen=True)
class Step:
    """The model's output at one step. Slot s of the batch holds the adjacent rows of one sentence."""

    #: Owned by the method, which may change them.
    logits_BV: Tensor
    hidden_BH: Tensor
    #: Of each slot: its step, 1 for the first token that is not forced, and its sentence.
    times: Sequence[int]
    sentences: Sequence[int]
    #: Tokens that end a sentence.
    ends: Sequence[int] = ()
    #: Rows that end with a repetition; None if there are none.
    repeating: Sequence[int] | None = None
    #: The latest token of every row, [B], that of the prompt at first.
    newest_B: Tensor | None = None

    @property
    def rows_each(self) -> int:
        return len(self.logits_BV) // len(self.sentences)


class MethodState(Protocol):
    """A method's state during one request."""

    @property
    def searches(self) -> Sequence[int]:
        """How often the store was searched for each sentence."""

    @property
    def missed(self) -> Sequence[int]:
        """How many of these searches brought nothing, because a server did not answer."""

    @property
    def compared(self) -> Sequence[int]:
        """How many entries the hypotheses of each sentence were compared with, in searches and in caches."""

    @property
    def evidence(self) -> list[Evidence] | None:
        """The evidence of every step, if the request asked for a trace."""

    @property
    def store(self) -> EntrySource | None:
        """The snapshot that the evidence refers to."""

    def begin(self, sentences: Sequence[int]) -> list[float]:
        """Sentences begin. Returns the early-stopping tolerance of each relative to its best finished hypothesis; inf
        matches `generate()`."""

    def scores(self, step: Step) -> Scores:
        """log p(y_t | y_<t, x) of every row."""

    def reorder(self, row_B: Tensor) -> None:
        """Row i continues as what was row `row_B[i]`."""

    def release(self, sentences: Sequence[int]) -> None:
        """These sentences are finished."""


class Method(Protocol):
    """Turns the model's distribution into the one that the beam maximises."""

    @property
    def shares_batch(self) -> bool:
        """Whether a sentence's result depends on what shares its batch."""

    @property
    def per_sentence(self) -> bool:
        """Whether all state belongs to single sentences: then finished sentences can be replaced in their slots."""

    @property
    def store(self) -> LiveSource | None:
        """What it retrieves from, if it does."""

    @property
    def chunk(self) -> int:
        """Tokens of a retrieved chunk, for explanations."""

    def check_model(self, model: TranslationModel) -> None:
        """Refuse a model that the method was not made for."""

    def begin(self, request: Request) -> MethodState:
        """Start a request."""

    def signature(self) -> str:
        """The method and everything that can change its result."""
