"""What a way of retrieving gives at each step, and the simplest way: search every time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from nearmt.contracts import Neighbours, Origin
from nearmt.engines.cuda.graphs import Pool, Recorder
from nearmt.engines.reference.distances import filled_up
from nearmt.retrieval.source import EntrySource


@dataclass
class Retrieved:
    """The neighbours of every row at one step; entry -1 and distance inf fill up.

    Distances are squared where they come from a search. In the neighbours' cache they are not squared and
    taken on the cache columns.
    """

    asked_B: Tensor  # Origin of each row's neighbours, should it have any
    entry_BK: Tensor
    distance_BK: Tensor

    @classmethod
    def nothing(cls, rows: int, k: int, device: torch.device) -> Retrieved:
        """No neighbours for any row."""
        return cls(
            asked_B=torch.full((rows,), int(Origin.MODEL), device=device),
            entry_BK=torch.full((rows, k), -1, device=device),
            distance_BK=torch.full((rows, k), torch.inf, device=device),
        )

    @classmethod
    def all_of(cls, origin: Origin, found: Neighbours, k: int) -> Retrieved:
        """Neighbours of one kind for all rows."""
        asked_B = torch.full((len(found.entry_BK),), int(origin), device=found.entry_BK.device)
        found = filled_up(found, k)
        return cls(asked_B, found.entry_BK, found.distance_BK)

    def first(self, rows: int) -> Retrieved:
        """That of the first rows, where it is."""
        return Retrieved(self.asked_B[:rows], self.entry_BK[:rows], self.distance_BK[:rows])

    def to(self, device: torch.device) -> Retrieved:
        """The same, where a model on another device needs it."""
        if self.entry_BK.device == device:
            return self
        return Retrieved(self.asked_B.to(device), self.entry_BK.to(device), self.distance_BK.to(device))

    @property
    def origin_B(self) -> Tensor:
        """Origin of each row; one that has no neighbours keeps to the model."""
        return torch.where((self.entry_BK >= 0).any(dim=1), self.asked_B, int(Origin.MODEL))

    def put(self, row_R: Tensor | slice, origin: Origin, found: Neighbours) -> None:
        """Neighbours for some rows."""
        # A row is filled anew: another kind of step may have found more.
        found = filled_up(found, self.entry_BK.shape[1])
        entry_RK, distance_RK = found.entry_BK, found.distance_BK
        if isinstance(row_R, slice):
            self.asked_B[row_R], self.entry_BK[row_R], self.distance_BK[row_R] = int(origin), entry_RK, distance_RK
        else:  # to set a number by index the program would wait for a GPU
            self.asked_B.index_fill_(0, row_R, int(origin))
            self.entry_BK.index_copy_(0, row_R, entry_RK)
            self.distance_BK.index_copy_(0, row_R, distance_RK)


class Retriever(Protocol):
    """Finds neighbours for the rows of one request, step by step."""

    #: How often the datastore was searched for each sentence.
    searches: list[int]

    def retrieve(self, query_BD: Tensor, times: list[int], sources: list[int]) -> Retrieved:
        """The neighbours of rows that are at these steps (1 is the first) of these sentences."""

    def reorder(self, row_B: Tensor) -> None:
        """Row i continues as what was row `row_B[i]`."""

    def leave(self, sources: list[int]) -> None:
        """These sentences are done."""


class EveryStep:
    """Searches the datastore at every step, as kNN-MT does."""

    def __init__(self, store: EntrySource, k: int, sentences: int, recorders: Pool[Recorder]) -> None:
        self._store, self._k = store, k
        self.searches = [0] * sentences
        gathered = store.gathered
        #: Searches that always do the same are recorded.
        self._record: Recorder | None = None
        if gathered is not None and gathered.steady:
            self._record = recorders.take(self, gathered, lambda: Recorder(gathered.token_N.device))

    def retrieve(self, query_BD: Tensor, times: list[int], sources: list[int]) -> Retrieved:
        sentences = set(sources)
        for sentence in sentences:
            self.searches[sentence] += 1
        return Retrieved.all_of(Origin.SEARCH, self._search(query_BD, len(sentences)), self._k)

    def reorder(self, row_B: Tensor) -> None:
        pass

    def leave(self, sources: list[int]) -> None:
        pass

    def _search(self, query_BD: Tensor, sentences: int) -> Neighbours:
        store, k = self._store, self._k
        if self._record is None:
            return store.search(query_BD, k)

        def search(query_BD: Tensor) -> tuple[Tensor, ...]:
            found = store.search(query_BD, k)
            return found.entry_BK, found.distance_BK

        return Neighbours(*self._record(("search", k), search, query_BD, sentences=sentences))
