"""From settings to a translator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nearmt.cli.console import waiting
from nearmt.cli.options import pick
from nearmt.datastore import Manifest
from nearmt.decoding import SearchConfig
from nearmt.errors import ConfigError
from nearmt.methods import PRESETS, ChunkConfig, KnnConfig
from nearmt.models import ModelConfig, load_model
from nearmt.store import Datastore, StoreConfig
from nearmt.translator import Translator

_METHOD_SETTINGS = {
    "plain": frozenset[str](),
    "knn": frozenset(KnnConfig.public_fields()),
    "chunk": frozenset(ChunkConfig.public_fields()),
}


def make_translator(settings: Mapping[str, Any], typed: frozenset[str] = frozenset()) -> Translator:
    """Load what the settings name. `typed` are settings that must not be ignored: the command line's."""
    folder = settings.get("datastore")
    manifest = Manifest.load(Path(folder)) if folder else None
    name = settings.get("method") or ("chunk" if folder else "plain")
    # Bad values are refused before anything is loaded, also those of a file that this method does not use.
    pick(ChunkConfig, settings)
    method_settings = _method_settings(name, settings, typed)
    search, store = pick(SearchConfig, settings), pick(StoreConfig, settings)
    with waiting("loading the model"):
        model = load_model(pick(ModelConfig, {**_model_of(manifest), **settings}))
    datastore = None
    if folder and name != "plain":
        device = store.search_device or str(model.seq2seq.device)
        with waiting("opening the datastore"):
            datastore = Datastore.open(folder, search=store.search, device=device)
    return Translator(model, datastore, name, method_settings, search, settings.get("batch-size", 8))


def _model_of(manifest: Manifest | None) -> dict[str, Any]:
    """A datastore knows its model: users need not repeat it."""
    if manifest is None:
        return {}
    languages = {"source-lang": manifest.source_lang, "target-lang": manifest.target_lang}
    return {"model": manifest.model, "key-layer": manifest.key_layer, **languages}


def _method_settings(name: str, settings: Mapping[str, Any], typed: frozenset[str]) -> dict[str, Any]:
    known = _METHOD_SETTINGS.get(name, frozenset())
    for setting in sorted(typed & _METHOD_SETTINGS["chunk"] - known):
        raise ConfigError(f"method '{name}' has no setting '{setting}'")
    if "preset" in typed and name != "chunk":
        raise ConfigError(f"method '{name}' has no presets; they are strategies of method 'chunk'")
    if name != "plain" and not settings.get("datastore"):
        raise ConfigError(f"method '{name}' needs a datastore: give --datastore DIR (`nearmt build` makes one)")
    preset = settings.get("preset")
    chosen = {**(PRESETS[preset] if preset and name == "chunk" else {}), **settings}
    picked = {setting: value for setting, value in chosen.items() if setting in known}
    if name != "plain":
        (ChunkConfig if name == "chunk" else KnnConfig).from_mapping(picked)
    return picked
