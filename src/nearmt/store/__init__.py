"""Datastore, index and reduction put together: build, add, search."""

from nearmt.store.build import BuildConfig
from nearmt.store.datastore import Datastore, StoreConfig
from nearmt.store.reindex import rebuild, reindex

__all__ = ["BuildConfig", "Datastore", "StoreConfig", "rebuild", "reindex"]
