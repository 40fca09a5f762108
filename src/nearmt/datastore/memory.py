"""What a translator retrieves from: a datastore, a part of one, or several.

It may change while it is used: every question is asked of what it holds at that moment. A translation reads one
snapshot from its first step to its last.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn, Protocol

from torch import Tensor

from nearmt.contracts import Neighbours, Pair, Progress, SimilarSources
from nearmt.corpus import Match
from nearmt.datastore.search.snapshot import Snapshot
from nearmt.errors import DatastoreError
from nearmt.models import TranslationModel


class Memory(Protocol):
    """Implements `retrieval.source.EntrySource` for whoever says what it holds now."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """What it holds now; this does not change."""

    @abstractmethod
    def check_model(self, model: TranslationModel) -> None:
        """Refuse a model whose states are not those of this memory."""

    @property
    @abstractmethod
    def cleaning(self) -> str:
        """Signature of the cleaning that the pairs went through; empty if it is not known."""

    @property
    @abstractmethod
    def pending(self) -> int:
        """Pairs that were logged and wait for a model to be found by searches."""

    @abstractmethod
    def catch_up(self, model: TranslationModel, progress: Progress | None = None) -> int:
        """Encode the pairs that wait for a model, and return how many those were."""

    @abstractmethod
    def refresh(self) -> bool:
        """See what other processes did; whether there was anything."""

    def __len__(self) -> int:
        """Entries: one for every target token, end of sentence included; deleted ones count until they are gone."""
        return len(self.snapshot())

    @property
    def identity(self) -> str:
        return self.snapshot().identity

    # Pairs

    def pairs(self) -> Iterator[Pair]:
        """All pairs, in corpus order."""
        return self.snapshot().pairs()

    @property
    def pair_count(self) -> int:
        """Pairs that can be found."""
        return self.snapshot().pair_count

    def pair_lengths(self) -> Tensor:
        """How many entries each pair has, [P], in corpus order."""
        return self.snapshot().pair_lengths()

    def pair_of(self, entry: int) -> Pair:
        """The pair that an entry comes from."""
        return self.snapshot().pair_of(entry)

    def exact(self, source: str) -> Pair | None:
        """The latest pair with this very source."""
        return self.snapshot().exact(source)

    def matches(self, source: str, limit: int = 3, threshold: float = 0.5) -> list[Match]:
        """The pairs whose sources resemble this one most, best first."""
        return self.snapshot().matches(source, limit, threshold)

    # Neighbours

    @property
    def columns(self) -> int:
        return self.snapshot().columns

    def query(self, hidden_BH: Tensor) -> Tensor:
        return self.snapshot().query(hidden_BH)

    def search(self, query_BD: Tensor, k: int, allowed_N: Tensor | None = None) -> Neighbours:
        """The k nearest entries that are allowed (a mask over all entries), with their squared distances."""
        return self.snapshot().search(query_BD, k, allowed_N)

    def tokens(self, entry: Tensor) -> Tensor:
        return self.snapshot().tokens(entry)

    def weights(self, entry: Tensor) -> Tensor | None:
        return self.snapshot().weights(entry)

    def keys(self, entry_M: Tensor, columns: int) -> Tensor:
        return self.snapshot().keys(entry_M, columns)

    def chunks(self, entry_BK: Tensor, size: int) -> Tensor:
        return self.snapshot().chunks(entry_BK, size)

    # Sources

    def similar_pairs(self, source: Sequence[int], count: int) -> list[int]:
        """Numbers of the pairs whose source tokens have most in common with these, best first."""
        return self.snapshot().similar_pairs(source, count)

    def similar(self, sources: Sequence[Sequence[int]], count: int) -> SimilarSources:
        return self.snapshot().similar(sources, count)


class View(Memory):
    """What is seen of other memories. It follows them, and they are changed themselves."""

    def __init__(self, memories: Sequence[Memory]) -> None:
        self._memories = memories

    def check_model(self, model: TranslationModel) -> None:
        for memory in self._memories:
            memory.check_model(model)

    @property
    def cleaning(self) -> str:
        return "; ".join(dict.fromkeys(memory.cleaning for memory in self._memories))

    @property
    def pending(self) -> int:
        return sum(memory.pending for memory in self._memories)

    def catch_up(self, model: TranslationModel, progress: Progress | None = None) -> int:
        return sum(memory.catch_up(model, progress) for memory in self._memories)

    def refresh(self) -> bool:
        changed = [memory.refresh() for memory in self._memories]
        return any(changed)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise DatastoreError("this is only a view: add to the datastore itself, and change what it holds there")

    add: Callable[..., NoReturn] = _refuse
    update: Callable[..., NoReturn] = _refuse
    delete: Callable[..., NoReturn] = _refuse
    compact: Callable[..., NoReturn] = _refuse


def topmost(memory: Memory) -> Memory:
    """The memory itself, or of a view the one that lies on top: what is learnt goes there."""
    while isinstance(memory, View):
        memory = memory._memories[-1]
    return memory
