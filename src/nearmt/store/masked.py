"""A datastore of which some pairs are hidden: its own sentences, translated as if they were new."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable

import numpy as np
import torch
from torch import Tensor

from nearmt.contracts import Neighbours, Pair, Progress
from nearmt.errors import DatastoreError
from nearmt.models import TranslationModel
from nearmt.store.datastore import Datastore

#: So many times k are asked for before hidden entries are dropped.
_MORE = 2


class MaskedStore(Datastore):
    """A view of a datastore in which no search finds entries of the hidden pairs.

    Pairs with the source or the target of a hidden one are hidden as well: they would give it away. A chunk
    never leaves its sentence, so chunks are safe when searches are.
    """

    def __init__(self, datastore: Datastore, hidden: Collection[int]) -> None:
        """`hidden` are numbers of pairs, in corpus order from 0."""
        vars(self).update(vars(datastore))  # the files, the keys and the index are shared
        self.hidden = _with_copies(datastore, hidden)
        hidden_P = torch.zeros(len(datastore.pair_lengths()), dtype=torch.bool)
        hidden_P[list(self.hidden)] = True
        self._seen_P = (~hidden_P).numpy()
        self._seen_N = torch.repeat_interleave(~hidden_P, datastore.pair_lengths()).to(datastore.device)
        digest = hashlib.sha256(",".join(map(str, sorted(self.hidden))).encode()).hexdigest()
        self._identity = f"{datastore.identity}-without-{len(self.hidden)}-pairs@{digest[:12]}"

    @property
    def identity(self) -> str:
        return self._identity

    def search(self, query_BD: Tensor, k: int, allowed_N: Tensor | None = None) -> Neighbours:
        """The k nearest entries that are neither hidden nor forbidden."""
        if not len(self):
            return super().search(query_BD, k, allowed_N)
        # Few pairs are hidden: asking for some more and dropping those is twice as fast as a mask.
        more = super().search(query_BD, _MORE * k, allowed_N)
        seen_BX = self._seen_N[more.entry_BK.clamp(min=0).to(self._seen_N.device)].to(query_BD.device)
        seen_BX &= more.entry_BK >= 0
        order_BK = (~seen_BX).long().argsort(dim=1, stable=True)[:, :k]
        found = Neighbours(more.entry_BK.gather(1, order_BK), more.distance_BK.gather(1, order_BK))
        short_B = seen_BX.sum(dim=1) < k
        if bool(short_B.any()):
            allowed = self._seen_N if allowed_N is None else self._seen_N & allowed_N.to(self._seen_N.device)
            exact = super().search(query_BD[short_B], k, allowed)
            found.entry_BK[short_B], found.distance_BK[short_B] = exact.entry_BK, exact.distance_BK
        return found

    def _allowed_pairs(self) -> np.ndarray:
        return self._seen_P

    def add(self, pairs: Iterable[Pair], model: TranslationModel, progress: Progress | None = None) -> int:
        raise DatastoreError(f"{self.path}: some of its pairs are hidden; add to the datastore itself")


def comparable(text: str) -> str:
    """What makes two texts the same for this purpose: letter case and white space do not matter."""
    return " ".join(text.casefold().split())


def _with_copies(datastore: Datastore, hidden: Collection[int]) -> frozenset[int]:
    """The pairs, and all that share their source or their target."""
    hidden = frozenset(hidden)
    known = [pair for number, pair in enumerate(datastore.pairs()) if number in hidden]
    sources = {comparable(pair.source) for pair in known}
    targets = {comparable(pair.target) for pair in known}
    copies = (
        number
        for number, pair in enumerate(datastore.pairs())
        if comparable(pair.source) in sources or comparable(pair.target) in targets
    )
    return hidden.union(copies)
