"""Stores that change while they are used: a datastore, and views of one or several.

A live store hands out immutable snapshots. A translation reads one snapshot from its first step to its last.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol

from nearmt.contracts import Progress
from nearmt.corpus.marks import MARKS
from nearmt.datastore.search.snapshot import Snapshot
from nearmt.errors import DatastoreError, NearmtError, NearmtWarning
from nearmt.models import Adapter, TranslationModel


class LiveStore(Protocol):
    """A store that a translator retrieves from, through snapshots."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """The present content; a snapshot never changes."""

    @abstractmethod
    def check_model(self, model: TranslationModel) -> None:
        """Refuse a model other than the one that computed the keys."""

    @property
    @abstractmethod
    def cleaning(self) -> str:
        """Signature of the cleaning rules that were applied to the pairs; empty if unknown."""

    @property
    @abstractmethod
    def marks(self) -> str:
        """How protected spans are marked in tokens (`corpus.marks`); empty for not at all, or not everywhere."""

    @property
    @abstractmethod
    def adapter(self) -> Adapter | None:
        """What is merged into the weights of the model that computed the keys."""

    @property
    @abstractmethod
    def pending(self) -> int:
        """Pairs that are logged and not encoded yet, so searches do not find them."""

    @abstractmethod
    def catch_up(self, model: TranslationModel, progress: Progress | None = None) -> int:
        """Encode the pending pairs and return their number."""

    @abstractmethod
    def refresh(self, *, wait: bool = True) -> bool:
        """Load changes that other processes made; returns whether there were any.

        Without `wait`, nothing is loaded while another thread changes the store.
        """


class StoreView(LiveStore):
    """A read-only view of other stores. It follows their changes and refuses edits of its own."""

    def __init__(self, stores: Sequence[LiveStore]) -> None:
        self._stores = stores

    def check_model(self, model: TranslationModel) -> None:
        for store in self._stores:
            store.check_model(model)

    @property
    def cleaning(self) -> str:
        return "; ".join(dict.fromkeys(store.cleaning for store in self._stores))

    @property
    def marks(self) -> str:
        return min((store.marks for store in self._stores), default=MARKS)

    @property
    def adapter(self) -> Adapter | None:
        return next(iter(store.adapter for store in self._stores), None)

    @property
    def pending(self) -> int:
        return sum(store.pending for store in self._stores)

    def catch_up(self, model: TranslationModel, progress: Progress | None = None) -> int:
        return sum(store.catch_up(model, progress) for store in self._stores)

    def refresh(self, *, wait: bool = True) -> bool:
        changed = [store.refresh(wait=wait) for store in self._stores]
        return any(changed)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise DatastoreError("this is a read-only view; change the datastore itself")

    add: Callable[..., NoReturn] = _refuse
    update: Callable[..., NoReturn] = _refuse
    delete: Callable[..., NoReturn] = _refuse
    compact: Callable[..., NoReturn] = _refuse


def editable_store(store: LiveStore) -> LiveStore:
    """The store itself, or the last store under a view: new pairs are added to that one."""
    while isinstance(store, StoreView):
        store = store._stores[-1]
    return store


def learn_pending(datastore: LiveStore, model: TranslationModel) -> None:
    """Take in what was logged without a model; where that cannot be done now, translate without it."""
    if datastore.pending:
        try:
            datastore.catch_up(model)
        except NearmtError as error:
            told = f"{datastore.pending} logged pairs are not used yet: {error}"
            warnings.warn(told, NearmtWarning, stacklevel=3)
