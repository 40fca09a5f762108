"""Methods: the model's distribution in, the distribution to search out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nearmt.config.methods import (
    METHOD_CONFIGS,
    METHODS,
    PRESETS,
    ChunkConfig,
    EfficientConfig,
    KnnConfig,
)
from nearmt.contracts import Method
from nearmt.errors import ConfigError
from nearmt.methods.chunk import ChunkMethod
from nearmt.methods.efficient import EfficientMethod
from nearmt.methods.knn import KnnMethod
from nearmt.methods.plain import PlainMethod
from nearmt.retrieval.source import EntrySource

__all__ = [
    "METHODS",
    "METHOD_CONFIGS",
    "PRESETS",
    "ChunkConfig",
    "ChunkMethod",
    "EfficientConfig",
    "EfficientMethod",
    "KnnConfig",
    "KnnMethod",
    "PlainMethod",
    "make_method",
]


def make_method(name: str, store: EntrySource | None, settings: Mapping[str, Any] | None = None) -> Method:
    """A method by name, with settings by their public names (`lambda`, `cache-lambda`, ...)."""
    settings = settings or {}
    if name not in METHODS:
        raise ConfigError(f"method = {name!r}: must be one of {', '.join(METHODS)}")
    if name == "plain":
        if settings:
            raise ConfigError(f"method 'plain' has no setting '{next(iter(settings))}'")
        return PlainMethod()
    if store is None:
        raise ConfigError(f"method '{name}' needs a datastore: give --datastore DIR (or build one with `nearmt build`)")
    if name == "knn":
        return KnnMethod(store, KnnConfig.from_mapping(settings))
    if name == "efficient":
        return EfficientMethod(store, EfficientConfig.from_mapping(settings))
    return ChunkMethod(store, ChunkConfig.from_mapping(settings))
