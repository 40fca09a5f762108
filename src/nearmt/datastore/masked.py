"""A memory some of whose pairs cannot be found: for tuning on sentences of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Collection

import numpy as np

from nearmt.datastore.memory import Memory, View
from nearmt.datastore.search.snapshot import Snapshot


class MaskedStore(View):
    """A view of a memory, as it was at one moment, in which nothing finds the hidden pairs.

    Pairs with the source or the target of a hidden one are hidden as well: they would give it away. A chunk
    never leaves its sentence, so chunks are safe when searches are.
    """

    def __init__(self, memory: Memory, hidden: Collection[int]) -> None:
        """`hidden` are numbers of pairs, in corpus order from 0."""
        super().__init__([memory])
        whole = memory.snapshot()
        self.hidden = _with_copies(whole, hidden)
        seen_P = np.ones(whole.entries.pair_count, dtype=bool)
        seen_P[list(self.hidden)] = False
        digest = hashlib.sha256(",".join(map(str, sorted(self.hidden))).encode()).hexdigest()
        self._rest = whole.restricted(seen_P, f"without-{len(self.hidden)}-pairs@{digest[:12]}")

    def snapshot(self) -> Snapshot:
        return self._rest


def comparable(text: str) -> str:
    """What makes two texts the same for this purpose: letter case and white space do not matter."""
    return " ".join(text.casefold().split())


def _with_copies(whole: Snapshot, hidden: Collection[int]) -> frozenset[int]:
    """The pairs, and all that share their source or their target."""
    hidden = frozenset(hidden)
    known = [whole.pair(number) for number in hidden]
    sources = {comparable(pair.source) for pair in known}
    targets = {comparable(pair.target) for pair in known}
    copies = []
    for number in whole.numbers():
        pair = whole.pair(number)
        if comparable(pair.source) in sources or comparable(pair.target) in targets:
            copies.append(number)
    return hidden.union(copies)
