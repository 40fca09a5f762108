"""Translators of requests: made once for each combination of model, memories and settings."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from nearmt.datastore import Datastore, FilteredStore, JoinedStore, LiveStore, Snapshot
from nearmt.datastore.live_store import StoreView
from nearmt.errors import ConfigError, DatastoreError
from nearmt.models import TranslationModel
from nearmt.serve.memories import Memories
from nearmt.serve.systems import System
from nearmt.translator import Translator

#: Translators that are kept.
_KEPT = 64


@dataclass
class _Entry:
    """A translator, and the datastores it was made for."""

    making: threading.Lock = field(default_factory=threading.Lock)
    stores: tuple[Datastore, ...] = ()
    translator: Translator | None = None


class Translators:
    """Translators by system; the same system has the same translator as long as its memories stay open."""

    def __init__(self, memories: Memories) -> None:
        self._memories = memories
        self._entries: OrderedDict[System, _Entry] = OrderedDict()
        self._lock = threading.Lock()
        memories.on_close.append(self._forget)

    @contextmanager
    def using(self, model: TranslationModel, system: System) -> Iterator[Translator]:
        """A translator whose memories stay open while the block runs."""
        with ExitStack() as stack:
            stores = tuple(stack.enter_context(self._memories.using(use.name)) for use in system.memories)
            yield self._translator(model, system, stores)

    def _translator(self, model: TranslationModel, system: System, stores: tuple[Datastore, ...]) -> Translator:
        entry = self._entry(system)
        with entry.making:
            same = len(entry.stores) == len(stores) and all(map(_is, entry.stores, stores))
            if entry.translator is None or not same:
                entry.translator, entry.stores = self._made(model, system, stores), stores
            return entry.translator

    def _entry(self, system: System) -> _Entry:
        with self._lock:
            entry = self._entries.setdefault(system, _Entry())
            self._entries.move_to_end(system)
            while len(self._entries) > _KEPT:
                self._entries.popitem(last=False)
            return entry

    def _made(self, model: TranslationModel, system: System, stores: Sequence[Datastore]) -> Translator:
        memory: LiveStore | None = None
        if len(stores) == 1:
            memory = stores[0]
        elif stores:
            memory = self._joined(system, stores)
        if memory is not None and self._memories.read_only:
            memory = _Unchanged(memory)
        if memory is not None and system.filters:
            memory = FilteredStore(memory, system.filters)
        return Translator(model, memory, system.method, dict(system.settings), system.beam)

    def _joined(self, system: System, stores: Sequence[Datastore]) -> LiveStore:
        try:
            return JoinedStore(zip(stores, (use.weight for use in system.memories), strict=True))
        except DatastoreError as error:  # their keys cannot be compared
            reason = str(error).replace(f"{self._memories.folder}/", "")
            raise ConfigError(f"memories {reason}") from error

    def _forget(self, name: str) -> None:
        """Drop the translators of a memory that was closed."""
        with self._lock:
            for system in [system for system in self._entries if any(use.name == name for use in system.memories)]:
                del self._entries[system]


class _Unchanged(StoreView):
    """A store whose pending pairs are left to the server that changes it."""

    def __init__(self, store: LiveStore) -> None:
        super().__init__([store])
        self._store = store

    def snapshot(self) -> Snapshot:
        return self._store.snapshot()

    @property
    def pending(self) -> int:
        return 0


def _is(one: Datastore, other: Datastore) -> bool:
    return one is other
