"""The hypotheses of one sentence: which continue, which are finished, when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple


class StepTrace(NamedTuple):
    """One step of a hypothesis: its row then, and its token's log-probability before and after mixing."""

    row: int
    model_log_prob: float
    log_prob: float


class Candidate(NamedTuple):
    """A row continued with a token."""

    score: float  # sum of log-probabilities
    row: int
    token: int


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation."""

    tokens: list[int]  # without the prompt, with the end of sentence
    score: float  # sum of log-probabilities / length ** length penalty
    truncated: bool  # ended by the length bound, not by the model
    trace: tuple[StepTrace, ...] = ()
    steps: int = 0  # of its sentence until the beam was done, which may be after this hypothesis had ended
    searches: int = 0  # of the datastore, by its sentence
    missed: int = 0  # those of them that a server did not answer
    compared: int = 0  # entries, in searches and in caches
    others: tuple[Hypothesis, ...] = ()  # of the best: what else ended, best first
    log_probs: tuple[float, ...] = ()  # of the tokens, as the beam counted them


@dataclass
class SentenceBeam:
    """Decides like `generate()`: stop when no running hypothesis can do better than those that ended.

    `early_stopping` says what they can still reach: with False no more than at their present length, with "never" no
    more than at the bound if length is rewarded; with True the search stops once as many hypotheses as there are beams
    have ended.

    With `tolerance` it also stops when all running hypotheses score this share worse than the best finished one: even
    with certain tokens from here on, they would have to grow by this share to be as good.
    """

    size: int
    length_penalty: float
    limit: int  # most tokens, the forced first one included
    eos_ids: list[int]
    early_stopping: bool | str = False
    tolerance: float = math.inf
    finished: list[Hypothesis] = field(default_factory=list)
    steps: int = 0

    def advance(
        self,
        candidates: list[Candidate],
        length: int,
        step: int,
        finish: Callable[[Candidate, float, bool], Hypothesis],
    ) -> list[int]:
        """Take the best candidates (best first) of a step and return the ranks of those that go on.

        `length` counts the tokens of a candidate. Only the first `size` candidates may finish; the
        others are there so that enough remain to go on.
        """
        at_limit = length >= self.limit
        norm = length**self.length_penalty
        running = []
        for rank, candidate in enumerate(candidates):
            ends = candidate.token in self.eos_ids
            if not ends and not at_limit:
                running.append(rank)
            elif rank < self.size:
                self.finished.append(finish(candidate, candidate.score / norm, at_limit))
        self.finished = sorted(self.finished, key=lambda h: h.score, reverse=True)[: self.size]
        if running and candidates[running[0]].score / self.hoped_norm(length) > self.bar:
            return running[: self.size]
        self.steps = step
        return []

    def hoped_norm(self, length: int) -> float:
        """The optimistic length normalisation of a running hypothesis of `length` tokens."""
        grows = self.early_stopping == "never" and self.length_penalty > 0
        return float((self.limit if grows else length) ** self.length_penalty)

    @property
    def bar(self) -> float:
        """The score that a running hypothesis must exceed for the search to continue."""
        if not self.finished:
            return -math.inf
        full = len(self.finished) == self.size
        if full and (self.size == 1 or self.early_stopping is True):  # greedy search stops at the first end
            return math.inf
        best, worst = self.finished[0].score, self.finished[-1].score
        # Scores are logarithms: worse is further below 0.
        far_behind = -math.inf if math.isinf(self.tolerance) else (1 + self.tolerance) * best
        return max(far_behind, worst if full else -math.inf)

    @property
    def best(self) -> Hypothesis:
        return replace(self.finished[0], steps=self.steps, others=tuple(self.finished[1:]))
