"""Methods: the model's distribution in, the distribution that the beam maximises out.

Settings need no torch; the methods themselves are imported when one is made.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nearmt.config.methods import (
    METHOD_CONFIGS,
    METHODS,
    PRESETS,
    ChunkConfig,
    EfficientConfig,
    KnnConfig,
    RetomatonConfig,
    SkMtConfig,
    SubsetConfig,
)
from nearmt.errors import ConfigError

if TYPE_CHECKING:
    from nearmt.methods.chunk import ChunkMethod
    from nearmt.methods.knn import KnnMethod
    from nearmt.methods.plain import PlainMethod
    from nearmt.retrieval.source import LiveSource
    from nearmt.steps import Method

__all__ = [
    "METHODS",
    "METHOD_CONFIGS",
    "PRESETS",
    "ChunkConfig",
    "ChunkMethod",
    "EfficientConfig",
    "KnnConfig",
    "KnnMethod",
    "PlainMethod",
    "RetomatonConfig",
    "SkMtConfig",
    "SubsetConfig",
    "make_method",
]

#: Module and class of each method. Methods that the paper compares with, and its own cache strategies, are research.
_CLASSES = {
    "plain": ("nearmt.methods.plain", "PlainMethod"),
    "knn": ("nearmt.methods.knn", "KnnMethod"),
    "chunk": ("nearmt.methods.chunk", "ChunkMethod"),
    "efficient": ("nearmt.research.methods.efficient", "EfficientMethod"),
    "subset": ("nearmt.research.methods.subset", "SubsetMethod"),
    "sk-mt": ("nearmt.research.methods.sk_mt", "SkMtMethod"),
    "retomaton": ("nearmt.research.methods.retomaton", "RetomatonMethod"),
    "chunk variant": ("nearmt.research.methods.paper_chunk", "PaperChunkMethod"),
}
_EXPORTED = {name: (module, name) for module, name in _CLASSES.values() if module.startswith("nearmt.methods")}


def __getattr__(name: str) -> Any:
    if name in _EXPORTED:
        return _imported(*_EXPORTED[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _imported(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def make_method(name: str, store: LiveSource | None, settings: Mapping[str, Any] | None = None) -> Method:
    """A method by name, with settings by their public names (`lambda`, `cache-lambda`, ...)."""
    settings = settings or {}
    if name not in METHODS:
        raise ConfigError(f"method = {name!r}: must be one of {', '.join(METHODS)}")
    if name == "plain":
        if settings:
            raise ConfigError(f"method 'plain' has no setting '{next(iter(settings))}'")
        plain: Method = _imported(*_CLASSES["plain"])()
        return plain
    if store is None:
        raise ConfigError(f"method '{name}' needs a datastore: give --datastore DIR (or build one with `nearmt build`)")
    config = METHOD_CONFIGS[name].from_mapping(settings)
    variant = isinstance(config, ChunkConfig) and config.is_variant
    method: Method = _imported(*_CLASSES[f"{name} variant" if variant else name])(store, config)
    return method
