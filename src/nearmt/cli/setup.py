"""From settings to a translator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearmt.cli.console import waiting
from nearmt.cli.options import pick
from nearmt.datastore import Manifest
from nearmt.decoding import SearchConfig
from nearmt.errors import ConfigError
from nearmt.methods import METHOD_CONFIGS, PRESETS
from nearmt.models import ModelConfig, TranslationModel, load_model
from nearmt.store import Datastore, StoreConfig
from nearmt.translator import Translator


@dataclass(frozen=True)
class Plan:
    """A system whose settings have been checked, and of which nothing has been loaded yet."""

    method: str
    method_settings: dict[str, Any]
    model: ModelConfig
    #: None where the method needs none.
    datastore: str | None
    store: StoreConfig
    search: SearchConfig
    batch_size: int


class Loader:
    """Makes translators; what several of them share is loaded once."""

    def __init__(self) -> None:
        self._models: dict[ModelConfig, TranslationModel] = {}
        self._datastores: dict[tuple[str, str, str], Datastore] = {}

    def translator(self, plan: Plan) -> Translator:
        if plan.model not in self._models:
            with waiting("loading the model"):
                self._models[plan.model] = load_model(plan.model)
        model = self._models[plan.model]
        datastore = self._datastore(plan, str(model.seq2seq.device)) if plan.datastore else None
        return Translator(model, datastore, plan.method, plan.method_settings, plan.search, plan.batch_size)

    def _datastore(self, plan: Plan, model_device: str) -> Datastore:
        assert plan.datastore is not None
        key = (plan.datastore, plan.store.search, plan.store.search_device or model_device)
        if key not in self._datastores:
            with waiting("opening the datastore"):
                folder, search, device = key
                self._datastores[key] = Datastore.open(folder, search=search, device=device)
        return self._datastores[key]


def make_translator(settings: Mapping[str, Any], typed: frozenset[str] = frozenset()) -> Translator:
    """Load what the settings name. `typed` are settings that must not be ignored: the command line's."""
    return Loader().translator(make_plan(settings, typed))


def make_plan(settings: Mapping[str, Any], typed: frozenset[str] = frozenset()) -> Plan:
    """Check what the settings name, as far as that is possible without loading it."""
    folder = settings.get("datastore")
    manifest = Manifest.load(Path(folder)) if folder else None
    name = method_name(settings)
    # Bad values are refused before anything is loaded, also those of a file that this method does not use.
    for config in METHOD_CONFIGS.values():
        pick(config, settings)
    method_settings = _method_settings(name, settings, typed)
    return Plan(
        method=name,
        method_settings=method_settings,
        model=pick(ModelConfig, {**_model_of(manifest), **settings}),
        datastore=folder if name != "plain" else None,
        store=pick(StoreConfig, settings),
        search=pick(SearchConfig, settings),
        batch_size=settings.get("batch-size", 8),
    )


def method_name(settings: Mapping[str, Any]) -> str:
    return settings.get("method") or ("chunk" if settings.get("datastore") else "plain")


def _model_of(manifest: Manifest | None) -> dict[str, Any]:
    """A datastore knows its model: users need not repeat it."""
    if manifest is None:
        return {}
    languages = {"source-lang": manifest.source_lang, "target-lang": manifest.target_lang}
    return {"model": manifest.model, "key-layer": manifest.key_layer, **languages}


def _method_settings(name: str, settings: Mapping[str, Any], typed: frozenset[str]) -> dict[str, Any]:
    known = METHOD_CONFIGS[name].public_fields()
    of_any = {setting for config in METHOD_CONFIGS.values() for setting in config.public_fields()}
    for setting in sorted(typed & of_any - set(known)):
        raise ConfigError(f"method '{name}' has no setting '{setting}'")
    if "preset" in typed and name != "chunk":
        raise ConfigError(f"method '{name}' has no presets; they are strategies of method 'chunk'")
    if name != "plain" and not settings.get("datastore"):
        raise ConfigError(f"method '{name}' needs a datastore: give --datastore DIR (`nearmt build` makes one)")
    preset = settings.get("preset")
    chosen = {**(PRESETS[preset] if preset and name == "chunk" else {}), **settings}
    picked = {setting: value for setting, value in chosen.items() if setting in known}
    METHOD_CONFIGS[name].from_mapping(picked)
    return picked
