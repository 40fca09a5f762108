"""Settings of beam search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from nearmt.config.base import Config, option


class Bounded(Protocol):
    """What bounds the length of a model's output."""

    @property
    def prompt(self) -> list[int]: ...

    positions: int


@dataclass(frozen=True)
class BeamConfig(Config):
    """Beam search."""

    beams: int = option(5, "hypotheses kept per sentence; 1 is greedy search", low=1, high=100)
    length_penalty: float = option(1.0, "scores are divided by length ** this", low=-10, high=10)
    max_new_tokens: int | None = option(
        None, "most output tokens of a sentence (default: 3 times its source tokens, plus 32)", low=1
    )

    def limit(self, model: Bounded, source_length: int) -> int:
        """The length bound of one sentence, never beyond the model's positions."""
        wanted = self.max_new_tokens or 3 * source_length + 32
        # The last token is never fed back, so all positions but the start token's count.
        return max(len(model.prompt), min(wanted, model.positions - 1))
