"""RetoMaton (Alon et al. 2022): what follows the neighbours of a step takes the place of a search at the next.

Section 3: every entry points to the next one of its text. Of the neighbours of a step, those whose token was chosen are
followed. Where that leads to at least tau (`follow`) entries, they are the neighbours of the next step, and nothing is
searched; where there are fewer, a search begins anew, and its neighbours join them. Distances are those of the present
query. In nearmt entry n points to entry n + 1, up to the end of its pair. The paper's clusters of entries with near
keys, which lead to more entries, are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from nearmt.config.methods import RetomatonConfig
from nearmt.contracts import Neighbours, Origin, Scores
from nearmt.engines.base import Retrieved, padded
from nearmt.engines.reference.distances import first_of, squared_l2
from nearmt.methods.knn import KnnMethod
from nearmt.methods.mixing import keys_of
from nearmt.methods.retrieving import RetrievingState
from nearmt.retrieval.retriever import Retriever
from nearmt.retrieval.source import EntrySource, LiveSource
from nearmt.steps import Request, Step
from nearmt.timing import timed


class PointerRetriever:
    """Follows the neighbours of each row. Shapes: W neighbours of a row: those of a search, and followed ones."""

    def __init__(self, store: EntrySource, k: int, follow: int, sentences: int) -> None:
        self._store, self._k, self._follow = store, k, follow
        self._width = k + max(0, follow - 1)  # rows that search have fewer than `follow` pointers
        self._entries = store.profile.entries
        #: The neighbours of the step before, and the token that was chosen then.
        self._entry_BW: Tensor | None = None
        self.newest_B: Tensor | None = None
        self.searches, self.missed, self.compared = ([0] * sentences for _ in range(3))

    def begin(self, sentences: Sequence[int], entry_SX: Tensor) -> None:
        """There is nothing to follow yet."""

    def retrieve(self, query_BD: Tensor, times: Sequence[int], sentences: Sequence[int]) -> Retrieved:
        each = len(query_BD) // len(sentences)
        sentence_of = [sentence for sentence in sentences for _ in range(each)]
        followed = self._followed(query_BD)
        count_B = (followed.entry_BK >= 0).sum(dim=1)
        for sentence, count in zip(sentence_of, count_B.tolist(), strict=True):
            self.compared[sentence] += count
        found = Retrieved.all_of(Origin.CACHE, followed, self._width)
        due_R = (count_B < max(1, self._follow)).nonzero()[:, 0]
        if len(due_R):
            fresh = self._store.search(query_BD[due_R], self._k)
            rest = Neighbours(followed.entry_BK[due_R], followed.distance_BK[due_R])
            found.put(due_R, Origin.SEARCH, joined(fresh, rest, self._width))
            for sentence, rows in Counter(sentence_of[row] for row in due_R.tolist()).items():
                self.searches[sentence] += 1
                self.missed[sentence] += fresh.missed
                self.compared[sentence] += rows * self._entries
        self._entry_BW = found.entry_BK
        return found

    def reorder(self, row_B: Tensor) -> None:
        if self._entry_BW is not None:
            self._entry_BW = self._entry_BW[row_B]

    def release(self, sentences: Sequence[int]) -> None:
        """What rows follow goes with them."""

    def _followed(self, query_BD: Tensor) -> Neighbours:
        """The entries that the neighbours of the step before point to, if their token was chosen."""
        if self._entry_BW is None or self.newest_B is None or not self._follow:
            none_BK = torch.full((len(query_BD), 0), -1, device=query_BD.device)
            return Neighbours(none_BK, none_BK.float())
        with timed("cache/search"):
            before_BW = self._entry_BW
            chosen_BW = (before_BW >= 0) & (self._store.tokens(before_BW) == self.newest_B[:, None])
            next_BW = torch.where(chosen_BW, self._store.chunks(before_BW, 2)[:, :, 1], -1)
            next_BW = next_BW.sort(dim=1).values
            return first_of(next_BW, squared_l2(query_BD, keys_of(self._store, next_BW)), self._width)


def joined(fresh: Neighbours, rest: Neighbours, width: int) -> Neighbours:
    """The neighbours of a search and others, each once, nearest first."""
    again_BW = (rest.entry_BK[:, :, None] == fresh.entry_BK[:, None, :]).any(dim=2)
    entry_BX = torch.cat([fresh.entry_BK, rest.entry_BK.masked_fill(again_BW, -1)], dim=1)
    distance_BX = torch.cat([fresh.distance_BK, rest.distance_BK], dim=1)
    entry_BX, order_BX = entry_BX.sort(dim=1)
    found = first_of(entry_BX, distance_BX.gather(1, order_BX), width)
    return padded(Neighbours(found.entry_BK, found.distance_BK, fresh.missed), width)


class PointerState(RetrievingState):
    """Tells the retriever which token each row has got."""

    _retriever: PointerRetriever

    def scores(self, step: Step) -> Scores:
        self._retriever.newest_B = step.newest_B
        return super().scores(step)


class RetomatonMethod(KnnMethod):
    """kNN-MT that follows its neighbours while they agree with what is written."""

    name = "retomaton"
    per_sentence = False

    config: RetomatonConfig

    def __init__(self, store: LiveSource, config: RetomatonConfig | None = None) -> None:
        # Followed neighbours have squared distances of their own: the mixer of searches fits.
        super().__init__(store, config or RetomatonConfig())

    def retriever(self, store: EntrySource, request: Request) -> Retriever:
        return PointerRetriever(store, self.config.k, self.config.follow, len(request.lengths))

    def begin(self, request: Request) -> PointerState:
        store = self.store.snapshot()
        return PointerState(self, store, self.retriever(store, request), request)
