"""The neighbours' cache: all tokens of the retrieved chunks, at hand between searches (section 3.2.2).

M = {(f(x, y_<t+i), y_t+i) for 0 <= i < c, for every retrieved chunk y_t:(t+c-1)}

Two options span the paper's strategies. The *scope* says who shares a cache: each hypothesis, all
hypotheses of a source sentence, or the whole batch. The *retention* says what a new search of a
sentence does to its earlier chunks: replace them (`last`) or join them (`all`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from nearmt.contracts import Neighbours
from nearmt.index.distances import nearest, squared_l2
from nearmt.retrieval.source import EntrySource

SCOPES = ("hypothesis", "source", "batch")
RETENTIONS = ("last", "all")
DUPLICATES = ("remove", "keep")


@dataclass(frozen=True)
class CacheConfig:
    """Who shares a cache, what it keeps, and on how many columns it compares."""

    scope: str
    retention: str
    duplicates: str
    columns: int


@dataclass(frozen=True)
class Holding:
    """The entries that one search of one sentence brought in."""

    owner: int
    entry_M: Tensor


@dataclass(frozen=True)
class CacheGroup:
    """One cache. It never changes: a search makes a new one, so hypotheses can share the old."""

    store: EntrySource
    config: CacheConfig
    holdings: tuple[Holding, ...] = field(default=())

    def with_chunks(self, owner: int, entry_M: Tensor) -> CacheGroup:
        kept = self.holdings
        if self.config.retention == "last":
            kept = tuple(holding for holding in kept if holding.owner != owner)
        return replace(self, holdings=(*kept, Holding(owner, entry_M)))

    @cached_property
    def entry_M(self) -> Tensor:
        entry_M = torch.cat([holding.entry_M for holding in self.holdings])
        return torch.unique(entry_M) if self.config.duplicates == "remove" else entry_M

    @cached_property
    def key_ME(self) -> Tensor:
        return self.store.keys(self.entry_M, self.config.columns)

    def recall(self, query_RE: Tensor, k: int) -> Neighbours:
        """The k nearest cached entries of each query, with their L2 distances (not squared)."""
        rows = query_RE.shape[0]
        entry_RK = torch.full((rows, k), -1, device=query_RE.device)
        distance_RK = torch.full((rows, k), torch.inf, device=query_RE.device)
        if self.holdings and len(self.entry_M):
            place_RK = nearest(query_RE, self.key_ME, k)
            found = place_RK.shape[1]
            entry_RK[:, :found] = self.entry_M[place_RK]
            distance_RK[:, :found] = squared_l2(query_RE, self.key_ME[place_RK]).sqrt()
        return Neighbours(entry_RK, distance_RK)


class NeighbourCache:
    """The caches of one request."""

    def __init__(self, store: EntrySource, config: CacheConfig) -> None:
        self._config = config
        self._empty = CacheGroup(store, config)
        # By row, by sentence, or one (key 0) for the batch, as the scope says.
        self._groups: dict[int, CacheGroup] = {}

    def remember(self, rows: list[int], sources: list[int], entry_RM: Tensor) -> None:
        """Take in the chunk entries [R, K * C] that these rows retrieved (-1: none)."""
        batches: dict[tuple[int, int], list[int]] = {}
        for place, (row, source) in enumerate(zip(rows, sources, strict=True)):
            batches.setdefault((self._group_of(row, source), source), []).append(place)
        for (group, source), places in batches.items():
            entry_M = entry_RM[places].flatten()
            entry_M = entry_M[entry_M >= 0]
            self._groups[group] = self._groups.get(group, self._empty).with_chunks(source, entry_M)

    def recall(self, rows: list[int], sources: list[int], query_RE: Tensor, k: int) -> Neighbours:
        """The k nearest cached entries of each of these rows."""
        members: dict[int, list[int]] = {}
        for place, (row, source) in enumerate(zip(rows, sources, strict=True)):
            members.setdefault(self._group_of(row, source), []).append(place)
        order = [place for places in members.values() for place in places]
        found = [self._groups.get(group, self._empty).recall(query_RE[places], k) for group, places in members.items()]
        back = torch.tensor(order, device=query_RE.device).argsort()
        return Neighbours(
            torch.cat([part.entry_BK for part in found])[back],
            torch.cat([part.distance_BK for part in found])[back],
        )

    def reorder(self, row_B: Tensor) -> None:
        if self._config.scope == "hypothesis":
            rows = row_B.tolist()
            self._groups = {new: self._groups[old] for new, old in enumerate(rows) if old in self._groups}

    def _group_of(self, row: int, source: int) -> int:
        return {"hypothesis": row, "source": source, "batch": 0}[self._config.scope]
