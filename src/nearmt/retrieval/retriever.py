"""What a way of retrieving gives at each step, and the simplest way: search every time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from nearmt.contracts import Neighbours, Origin
from nearmt.retrieval.source import EntrySource


@dataclass
class Retrieved:
    """The neighbours of every row at one step; entry -1 and distance inf fill up.

    Distances are squared where they come from a search. In the neighbours' cache they are not squared and
    taken on the cache columns.
    """

    origin_B: Tensor  # Origin of each row
    entry_BK: Tensor
    distance_BK: Tensor

    @classmethod
    def nothing(cls, rows: int, k: int, device: torch.device) -> Retrieved:
        """No neighbours for any row."""
        return cls(
            origin_B=torch.full((rows,), int(Origin.MODEL), device=device),
            entry_BK=torch.full((rows, k), -1, device=device),
            distance_BK=torch.full((rows, k), torch.inf, device=device),
        )

    def put(self, row_R: Tensor | slice, origin: Origin, found: Neighbours) -> None:
        """Neighbours for some rows; a row that has none keeps to the model."""
        present_R = (found.entry_BK >= 0).any(dim=1)
        self.origin_B[row_R] = torch.where(present_R, int(origin), int(Origin.MODEL))
        # A row is filled anew: another kind of step may have found more.
        missing = self.entry_BK.shape[1] - found.entry_BK.shape[1]
        self.entry_BK[row_R] = torch.nn.functional.pad(found.entry_BK, (0, missing), value=-1)
        self.distance_BK[row_R] = torch.nn.functional.pad(found.distance_BK, (0, missing), value=torch.inf)


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

    def __init__(self, store: EntrySource, k: int, sentences: int) -> None:
        self._store, self._k = store, k
        self.searches = [0] * sentences

    def retrieve(self, query_BD: Tensor, times: list[int], sources: list[int]) -> Retrieved:
        for source in set(sources):
            self.searches[source] += 1
        found = Retrieved.nothing(len(sources), self._k, query_BD.device)
        found.put(slice(None), Origin.SEARCH, self._store.search(query_BD, self._k))
        return found

    def reorder(self, row_B: Tensor) -> None:
        pass

    def leave(self, sources: list[int]) -> None:
        pass
