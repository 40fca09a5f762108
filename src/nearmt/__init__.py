"""nearmt: adapt a frozen translation model by looking things up in a translation memory.

import nearmt

translator = nearmt.Translator("de-en")
memory = nearmt.Datastore.build("memory", nearmt.read_pairs("memory.tsv"), translator.model)
print(translator.with_datastore(memory).translate("Ein Satz aus dem Handbuch.").text)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.5.0"

if TYPE_CHECKING:
    from nearmt.config.schedule import EverySchedule, GeometricSchedule
    from nearmt.contracts import Pair, Silenced, TokenProvenance, Translation, Witness
    from nearmt.corpus import CleaningConfig, LimitsConfig, Match, PairStream, read_pairs
    from nearmt.datastore import BuildConfig, Datastore, FilteredStore, JoinedStore
    from nearmt.decoding import BeamConfig
    from nearmt.documents import FillConfig, FillSummary, fill_document
    from nearmt.errors import (
        ConfigError,
        DamagedError,
        DatastoreError,
        InputError,
        MissingPackageError,
        ModelError,
        NearmtError,
        OutputError,
    )
    from nearmt.methods import ChunkConfig, ChunkMethod, KnnConfig, KnnMethod, PlainMethod
    from nearmt.models import ModelConfig, TranslationModel, load_model
    from nearmt.research.evaluation import Evaluation, evaluate
    from nearmt.stream import Session
    from nearmt.translator import Translator

# Imported when first used: `nearmt --help` and `nearmt info` need neither torch nor a model.
_HOMES = {
    "nearmt.contracts": ("Pair", "Silenced", "TokenProvenance", "Translation", "Witness"),
    "nearmt.corpus": ("CleaningConfig", "LimitsConfig", "Match", "PairStream", "read_pairs"),
    "nearmt.decoding": ("BeamConfig",),
    "nearmt.documents": ("FillConfig", "FillSummary", "fill_document"),
    "nearmt.errors": (
        "ConfigError",
        "DamagedError",
        "DatastoreError",
        "InputError",
        "MissingPackageError",
        "ModelError",
        "NearmtError",
        "OutputError",
    ),
    "nearmt.research.evaluation": ("Evaluation", "evaluate"),
    "nearmt.methods": ("ChunkConfig", "ChunkMethod", "KnnConfig", "KnnMethod", "PlainMethod"),
    "nearmt.models": ("ModelConfig", "TranslationModel", "load_model"),
    "nearmt.config.schedule": ("EverySchedule", "GeometricSchedule"),
    "nearmt.datastore": ("BuildConfig", "Datastore", "FilteredStore", "JoinedStore"),
    "nearmt.stream": ("Session",),
    "nearmt.translator": ("Translator",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "BeamConfig",
    "BuildConfig",
    "ChunkConfig",
    "ChunkMethod",
    "CleaningConfig",
    "ConfigError",
    "DamagedError",
    "Datastore",
    "DatastoreError",
    "Evaluation",
    "EverySchedule",
    "FillConfig",
    "FillSummary",
    "FilteredStore",
    "GeometricSchedule",
    "InputError",
    "JoinedStore",
    "KnnConfig",
    "KnnMethod",
    "LimitsConfig",
    "Match",
    "MissingPackageError",
    "ModelConfig",
    "ModelError",
    "NearmtError",
    "OutputError",
    "Pair",
    "PairStream",
    "PlainMethod",
    "Session",
    "Silenced",
    "TokenProvenance",
    "Translation",
    "TranslationModel",
    "Translator",
    "Witness",
    "evaluate",
    "fill_document",
    "load_model",
    "read_pairs",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'nearmt' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
