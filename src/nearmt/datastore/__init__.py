"""Datastores: build, open, edit, search and maintain them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nearmt.config.building import BuildConfig
    from nearmt.config.store import StoreConfig
    from nearmt.datastore.filters import FilteredStore
    from nearmt.datastore.joined import JoinedStore
    from nearmt.datastore.live_store import LiveStore
    from nearmt.datastore.masked import MaskedStore
    from nearmt.datastore.search.snapshot import Snapshot
    from nearmt.datastore.store import Datastore
    from nearmt.datastore.upkeep.prune import PruneConfig, prune, unprune
    from nearmt.datastore.upkeep.reindex import rebuild, reindex

# Imported on first use: the log, the ledger and the manifest (`datastore.disk`) need no torch.
_MODULES = {
    "BuildConfig": "edit.build",
    "Datastore": "store",
    "FilteredStore": "filters",
    "JoinedStore": "joined",
    "MaskedStore": "masked",
    "LiveStore": "live_store",
    "PruneConfig": "upkeep.prune",
    "Snapshot": "search.snapshot",
    "StoreConfig": "store",
    "prune": "upkeep.prune",
    "rebuild": "upkeep.reindex",
    "reindex": "upkeep.reindex",
    "unprune": "upkeep.prune",
}

__all__ = [
    "BuildConfig",
    "Datastore",
    "FilteredStore",
    "JoinedStore",
    "LiveStore",
    "MaskedStore",
    "PruneConfig",
    "Snapshot",
    "StoreConfig",
    "prune",
    "rebuild",
    "reindex",
    "unprune",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'nearmt.datastore' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(f"nearmt.datastore.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
