"""What retrieval needs of a datastore."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from nearmt.contracts import Neighbours
from nearmt.engines.cpu.nearest import EntryRows
from nearmt.engines.cuda.gathered import GatheredEntries


class SnapshotSource(Protocol):
    """A store that may change between requests."""

    def snapshot(self) -> EntrySource:
        """The present content; a request reads one snapshot from its first step to its last."""


class EntrySource(Protocol):
    """Entries by number, in corpus order. An entry of -1 is none."""

    def snapshot(self) -> EntrySource:
        """Itself: a source that never changes can be used as a `SnapshotSource`."""

    @property
    def identity(self) -> str:
        """Changes whenever the content does."""

    @property
    def pair_count(self) -> int:
        """Pairs that can be found."""

    @property
    def search_scale(self) -> float:
        """Typical squared distance of a query to its neighbours: the unit of T."""

    def scale(self, columns: int) -> float:
        """Typical distance, not squared, on so many leading columns: the unit of T'."""

    @property
    def likely_weight(self) -> float | None:
        """Lambda under which the store's own held-out tokens are most likely, if it was measured."""

    @property
    def columns(self) -> int:
        """Columns of the keys, the most telling first."""

    def query(self, hidden_BH: Tensor) -> Tensor:
        """Decoder states as keys of this store, [B, D]."""

    def search(self, query_BD: Tensor, k: int) -> Neighbours:
        """The k nearest entries with their squared distances."""

    def tokens(self, entry: Tensor) -> Tensor:
        """Target tokens of entries, any shape."""

    def weights(self, entry: Tensor) -> Tensor | None:
        """How much each of these counts, any shape: how many it stands for (0: merged into another), times the
        weight of its store. None where all count alike."""

    def keys(self, entry_M: Tensor, columns: int) -> Tensor:
        """The first columns of the entries' keys, [M, columns]."""

    def nearest(self, query_BE: Tensor, candidate_BX: Tensor, k: int) -> Neighbours:
        """The k nearest of each row's candidates (-1: none) by squared distance, on the query's columns."""

    @property
    def gathered(self) -> GatheredEntries | None:
        """All entries as kernels on a GPU read them; None where there are none."""

    @property
    def rows(self) -> EntryRows | None:
        """All entries as kernels on a CPU read them; None where there are none."""

    def chunks(self, entry_BK: Tensor, size: int) -> Tensor:
        """The entries of each chunk, [B, K, size]; -1 beyond the end of its sentence."""

    @property
    def knows_sources(self) -> bool:
        """Whether similar sources can be found at all: stores made before nearmt 0.3 have none."""

    def similar_each(self, sources: Sequence[Sequence[int]], count: int) -> Tensor:
        """Of each sentence all entries of up to `count` pairs whose source tokens have most in common with its own,
        [S, X]; -1 fills up."""

    def trust_each(self, sources: Sequence[Sequence[int]], trusted: tuple[float, float]) -> list[float]:
        """How far sources like these are what the store is about: 0 for strange ones, 1 for familiar ones.

        `trusted` says what is strange and what is familiar, in shares of the mark that nearly all of its own reach.
        """
