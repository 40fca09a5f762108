"""The model alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nearmt.contracts import Step


class PlainState:
    """Remembers nothing."""

    def log_probs(self, step: Step) -> Tensor:
        return torch.log_softmax(step.logits_BV, dim=-1)

    def reorder(self, row_B: Tensor) -> None:
        pass


class PlainMethod:
    """p = p_NMT: the base model's translation."""

    shares_batch = False

    def begin(self, source_lengths: Sequence[int], max_steps: int, trace: bool) -> PlainState:
        return PlainState()

    def signature(self) -> str:
        return "method:plain"
