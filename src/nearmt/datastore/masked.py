"""A store with some pairs held out: for tuning on the store's own sentences."""

from __future__ import annotations

import hashlib
from collections.abc import Collection

import numpy as np

from nearmt.corpus.cleaning import comparable
from nearmt.datastore.live_store import LiveStore, StoreView
from nearmt.datastore.search.snapshot import Snapshot


class MaskedStore(StoreView):
    """A view of a store, as of its creation, in which the hidden pairs cannot be found.

    Pairs with the source or the target of a hidden pair are hidden as well: they would give it away. A chunk
    never crosses the end of its sentence, so hiding entries from searches hides them from chunks too.
    """

    def __init__(self, store: LiveStore, hidden: Collection[int]) -> None:
        """`hidden`: pair numbers, in corpus order from 0."""
        super().__init__([store])
        whole = store.snapshot()
        self.hidden = _with_copies(whole, hidden)
        visible_P = np.ones(whole.entries.pair_count, dtype=bool)
        visible_P[list(self.hidden)] = False
        digest = hashlib.sha256(",".join(map(str, sorted(self.hidden))).encode()).hexdigest()
        self._rest = whole.restricted(visible_P, f"without-{len(self.hidden)}-pairs@{digest[:12]}")

    def snapshot(self) -> Snapshot:
        return self._rest


def _with_copies(whole: Snapshot, hidden: Collection[int]) -> frozenset[int]:
    """The given pairs, and all pairs that share a source or a target with one of them."""
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
