"""Which of several pairs with the source of a unit is its translation: that of the same context, else the latest.

A context match (ICE match, 101 %) has the same source in the same context: the same msgctxt or name, or the same
sources before and after it. The neighbours of a stored pair are the pairs around it, unless its metadata name others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from nearmt.contracts import Pair
from nearmt.corpus import Unit, clean
from nearmt.corpus.context import context_of, keys_of, named_neighbours

SEVERAL = "the memory has other translations of this source"
ELSEWHERE = "from another context"


class Rank(IntEnum):
    """How well the context of an exact match fits, best last."""

    ELSEWHERE = 1  # the pair has a context, and the unit has none or another one
    EXACT = 2  # nothing is known of the pair's context
    CONTEXT = 3  # the same context


@dataclass(frozen=True)
class ExactMatch:
    """A stored pair with the source of a unit."""

    pair: Pair
    in_context: bool
    #: Why its translation has to be reviewed; empty if it has not.
    review: str = ""


@dataclass(frozen=True)
class Candidate:
    """A pair with the source of a unit, and the sources of the pairs stored before and after it."""

    unit: Unit
    pair: Pair
    around: tuple[str, str]

    @cached_property
    def standing(self) -> tuple[Rank, bool, bool, bool]:
        """How well its context fits: by its name, its context, and its neighbours."""
        unit, context = self.unit, context_of(self.pair.metadata)
        named = bool(unit.key) and unit.key in (self.pair.id, *keys_of(self.pair.metadata))
        same = bool(unit.context) and unit.context == context
        neighbours = (unit.previous, unit.following)
        near = any(neighbours) and neighbours == (named_neighbours(self.pair.metadata) or self.around)
        if named or same or (near and not self.is_elsewhere):
            return Rank.CONTEXT, named, same, near
        return Rank.ELSEWHERE if context and context != unit.context else Rank.EXACT, False, False, near

    @property
    def is_elsewhere(self) -> bool:
        """Whether both contexts are known, and differ."""
        context = context_of(self.pair.metadata)
        return bool(context and self.unit.context) and context != self.unit.context


def best_of(candidates: Sequence[Candidate]) -> ExactMatch | None:
    """The pair whose context fits best; of equal ones the first, which is the latest."""
    if not candidates:
        return None
    best = max(candidates, key=lambda candidate: candidate.standing)
    in_context = best.standing[0] is Rank.CONTEXT
    if in_context:
        rivals = [candidate for candidate in candidates if candidate.standing == best.standing]
    else:
        rivals = [candidate for candidate in candidates if candidate.standing[0] is best.standing[0]]
    several = len({clean(rival.pair.target) for rival in rivals}) > 1
    reasons = [SEVERAL] * several + [ELSEWHERE] * (not in_context and best.is_elsewhere)
    return ExactMatch(best.pair, in_context, ", ".join(reasons))
