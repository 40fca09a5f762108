"""The model alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from nearmt.contracts import Scores
from nearmt.models import TranslationModel
from nearmt.steps import Request, Step


class PlainState:
    """Stateless, but for the request."""

    evidence = None
    store = None

    def __init__(self, request: Request) -> None:
        self._scoring, self._lengths = request.scoring, request.lengths

    @property
    def searches(self) -> Sequence[int]:
        return [0] * len(self._lengths)

    @property
    def missed(self) -> Sequence[int]:
        return [0] * len(self._lengths)

    @property
    def compared(self) -> Sequence[int]:
        return [0] * len(self._lengths)

    def begin(self, sentences: Sequence[int]) -> list[float]:
        return [math.inf] * len(sentences)

    def scores(self, step: Step) -> Scores:
        return self._scoring.normalise(step.logits_BV)

    def reorder(self, row_B: Tensor) -> None:
        pass

    def release(self, sentences: Sequence[int]) -> None:
        pass


class PlainMethod:
    """p = p_NMT: the base model's translation."""

    shares_batch = False
    per_sentence = True
    store = None
    chunk = 1

    def check_model(self, model: TranslationModel) -> None:
        """Fits every model."""

    def begin(self, request: Request) -> PlainState:
        return PlainState(request)

    def signature(self) -> str:
        return "method:plain"
