"""How a datastore is searched."""

from __future__ import annotations

from dataclasses import dataclass

from nearmt.config.base import Config, option

#: Indexes that can nominate neighbours; `auto` takes the one that suits the store and the device.
NOMINATORS = ("auto", "faiss", "torch", "exact")

#: What becomes of a translation whose memory has its index on a server that does not answer.
FALLBACKS = ("none", "model")


@dataclass(frozen=True)
class StoreConfig(Config):
    """Searching the datastore."""

    nominate: str = option("auto", "index that nominates neighbours", choices=NOMINATORS)
    index_fallback: str = option(
        "none", "if Milvus does not answer: none is an error, model goes on without neighbours", choices=FALLBACKS
    )
    index_timeout: float = option(10.0, "seconds in which Milvus has to answer a search", low=0.1)
    index_server: str | None = option(None, "Milvus server, if it is not the one that the datastore names")
    store_device: str | None = option(None, "device that searches the keys (default: the model's)")
