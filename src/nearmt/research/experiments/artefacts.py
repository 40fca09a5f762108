"""The artefacts of an experiment, each made once and kept in OUT: datastores, tuned settings, trained models.

OUT/stores/<domain>               the datastore
OUT/pruned/<domain>               the pruned datastore
OUT/finetuned/<domain>            the fine-tuned model
OUT/adaptive/<domain>.<method>    the network of Adaptive kNN-MT; <domain>.<row> those of the experiment field
OUT/tuned/<domain>.<row>.toml     tuned settings for `--config`; .json has all trials as well

Each is stored with a signature of its inputs and made again when that changes.
"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

from nearmt.datastore import Datastore, PruneConfig, prune
from nearmt.datastore.disk.files import write_json
from nearmt.errors import writing
from nearmt.methods import make_method
from nearmt.models import ModelConfig, TranslationModel, load_model
from nearmt.research.experiments.cells import ResultFiles
from nearmt.research.experiments.data import Domain
from nearmt.research.experiments.files import copy_store, made_once, read_object
from nearmt.research.experiments.rows import Row
from nearmt.research.experiments.setup import Setup, short
from nearmt.research.progress import ProgressBar, no_progress_bar
from nearmt.research.training.adaptive import train_adaptive
from nearmt.research.training.finetune import RECORD, finetune
from nearmt.research.training.grid import GridConfig, finetune_grid
from nearmt.research.tuning import TuneConfig, Tuned, tune, write_config

#: Batch size for tuning on a GPU, if results do not depend on it.
_GPU_BATCH = 64


class Artefacts:
    """Makes what a row needs, or takes it from OUT. Keeps models, and the datastores of one domain, loaded."""

    def __init__(self, setup: Setup, progress_bar: ProgressBar = no_progress_bar) -> None:
        self.setup, self.progress_bar = setup, progress_bar
        self.results = ResultFiles(setup.out)
        self._models: dict[ModelConfig, TranslationModel] = {}
        self._stores: dict[tuple[Path, str], Datastore] = {}

    def model(self, domain: Domain, row: Row | None = None) -> TranslationModel:
        config = self.setup.model_of(domain)
        if row is not None and row.fine_tuned:
            # Keep only one fine-tuned model loaded.
            self._models = {key: model for key, model in self._models.items() if key.model == config.model}
            config = dataclasses.replace(config, model=str(self.finetuned(domain)))
        if config not in self._models:
            with self.progress_bar("loading the model"):
                self._models[config] = load_model(config)
        return self._models[config]

    def store_path(self, domain: Domain, pruned: bool = False) -> Path:
        """Return the path of a domain's datastore; build it if it is missing."""
        out, signature = self.setup.out, self.setup.store_signature(domain)
        path, copy = out / "stores" / domain.name, out / "pruned" / domain.name
        with made_once(self.results, path, signature) as missing:
            if missing:
                model = self.model(domain)
                with self.progress_bar(f"{domain.name}: building the datastore") as progress:
                    Datastore.build(path, domain.stream("train"), model, overwrite=True, progress=progress)
        if not pruned:
            return path
        with made_once(self.results, copy, signature) as missing:
            if missing:
                copy_store(path, copy)
                with self.progress_bar(f"{domain.name}: pruning") as progress:
                    prune(copy, PruneConfig(device=self.setup.device), progress)
        return copy

    def store(self, domain: Domain, row: Row) -> Datastore:
        """Open the datastore of a row on the device that searches it."""
        path = self.store_path(domain, row.pruned)
        device = row.search_device or self.setup.store.store_device or "model"
        key = (path, self.setup.device if device == "model" else device)
        if key not in self._stores:
            # Datastores are large: close those of other domains.
            self._stores = {known: store for known, store in self._stores.items() if known[0].name == path.name}
            self._stores[key] = Datastore.open(path, nominate=self.setup.store.nominate, device=key[1])
        return self._stores[key]

    def settings(self, domain: Domain, row: Row) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the settings of a row on a domain, and facts about their tuning."""
        given, facts = dict(row.settings), dict[str, Any]()
        if row.adaptive:
            network, facts = self.adaptive(domain, row)
            given["adaptive"] = str(network)
        if not row.tunable or self.setup.config.tune == "none":
            return given, facts
        settings, tuning = self.tuned(domain, row, given)
        return {**given, **settings}, {**facts, **tuning}

    def tuned(self, domain: Domain, row: Row, given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Tune a row on the dev set of a domain; the settings in `given` are fixed."""
        path, signature = self._tuned_path(domain, row), self.setup.row_signature(domain, row)
        with self.results.lock(f"tuned.{path.stem}", wait=True):
            known = read_object(path)
            if known is None or known.get("signature") != signature:
                tuned = self._tune(domain, row, given, path)
                trials = [dataclasses.asdict(trial) for trial in tuned.trials]
                known = {"signature": signature, "settings": tuned.settings, "facts": tuned.facts(), "trials": trials}
                write_json(path, known)
                write_config(path.with_suffix(".toml"), tuned)
        return known["settings"], {"tuning": known["facts"]}

    def known_settings(self, domain: Domain, row: Row) -> dict[str, Any]:
        """Return a row's settings from an earlier tuning, if there was one, and its fixed settings."""
        known = read_object(self._tuned_path(domain, row))
        return {**known["settings"], **row.settings} if known else dict(row.settings)

    def _tuned_path(self, domain: Domain, row: Row) -> Path:
        return self.setup.out / "tuned" / f"{domain.name}.{row.tuning_name}.json"

    def _tune(self, domain: Domain, row: Row, given: dict[str, Any], path: Path) -> Tuned:
        config = self.setup.config
        store, model = self.store(domain, row), self.model(domain)
        # Trials of different inputs are kept in different files.
        digest = short(self.setup.row_signature(domain, row) + store.snapshot().identity)
        record = path.with_name(f"{path.stem}.{digest}.trials.jsonl")
        with writing(record):
            record.parent.mkdir(parents=True, exist_ok=True)
        batch_size = config.batch_size
        # If results depend on the batch, tuning uses the batch size of the test.
        if not make_method(row.method, store, given).shares_batch:
            usual = _GPU_BATCH if self.setup.device != "cpu" else config.batch_size
            batch_size = config.tune_batch_size or usual
        tuning = TuneConfig(strategy=config.tune, budget=config.tune_budget, base=False)
        dev, beam = domain.pairs("dev", config.dev_limit), self.setup.beam
        with self.progress_bar(f"{domain.name} {row.tuning_name}: tuning") as progress:
            return tune(model, store, row.method, dev, tuning, given, record, progress, batch_size, beam)

    def finetuned(self, domain: Domain) -> Path:
        """Return the folder of the model fine-tuned on a domain; train it if it is missing."""
        path = self.setup.out / "finetuned" / domain.name
        with made_once(self.results, path, self.setup.finetuned_signature(domain)) as missing:
            if missing:
                shutil.rmtree(path, ignore_errors=True)
                model = dataclasses.replace(self.setup.model_of(domain), precision="fp32")
                how, pairs, dev = self.setup.fine_tuning(domain), domain.stream("train"), domain.pairs("dev")
                with self.progress_bar(f"{domain.name}: fine-tuning") as progress:
                    if self.setup.config.fine_tune == "grid":
                        finetune_grid(model, pairs, dev, path, how, GridConfig(grid="paper"), progress=progress)
                    else:
                        finetune(model, pairs, dev, path, how, progress=progress)
        return path

    def finetuned_facts(self, domain: Domain) -> dict[str, Any]:
        """Return the record of the fine-tuning, without its epochs."""
        record = read_object(self.finetuned(domain) / RECORD) or {}
        return {name: value for name, value in record.items() if name != "history"}

    def adaptive(self, domain: Domain, row: Row) -> tuple[Path, dict[str, Any]]:
        """Return a method's trained network and its facts; train it on dev set and general text if it is missing."""
        path = self.setup.out / "adaptive" / _network_name(domain, row)
        facts = path.with_name(path.name + ".facts.json")
        with made_once(self.results, path, self.setup.row_signature(domain, row)) as missing:
            if missing:
                store, model = self.store(domain, row), self.model(domain)
                dev, general = domain.pairs("dev"), self.setup.general.pairs("dev")
                with self.progress_bar(f"{domain.name} {row.name}: training") as progress:
                    how = self.setup.adaptive(row)
                    found = train_adaptive(model, store, row.method, dev, general, path, how, row.settings, progress)
                write_json(facts, self.setup.public(dataclasses.asdict(found)))
        return path, {"adaptive": read_object(facts)}


def _network_name(domain: Domain, row: Row) -> str:
    """The name of the file of a row's network."""
    return f"{domain.name}.{row.method if row.name == f'adaptive-{row.method}' else row.name}"
