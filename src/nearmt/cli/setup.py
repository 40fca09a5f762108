"""Making a translator from settings: check them first, then load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearmt.cli.console import waiting
from nearmt.cli.given import pick
from nearmt.config.run import RunConfig
from nearmt.datastore import Datastore, FilteredStore, JoinedStore, LiveStore, StoreConfig
from nearmt.datastore.disk import Manifest
from nearmt.datastore.edit.adapting import read_adapter
from nearmt.datastore.filters import Filter
from nearmt.datastore.joined import check_alike
from nearmt.datastore.search.remote import remote_use, store_device
from nearmt.decoding import BeamConfig
from nearmt.errors import ConfigError, DatastoreError, InputError
from nearmt.methods import METHOD_CONFIGS, PRESETS
from nearmt.models import Adapter, ModelConfig, TranslationModel, load_model, resolve_device
from nearmt.models.directions import known_direction
from nearmt.models.naming import name_from_store
from nearmt.translator import Translator


@dataclass(frozen=True)
class Plan:
    """A system with checked settings of which nothing is loaded yet."""

    method: str
    method_settings: dict[str, Any]
    model: ModelConfig
    #: What is merged into the model's weights.
    adapter: Adapter | None
    #: Folders and their weights; empty for method plain.
    datastores: tuple[tuple[str, float], ...]
    filters: tuple[str, ...]
    store: StoreConfig
    beam: BeamConfig
    batch_size: int


class Loader:
    """Makes translators, and loads models and datastores that they share once."""

    def __init__(self) -> None:
        self._models: dict[tuple[ModelConfig, str | None], TranslationModel] = {}
        self._datastores: dict[tuple[str, StoreConfig, str], Datastore] = {}

    def translator(self, plan: Plan) -> Translator:
        # A damaged store is found before the model is loaded, which takes longer.
        memory = self._memory(plan, resolve_device(plan.model.device)) if plan.datastores else None
        key = plan.model, None if plan.adapter is None else plan.adapter.fingerprint
        if key not in self._models:
            with waiting("loading the model"):
                self._models[key] = load_model(plan.model, plan.adapter)
        model = self._models[key]
        return Translator(model, memory, plan.method, plan.method_settings, plan.beam, plan.batch_size)

    def _memory(self, plan: Plan, model_device: str) -> LiveStore:
        """The datastore, or several joined, with the filters applied."""
        stores = [(self._datastore(folder, plan.store, model_device), weight) for folder, weight in plan.datastores]
        memory: LiveStore = stores[0][0] if len(stores) == 1 else JoinedStore(stores)
        return FilteredStore(memory, plan.filters) if plan.filters else memory

    def _datastore(self, folder: str, config: StoreConfig, model_device: str) -> Datastore:
        key = folder, config, model_device
        if key not in self._datastores:
            device = config.store_device or store_device(Path(folder), config.nominate, model_device)
            with waiting("opening the datastore"):
                self._datastores[key] = Datastore.open(
                    folder, nominate=config.nominate, device=device, remote=remote_use(config)
                )
        return self._datastores[key]


def make_translator(settings: Mapping[str, Any], typed: frozenset[str] = frozenset()) -> Translator:
    """Load what the settings name. `typed` are those of the command line, none of which may be ignored."""
    return Loader().translator(make_plan(settings, typed))


def make_plan(settings: Mapping[str, Any], typed: frozenset[str] = frozenset()) -> Plan:
    """Check settings, files and languages without loading anything."""
    run = pick(RunConfig, settings)
    stores = weighted_stores(run.datastore or ())
    manifests = [(folder, Manifest.load(Path(folder))) for folder, _ in stores]
    check_alike([(folder, manifest, manifest.entries) for folder, manifest in manifests])
    for folder, manifest in manifests:
        _check_languages(folder, manifest, settings)
    filters = tuple(str(Filter.parse(text)) for text in run.filter or ())
    if filters and not stores and "filter" in typed:
        raise ConfigError(f"filter = {filters[0]!r}: there is nothing to filter; give --datastore DIR")
    name = method_name(settings)
    # Bad values are refused here, including those of a file for methods that are not used.
    for config in METHOD_CONFIGS.values():
        pick(config, settings)
    method_settings = _method_settings(name, settings, typed)
    if (network := method_settings.get("adaptive")) and not Path(network).is_file():
        raise InputError(f"{network}: cannot be read (no such file; `nearmt train-adaptive` makes one)")
    model = pick(ModelConfig, {**(model_of(*manifests[0], settings) if manifests else {}), **settings})
    resolve_device(model.device)
    known_direction(model)
    return Plan(
        method=name,
        method_settings=method_settings,
        model=model,
        adapter=read_adapter(Path(manifests[0][0]), manifests[0][1]) if manifests else None,
        datastores=stores if name != "plain" else (),
        filters=filters,
        store=pick(StoreConfig, settings),
        beam=pick(BeamConfig, settings),
        batch_size=settings.get("batch-size", 8),
    )


def _check_languages(folder: str, manifest: Manifest, settings: Mapping[str, Any]) -> None:
    """Refuse languages that are not those of the store."""
    mine = manifest.source_lang, manifest.target_lang
    asked = settings.get("source-lang") or mine[0], settings.get("target-lang") or mine[1]
    if asked != mine:
        raise DatastoreError(f"{folder}: translates {mine[0]} to {mine[1]}, not {asked[0]} to {asked[1]}")


def weighted_stores(texts: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """Folders and weights, given as DIR or DIR=WEIGHT; those with weight 0 are left out."""
    stores: dict[Path, tuple[str, float]] = {}
    for text in texts:
        folder, weight = _weighted(text)
        if Path(folder).resolve() in stores:
            raise ConfigError(f"datastore = {text!r}: {folder} is named twice; once is enough")
        stores[Path(folder).resolve()] = folder, weight
    if stores and not any(weight for _, weight in stores.values()):
        raise ConfigError(f"datastore = {texts[0]!r}: no datastore has a weight above 0; leave --datastore out")
    return tuple((folder, weight) for folder, weight in stores.values() if weight)


def _weighted(text: str) -> tuple[str, float]:
    folder, sign, weight = text.rpartition("=")
    # The name of a folder may contain `=`.
    if not sign or Path(text).exists():
        return text, 1.0
    try:
        value = float(weight)
    except ValueError:
        if not Path(folder).is_dir():
            return text, 1.0
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ConfigError(f"datastore = {text!r}: the weight after = must be a number of at least 0")
    return folder, value


def method_name(settings: Mapping[str, Any]) -> str:
    return settings.get("method") or ("chunk" if settings.get("datastore") else "plain")


def model_of(folder: Path | str, manifest: Manifest, given: Mapping[str, Any]) -> dict[str, Any]:
    """The model settings that a datastore records; the recorded name is checked unless a model is given."""
    name = manifest.model if "model" in given else name_from_store(manifest.model, folder)
    languages = {"source-lang": manifest.source_lang, "target-lang": manifest.target_lang}
    return {"model": name, "key-layer": manifest.key_layer, **languages}


def _methods_with(setting: str) -> str:
    names = [name for name, config in METHOD_CONFIGS.items() if setting in config.public_fields()]
    return f"{', '.join(names)} (they need --datastore DIR)"


def _method_settings(name: str, settings: Mapping[str, Any], typed: frozenset[str]) -> dict[str, Any]:
    known = METHOD_CONFIGS[name].public_fields()
    of_any = {setting for config in METHOD_CONFIGS.values() for setting in config.public_fields()}
    for setting in sorted(typed & of_any - set(known)):
        raise ConfigError(f"method '{name}' has no setting '{setting}'; methods with it: {_methods_with(setting)}")
    if "preset" in typed and name != "chunk":
        raise ConfigError(f"method '{name}' has no presets; they are strategies of method 'chunk'")
    if name != "plain" and not settings.get("datastore"):
        raise ConfigError(f"method '{name}' needs a datastore: give --datastore DIR (`nearmt build` makes one)")
    preset = settings.get("preset")
    chosen = {**(PRESETS[preset] if preset and name == "chunk" else {}), **settings}
    picked = {setting: value for setting, value in chosen.items() if setting in known}
    METHOD_CONFIGS[name].from_mapping(picked)
    return picked
