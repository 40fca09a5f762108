"""What systems are made of, each made once and kept: stores, tuned settings, trained models.

OUT/stores/<domain>               the memory
OUT/pruned/<domain>               the same, pruned
OUT/finetuned/<domain>            a model folder
OUT/adaptive/<domain>.<method>    the network that mixes
OUT/tuned/<domain>.<row>.toml     settings, as `--config` takes them; .json is the same with all trials

Beside each stands the signature of what it was made from: it is made again when that changes.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from nearmt.contracts import Progress
from nearmt.datastore import Datastore, PruneConfig, prune
from nearmt.datastore.disk.files import write_json
from nearmt.errors import writing
from nearmt.methods import make_method
from nearmt.models import ModelConfig, TranslationModel, load_model
from nearmt.research.experiments.artefacts import copy_store, made_once, read_object
from nearmt.research.experiments.cells import Shelf
from nearmt.research.experiments.data import Domain
from nearmt.research.experiments.rows import Row
from nearmt.research.experiments.setup import Setup, short
from nearmt.research.training.adaptive import train_adaptive
from nearmt.research.training.finetune import RECORD, finetune
from nearmt.research.training.grid import GridConfig, finetune_grid
from nearmt.research.tuning import TuneConfig, Tuned, tune, write_config

#: Says what is being done, and shows how far it is.
Working = Callable[[str], AbstractContextManager[Progress | None]]
#: Dev sentences translated together on a GPU, where the batch changes nothing but speed.
_GPU_BATCH = 64


def in_silence(label: str) -> AbstractContextManager[Progress | None]:
    return nullcontext()


class Workshop:
    """Makes what a row needs, or takes it from OUT. Keeps the model, and the memories of one domain at a time."""

    def __init__(self, setup: Setup, working: Working = in_silence) -> None:
        self.setup, self.working = setup, working
        self.shelf = Shelf(setup.out)
        self._models: dict[ModelConfig, TranslationModel] = {}
        self._stores: dict[tuple[Path, str], Datastore] = {}

    def model(self, domain: Domain, row: Row | None = None) -> TranslationModel:
        config = self.setup.model_of(domain)
        if row is not None and row.fine_tuned:
            # Of the models that were trained only one is needed at a time.
            self._models = {key: model for key, model in self._models.items() if key.model == config.model}
            config = dataclasses.replace(config, model=str(self.finetuned(domain)))
        if config not in self._models:
            with self.working("loading the model"):
                self._models[config] = load_model(config)
        return self._models[config]

    def store_path(self, domain: Domain, pruned: bool = False) -> Path:
        """The memory of a domain, built if it is not there."""
        out, signature = self.setup.out, self.setup.store_signature(domain)
        path, copy = out / "stores" / domain.name, out / "pruned" / domain.name
        with made_once(self.shelf, path, signature) as missing:
            if missing:
                model = self.model(domain)
                with self.working(f"{domain.name}: building the datastore") as progress:
                    Datastore.build(path, domain.stream("train"), model, overwrite=True, progress=progress)
        if not pruned:
            return path
        with made_once(self.shelf, copy, signature) as missing:
            if missing:
                copy_store(path, copy)
                with self.working(f"{domain.name}: pruning") as progress:
                    prune(copy, PruneConfig(device=self.setup.device), progress)
        return copy

    def store(self, domain: Domain, row: Row) -> Datastore:
        """The memory of a row, opened where it is to be searched."""
        path = self.store_path(domain, row.pruned)
        device = row.search_device or self.setup.store.store_device or "model"
        key = (path, self.setup.device if device == "model" else device)
        if key not in self._stores:
            # Memories are large: those of other domains are let go.
            self._stores = {known: store for known, store in self._stores.items() if known[0].name == path.name}
            self._stores[key] = Datastore.open(path, search=self.setup.store.nominate, device=key[1])
        return self._stores[key]

    def settings(self, domain: Domain, row: Row) -> tuple[dict[str, Any], dict[str, Any]]:
        """The settings of a row on a domain, and how they were found."""
        given, facts = dict(row.settings), dict[str, Any]()
        if row.adaptive:
            network, facts = self.adaptive(domain, row)
            given["adaptive"] = str(network)
        if not row.tunable or self.setup.config.tune == "none":
            return given, facts
        settings, tuning = self.tuned(domain, row, given)
        return {**given, **settings}, {**facts, **tuning}

    def tuned(self, domain: Domain, row: Row, given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Tune a row, beside the settings that it is given, on the dev set of a domain."""
        path, signature = self._tuned_path(domain, row), self.setup.row_signature(domain, row)
        with self.shelf.lock(f"tuned.{path.stem}", wait=True):
            known = read_object(path)
            if known is None or known.get("signature") != signature:
                tuned = self._tune(domain, row, given, path)
                trials = [dataclasses.asdict(trial) for trial in tuned.trials]
                known = {"signature": signature, "settings": tuned.settings, "facts": tuned.facts(), "trials": trials}
                write_json(path, known)
                write_config(path.with_suffix(".toml"), tuned)
        return known["settings"], {"tuning": known["facts"]}

    def known_settings(self, domain: Domain, row: Row) -> dict[str, Any]:
        """What a row was tuned to before, if it was."""
        known = read_object(self._tuned_path(domain, row))
        return {**known["settings"], **row.settings} if known else dict(row.settings)

    def _tuned_path(self, domain: Domain, row: Row) -> Path:
        return self.setup.out / "tuned" / f"{domain.name}.{row.tuning_name}.json"

    def _tune(self, domain: Domain, row: Row, given: dict[str, Any], path: Path) -> Tuned:
        config = self.setup.config
        store, model = self.store(domain, row), self.model(domain)
        # Trials of something else stay where they are, under another name.
        made_of = short(self.setup.row_signature(domain, row) + store.snapshot().identity)
        record = path.with_name(f"{path.stem}.{made_of}.trials.jsonl")
        with writing(record):
            record.parent.mkdir(parents=True, exist_ok=True)
        batch_size = config.batch_size
        # Where the batch matters, tuning sees the batches that the test will see.
        if not make_method(row.method, store, given).shares_batch:
            usual = _GPU_BATCH if self.setup.device != "cpu" else config.batch_size
            batch_size = config.tune_batch_size or usual
        how = TuneConfig(strategy=config.tune, budget=config.tune_budget, base=False)
        dev = domain.pairs("dev", config.dev_limit)
        with self.working(f"{domain.name} {row.tuning_name}: tuning") as progress:
            search = self.setup.search
            return tune(model, store, row.method, dev, how, given, record, progress, batch_size, search)

    def finetuned(self, domain: Domain) -> Path:
        """The model trained on the memory of a domain."""
        path = self.setup.out / "finetuned" / domain.name
        with made_once(self.shelf, path, self.setup.finetuned_signature(domain)) as missing:
            if missing:
                shutil.rmtree(path, ignore_errors=True)
                model = dataclasses.replace(self.setup.model_of(domain), precision="fp32")
                how, pairs, dev = self.setup.fine_tuning(domain), domain.stream("train"), domain.pairs("dev")
                with self.working(f"{domain.name}: fine-tuning") as progress:
                    if self.setup.config.fine_tune == "grid":
                        finetune_grid(model, pairs, dev, path, how, GridConfig(grid="paper"), progress=progress)
                    else:
                        finetune(model, pairs, dev, path, how, progress=progress)
        return path

    def finetuned_facts(self, domain: Domain) -> dict[str, Any]:
        """How the fine-tuned model came about, without its epochs one by one."""
        record = read_object(self.finetuned(domain) / RECORD) or {}
        return {name: value for name, value in record.items() if name != "history"}

    def adaptive(self, domain: Domain, row: Row) -> tuple[Path, dict[str, Any]]:
        """The network of a method, trained on the domain's dev set together with general text."""
        path = self.setup.out / "adaptive" / f"{domain.name}.{row.method}"
        facts = path.with_name(path.name + ".facts.json")
        with made_once(self.shelf, path, self.setup.row_signature(domain, row)) as missing:
            if missing:
                store, model = self.store(domain, row), self.model(domain)
                dev, general = domain.pairs("dev"), self.setup.general.pairs("dev")
                with self.working(f"{domain.name} {row.name}: training") as progress:
                    how = self.setup.adaptive
                    found = train_adaptive(model, store, row.method, dev, general, path, how, row.settings, progress)
                write_json(facts, self.setup.public(dataclasses.asdict(found)))
        return path, {"adaptive": read_object(facts)}
