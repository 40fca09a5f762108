"""The model alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from nearmt.contracts import Scores, Step


class PlainState:
    """Remembers nothing."""

    def scores(self, step: Step) -> Scores:
        return Scores.of(step.logits_BV)

    def lags(self, sources: list[int]) -> list[float]:
        return [math.inf] * len(sources)

    def reorder(self, row_B: Tensor) -> None:
        pass

    def leave(self, sources: list[int]) -> None:
        pass


class PlainMethod:
    """p = p_NMT: the base model's translation."""

    shares_batch = False
    by_sentence = True

    def begin(
        self, source_lengths: Sequence[int], max_steps: int, trace: bool, sources: Sequence[Sequence[int]] = ()
    ) -> PlainState:
        return PlainState()

    def signature(self) -> str:
        return "method:plain"
