"""What the systems of a benchmark are made of; what several of them share is loaded once."""

from __future__ import annotations

import dataclasses
import functools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from nearmt.datastore import Datastore
from nearmt.datastore.disk import Manifest
from nearmt.decoding import BeamConfig
from nearmt.engines.devices import device_of
from nearmt.errors import ConfigError, MissingPackageError
from nearmt.index.faiss import import_faiss
from nearmt.models import EMBEDDED, ModelConfig, TranslationModel, export_embedded, load_model, resolve_device
from nearmt.models.naming import name_from_store
from nearmt.research.bench import ctranslate2, generate
from nearmt.research.bench.config import PEER_PRECISIONS, PEERS, RETRIEVING, BenchConfig
from nearmt.research.bench.processes import Crew, Process
from nearmt.research.bench.runners import Cell, OwnRunner, PeerRunner, Runner
from nearmt.translator import Translator

#: Another name for exact search that is fast enough for whole test sets.
EXACT = "torch"


class Workbench:
    """Loads systems. `folder` is for what other programs need of the model."""

    def __init__(self, config: BenchConfig, folder: Path) -> None:
        self.config, self._folder = config, folder
        self._models: dict[str, TranslationModel] = {}
        self._stores: dict[str, Datastore] = {}
        #: Models of other programs, by program and precision.
        self._loaded: dict[tuple[str, str], Any] = {}

    @property
    def threads(self) -> int:
        return self.config.threads or torch.get_num_threads()

    @property
    def at_a_time(self) -> int:
        """Batches that are translated side by side by those who can."""
        return self.threads if device_of(self.device).concurrent else 1

    @property
    def batches(self) -> int:
        """Batches that nearmt takes on at a time: while some are translated, others follow those that are done."""
        return self.at_a_time * device_of(self.device).batches

    @functools.cached_property
    def device(self) -> torch.device:
        return torch.device(resolve_device(self.config.device))

    def cells(self) -> Iterator[tuple[int, int, list[Cell]]]:
        """Batch size, beams, and the systems that run beside each other with them."""
        systems = self.config.system_names
        if self.config.systems is None and self.config.datastore is None:
            systems = [system for system in systems if system not in RETRIEVING]
        named = [(system, precision) for system in systems for precision in self.precisions(system)]
        for beams in self.config.beam_sizes:
            for batch_size in self.config.sizes(on_gpu=self.device.type == "cuda"):
                yield batch_size, beams, [Cell(*name, batch_size, beams) for name in named]

    def precisions(self, system: str) -> list[str]:
        """Those that were asked for as far as they exist; nothing asks for int8 on a GPU unless it is named."""
        wanted = self.config.precision_names
        if self.config.precisions is None and self.device.type == "cuda":
            wanted = [precision for precision in wanted if precision != "int8"]
        return [precision for precision in wanted if precision in PEER_PRECISIONS.get(system, wanted)]

    @functools.cached_property
    def model_config(self) -> ModelConfig:
        """The model in fp32; a datastore knows which one it is."""
        config, known = self.config, ModelConfig()
        if config.datastore is not None:
            mine = Manifest.load(Path(config.datastore))
            name = config.model or name_from_store(mine.model, config.datastore)
            known = ModelConfig(name, mine.source_lang, mine.target_lang, key_layer=mine.key_layer)
        return ModelConfig(
            config.model or known.model,
            config.source_lang or known.source_lang,
            config.target_lang or known.target_lang,
            device=str(self.device),
            key_layer=known.key_layer,
        )

    def model(self, precision: str) -> TranslationModel:
        if precision not in self._models:
            self._models[precision] = load_model(dataclasses.replace(self.model_config, precision=precision))
        return self._models[precision]

    def store(self, search: str) -> Datastore:
        folder = self.config.datastore
        if folder is None:
            raise ConfigError("needs a datastore: give --datastore DIR (`nearmt build` makes one)")
        if search not in self._stores:
            device = self.config.store_device or str(self.device)
            self._stores[search] = Datastore.open(folder, search=search, device=device)
        return self._stores[search]

    def search(self, beams: int) -> BeamConfig:
        return BeamConfig(beams=beams, max_new_tokens=self.config.max_new_tokens)

    def runner(self, cell: Cell) -> Runner:
        """Load a system; what cannot run raises an error that says why."""
        if cell.system in PEERS:
            return self._peer(cell)
        return OwnRunner(self.translator(cell, self.config.nominate))

    def translator(self, cell: Cell, search: str) -> Translator:
        store = self.store(search) if cell.system in RETRIEVING else None
        return Translator(
            self.model(cell.precision),
            store,
            cell.system,
            search=self.search(cell.beams),
            batch_size=cell.batch_size,
        )

    def _peer(self, cell: Cell) -> Runner:
        model, search = self.model("fp32"), self.search(cell.beams)
        loaded = self._load_peer(cell.system, cell.precision)
        if cell.system == "transformers":
            decode, version = generate.decoder(loaded, model.seq2seq, search), generate.version()
        else:
            decode, version = ctranslate2.decoder(loaded, model, search), ctranslate2.version()
        return PeerRunner(model, cell, search, decode, version)

    def _load_peer(self, system: str, precision: str) -> Any:
        key = system, precision
        if key not in self._loaded:
            self._loaded[key] = (
                self._transformers(precision) if system == "transformers" else self._ctranslate2(precision)
            )
        return self._loaded[key]

    def _transformers(self, precision: str) -> Any:
        if self.at_a_time == 1:
            return generate.load_weights(self._model_folder, precision, self.device)
        # A process for each batch: in one, their Python would take turns.
        return Crew(self.at_a_time, generate.load_alone, self._model_folder, precision)

    def _ctranslate2(self, precision: str) -> Process:
        return Process(ctranslate2.load, self._converted, precision, str(self.device), self.at_a_time)

    def close(self) -> None:
        """End the processes of other programs."""
        for loaded in self._loaded.values():
            if isinstance(loaded, Crew | Process):
                loaded.close()

    @functools.cached_property
    def _converted(self) -> Path:
        ctranslate2.convert(self._model_folder, self._folder / "ctranslate2")
        return self._folder / "ctranslate2"

    @functools.cached_property
    def _model_folder(self) -> str:
        """The model as other programs can read it."""
        name = self.model_config.model
        if name not in EMBEDDED:
            return name
        export_embedded(name, self._folder / "exported")
        return str(self._folder / "exported")


@contextmanager
def opened(config: BenchConfig) -> Iterator[Workbench]:
    """A workbench with as many threads as were asked for; what it writes goes when it is done."""
    with tempfile.TemporaryDirectory() as folder, threads_set(config.threads):
        workbench = Workbench(config, Path(folder))
        try:
            yield workbench
        finally:
            workbench.close()


@contextmanager
def threads_set(wanted: int | None) -> Iterator[None]:
    """torch and FAISS have threads of their own each; CTranslate2 is told when it is loaded."""
    if wanted is None:
        yield
        return
    try:
        faiss = import_faiss()
    except MissingPackageError:  # then nobody searches with it
        faiss = None
    before = torch.get_num_threads(), faiss and faiss.omp_get_max_threads()
    try:
        torch.set_num_threads(wanted)
        if faiss:
            faiss.omp_set_num_threads(wanted)
        yield
    finally:
        torch.set_num_threads(before[0])
        if faiss:
            faiss.omp_set_num_threads(before[1])
