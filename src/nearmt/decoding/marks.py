"""Every mark of a sentence exactly once in its translation: which tokens a hypothesis may continue with."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

import numpy as np
import torch
from torch import Tensor

from nearmt.decoding.state import Array, BeamState
from nearmt.models.marks import Marks, MarkTokens

_NONE = np.zeros(0, dtype=np.int64)


@dataclass
class _Changes:
    """What the rule changes at one step. Places are positions in the logits of all rows, one row after the other."""

    #: Rows in which only the kept places may follow.
    closed: list[int] = field(default_factory=list)
    kept: list[Array] = field(default_factory=list)
    banned: list[Array] = field(default_factory=list)
    #: Places that get the share `part` of what the ends of their rows have, [X, ends].
    raised: list[Array] = field(default_factory=list)
    ends: list[Array] = field(default_factory=list)
    part: list[Array] = field(default_factory=list)


class MarkRule:
    """Applies to sentences with marks; others are not touched."""

    def __init__(
        self, tokens: MarkTokens, marks: Sequence[Marks | None] | Mapping[int, Marks | None], ends: Sequence[int]
    ) -> None:
        """`marks` are those of each sentence."""
        self._tokens, self._marks, self._ends = tokens, marks, np.array(ends)

    def apply(self, state: BeamState, left: Sequence[int], logits_BV: Tensor) -> None:
        """Rule out tokens that would repeat, break or miss a mark; the logits change in place.

        `left`: how many tokens the rows of each slot may get before their last one.
        """
        changes, stride = _Changes(), logits_BV.stride(0)
        for slot, room in enumerate(left):
            if (marks := self._marks[state.sentences[slot]]) is not None:
                for row, tokens in zip(state.rows_of([slot]), state.tokens_of(slot), strict=True):
                    self._constrain(changes, row, row * stride, marks, tokens, room)
        _make(changes, logits_BV)

    def _constrain(self, changes: _Changes, row: int, start: int, marks: Marks, tokens: list[int], room: int) -> None:
        progress = self._tokens.progress(tokens)
        only, banned, openers = self._tokens.next_tokens(marks, progress)
        if only is not None:
            changes.closed.append(row)
            changes.kept.append(start + only)
            return
        changes.banned.append(start + banned)
        needed = marks.room_for(progress.written)
        if needed:
            # The sentence may not end yet: what it gives to the end goes to the marks that are missing.
            end_E = start + self._ends
            changes.banned.append(end_E)
            if len(openers):
                changes.raised.append(start + openers)
                changes.ends.append(np.broadcast_to(end_E, (len(openers), len(end_E))))
                changes.part.append(np.full(len(openers), 1 / len(openers)))
            if needed == room and len(openers):  # nothing else fits before the length limit
                changes.closed.append(row)
                changes.kept.append(start + openers)


def _make(changes: _Changes, logits_BV: Tensor) -> None:
    """All changes at once: on a GPU every operation costs a launch."""
    if not (changes.closed or changes.banned):
        return
    logits_X = logits_BV.as_strided((logits_BV.stride(0) * (len(logits_BV) - 1) + logits_BV.shape[1],), (1,))
    parts = [[np.array(changes.closed, dtype=np.int64)], changes.kept, changes.banned, changes.raised, changes.ends]
    closed, kept, banned, raised, ends = _on(logits_BV.device, parts)
    if changes.raised:
        part = torch.from_numpy(np.log(np.concatenate(changes.part), dtype=np.float32))
        end_PE = logits_X.index_select(0, ends).view(len(raised), -1)
        end_P = end_PE[:, 0] if end_PE.shape[1] == 1 else end_PE.logsumexp(dim=1)
        more_P = end_P + part.to(end_P.device, non_blocking=True)
        logits_X.index_copy_(0, raised, torch.logaddexp(logits_X.index_select(0, raised), more_P))
    if changes.banned:
        logits_X.index_fill_(0, banned, -math.inf)
    if changes.closed:
        kept_logits = logits_X.index_select(0, kept)
        logits_BV.index_fill_(0, closed, -math.inf)
        logits_X.index_copy_(0, kept, kept_logits)


def _on(device: torch.device, parts: Sequence[Sequence[Array]]) -> Iterator[Tensor]:
    """Each part on a device, by one transfer."""
    each = [np.concatenate([array.ravel() for array in arrays]) if arrays else _NONE for arrays in parts]
    every = torch.from_numpy(np.concatenate(each)).to(device, non_blocking=True)
    bounds = accumulate(map(len, each), initial=0)
    return (every[start:end] for start, end in pairwise(bounds))
