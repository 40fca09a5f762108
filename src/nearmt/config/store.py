"""How a datastore is searched."""

from __future__ import annotations

from dataclasses import dataclass

from nearmt.config.base import Config, option

#: Indexes that can nominate neighbours; `auto` takes the one that suits the store and the device.
NOMINATORS = ("auto", "faiss", "torch", "exact")


@dataclass(frozen=True)
class StoreConfig(Config):
    """Searching the datastore."""

    nominate: str = option("auto", "index that nominates neighbours", choices=NOMINATORS)
    store_device: str | None = option(None, "device that searches the keys (default: the model's)")
