"""Datastore, index and reduction put together: build, add, search."""

from nearmt.store.build import BuildConfig
from nearmt.store.datastore import Datastore, StoreConfig
from nearmt.store.filters import FilteredStore
from nearmt.store.joined import JoinedStore
from nearmt.store.masked import MaskedStore
from nearmt.store.memory import Memory
from nearmt.store.prune import PruneConfig, prune, unprune
from nearmt.store.reindex import rebuild, reindex
from nearmt.store.snapshot import Snapshot

__all__ = [
    "BuildConfig",
    "Datastore",
    "FilteredStore",
    "JoinedStore",
    "MaskedStore",
    "Memory",
    "PruneConfig",
    "Snapshot",
    "StoreConfig",
    "prune",
    "rebuild",
    "reindex",
    "unprune",
]
