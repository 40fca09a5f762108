"""Datastore, index and reduction put together: build, add, search."""

from nearmt.config.store import StoreConfig
from nearmt.datastore.edit.build import BuildConfig
from nearmt.datastore.filters import FilteredStore
from nearmt.datastore.joined import JoinedStore
from nearmt.datastore.masked import MaskedStore
from nearmt.datastore.memory import Memory
from nearmt.datastore.search.snapshot import Snapshot
from nearmt.datastore.store import Datastore
from nearmt.datastore.upkeep.prune import PruneConfig, prune, unprune
from nearmt.datastore.upkeep.reindex import rebuild, reindex

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
