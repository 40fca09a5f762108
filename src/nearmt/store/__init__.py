"""Datastore, index and reduction put together: build, add, search."""

from nearmt.store.build import BuildConfig
from nearmt.store.datastore import Datastore, StoreConfig
from nearmt.store.masked import MaskedStore
from nearmt.store.prune import PruneConfig, prune, unprune
from nearmt.store.reindex import rebuild, reindex

__all__ = [
    "BuildConfig",
    "Datastore",
    "MaskedStore",
    "PruneConfig",
    "StoreConfig",
    "prune",
    "rebuild",
    "reindex",
    "unprune",
]
