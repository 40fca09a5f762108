"""Words that a translation must not have: no hypothesis continues with one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from nearmt.decoding.state import BeamState, Chosen

#: Tokens at the end of a hypothesis that a forbidden phrase may consist of.
_TAIL = 32
Subwords = Callable[[Sequence[int]], list[str]]
#: What each sentence must not have, by its number.
Patterns = Sequence[re.Pattern[str] | None] | Mapping[int, re.Pattern[str] | None]


class ForbiddenRule:
    """Finds continuations that complete a forbidden phrase; sentences without one are not touched."""

    def __init__(self, subwords: Subwords, patterns: Patterns) -> None:
        self._subwords, self._patterns = subwords, patterns

    def broken(self, state: BeamState, chosen_SK: Chosen) -> list[tuple[int, int]]:
        """Rows with the tokens that may not follow."""
        found: list[tuple[int, int]] = []
        for slot, sentence in enumerate(state.sentences):
            if (pattern := self._patterns[sentence]) is None:
                continue
            tails: dict[int, str] = {}
            for candidate in chosen_SK.at(slot).candidates():
                if candidate.score == -float("inf"):
                    continue
                if (tail := tails.get(candidate.row)) is None:
                    tail = tails[candidate.row] = self._text(state.tokens(candidate.row)[-_TAIL:])
                whole = tail + self._text([candidate.token])
                if any(each.end() > len(tail) for each in pattern.finditer(whole)):
                    found.append((candidate.row, candidate.token))
        return found

    def _text(self, tokens: Sequence[int]) -> str:
        return "".join(self._subwords(tokens))
