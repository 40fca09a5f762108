"""Which engine runs a system's cache: speeds are compared only between systems whose caches run on the same one.

The default cache (one for each source sentence, all chunks kept, no duplicates, chunks of fixed length) runs on the
engine of the device: C kernels, CUDA, or the torch reference. So do the entries of similar sentences. The paper's
variants, and the pointers of RetoMaton, run in plain torch everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ENGINE, TORCH = "engine", "torch"
#: The settings of the cache that engines implement; any other value selects a torch cache.
_ENGINE_CACHE = {
    "recall": "cache",
    "scope": "source",
    "retention": "all",
    "duplicates": "remove",
    "varying-chunk": False,
}


def runs_torch_cache(settings: Mapping[str, Any]) -> bool:
    """Whether these settings of method chunk select one of the paper's caches."""
    return any(settings.get(name, value) != value for name, value in _ENGINE_CACHE.items())


def cache_engine(method: str, settings: Mapping[str, Any]) -> str | None:
    """Return "torch" or "engine"; None for methods that have no cache."""
    if method == "retomaton":
        return TORCH
    if method in ("subset", "sk-mt"):
        return ENGINE
    if method != "chunk":
        return None
    return TORCH if runs_torch_cache(settings) else ENGINE
