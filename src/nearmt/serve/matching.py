"""Pairs of memories that resemble a text, and the stored pairs behind the words of a translation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import SequenceMatcher

from nearmt.contracts import Pair
from nearmt.corpus import Unit, clean, plain_text
from nearmt.datastore import Snapshot
from nearmt.serve.values import Difference, MemoryMatch

_TOKEN = re.compile(r"\w+|\S")
#: Longer texts are not compared: the time grows with the square of the length.
_LONGEST = 2000


def matches_of(
    unit: Unit | str, memories: Mapping[str, Snapshot], limit: int, threshold: float
) -> tuple[MemoryMatch, ...]:
    """Pairs with equal or similar sources, best first; of equal ones the one that a translation uses is the first."""
    unit = Unit((unit,)) if isinstance(unit, str) else unit
    text = plain_text(unit.source)
    if not clean(text):
        return ()
    found: list[MemoryMatch] = []
    for name, memory in memories.items():
        exact = memory.exact_match(unit)
        context = exact is not None and exact.in_context
        chosen = "" if exact is None else exact.pair.id
        for match in memory.matches(text, limit, threshold):
            is_chosen = match.similarity >= 1.0 and match.pair_id == chosen
            differing = () if match.similarity >= 1.0 else differences(match.source, text)
            found.append(
                MemoryMatch(
                    match.pair_id,
                    name,
                    match.source,
                    match.target,
                    match.similarity,
                    match.origin,
                    is_chosen and context,
                    differing,
                )
            )
        if exact is not None and all(match.id != chosen or match.memory != name for match in found):
            pair = exact.pair
            found.append(MemoryMatch(pair.id, name, pair.source, pair.target, 1.0, pair.origin, context))
    return tuple(sorted(found, key=lambda match: (-match.score, not match.context))[:limit])


def differences(stored: str, text: str) -> tuple[Difference, ...]:
    """The spans of a stored source whose words the text lacks; one without characters where it has more words."""
    if max(len(stored), len(text)) > _LONGEST:
        return ()
    old, new = list(_TOKEN.finditer(stored)), list(_TOKEN.finditer(text))
    matcher = SequenceMatcher(None, [token.group() for token in old], [token.group() for token in new], autojunk=False)
    found = []
    for operation, first, last, new_first, new_last in matcher.get_opcodes():
        if operation == "equal":
            continue
        start = old[first].start() if first < len(old) else len(stored)
        end = old[last - 1].end() if last > first else start
        missing = text[new[new_first].start() : new[new_last - 1].end()] if new_last > new_first else ""
        found.append(Difference(start, end, missing))
    return tuple(found)


class PairFinder:
    """Finds stored pairs by id in several memories; the last one that has the id wins, as in exact matches."""

    def __init__(self, memories: Mapping[str, Snapshot]) -> None:
        self._memories = memories
        self._known: dict[str, tuple[str, Pair] | None] = {}

    def find(self, identity: str) -> tuple[str, Pair] | None:
        """The memory and the pair with an id."""
        if identity not in self._known:
            self._known[identity] = self._found(identity)
        return self._known[identity]

    def _found(self, identity: str) -> tuple[str, Pair] | None:
        for name, memory in reversed(list(self._memories.items())):
            if (number := memory.find(identity)) is not None:
                return name, memory.pair(number)
        return None
