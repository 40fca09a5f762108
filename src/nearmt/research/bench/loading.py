"""Loading of the systems of a benchmark; models and datastores that several of them use are loaded once."""

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
from nearmt.datastore.edit.adapting import read_adapter
from nearmt.decoding import BeamConfig
from nearmt.engines.devices import device_of
from nearmt.errors import ConfigError, MissingPackageError
from nearmt.index.faiss import import_faiss
from nearmt.models import EMBEDDED, ModelConfig, TranslationModel, export_embedded, load_model, resolve_device
from nearmt.models.naming import name_from_store
from nearmt.research.bench import ctranslate2, generate
from nearmt.research.bench.config import PEER_PRECISIONS, PEERS, RETRIEVING, BenchConfig
from nearmt.research.bench.processes import Process, ProcessPool
from nearmt.research.bench.runners import OwnRunner, PeerRunner, Runner, Variant
from nearmt.translator import Translator

#: The exact search that is fast enough for whole test sets.
EXACT = "torch"


class SystemLoader:
    """Loads systems; converted models of other programs are written to `folder`."""

    def __init__(self, config: BenchConfig, folder: Path) -> None:
        self.config, self._folder = config, folder
        self._models: dict[str, TranslationModel] = {}
        self._stores: dict[str, Datastore] = {}
        #: Models loaded by other programs, by program and precision.
        self._loaded: dict[tuple[str, str], Any] = {}

    @property
    def threads(self) -> int:
        return self.config.threads or torch.get_num_threads()

    @property
    def parallel_batches(self) -> int:
        """Batches that run in parallel, one on each CPU thread."""
        return self.threads if device_of(self.device).concurrent else 1

    @property
    def batches(self) -> int:
        """Batches that nearmt accepts at a time; finished sentences are replaced by those of later batches."""
        return self.parallel_batches * device_of(self.device).batches

    @functools.cached_property
    def device(self) -> torch.device:
        return torch.device(resolve_device(self.config.device))

    def variants(self) -> Iterator[tuple[int, int, list[Variant]]]:
        """Yield batch size, beam size, and the variants that alternate with them."""
        systems = self.config.system_names
        if self.config.systems is None and self.config.datastore is None:
            systems = [system for system in systems if system not in RETRIEVING]
        named = [(system, precision) for system in systems for precision in self.precisions(system)]
        for beams in self.config.beam_sizes:
            for batch_size in self.config.sizes(on_gpu=self.device.type == "cuda"):
                yield batch_size, beams, [Variant(*name, batch_size, beams) for name in named]

    def precisions(self, system: str) -> list[str]:
        """Return the precisions to measure that a system supports; int8 on a GPU only if it is named."""
        wanted = self.config.precision_names
        if self.config.precisions is None and self.device.type == "cuda":
            wanted = [precision for precision in wanted if precision != "int8"]
        return [precision for precision in wanted if precision in PEER_PRECISIONS.get(system, wanted)]

    @functools.cached_property
    def model_config(self) -> ModelConfig:
        """The model in fp32; by default the datastore's."""
        config, known = self.config, ModelConfig()
        if config.datastore is not None:
            store = Manifest.load(Path(config.datastore))
            name = config.model or name_from_store(store.model, config.datastore)
            known = ModelConfig(name, store.source_lang, store.target_lang, key_layer=store.key_layer)
        return ModelConfig(
            config.model or known.model,
            config.source_lang or known.source_lang,
            config.target_lang or known.target_lang,
            device=str(self.device),
            key_layer=known.key_layer,
        )

    def model(self, precision: str) -> TranslationModel:
        if precision not in self._models:
            config, folder = dataclasses.replace(self.model_config, precision=precision), self.config.datastore
            adapter = None if folder is None else read_adapter(Path(folder), Manifest.load(Path(folder)))
            self._models[precision] = load_model(config, adapter)
        return self._models[precision]

    def store(self, nominate: str) -> Datastore:
        folder = self.config.datastore
        if folder is None:
            raise ConfigError("needs a datastore: give --datastore DIR (`nearmt build` makes one)")
        if nominate not in self._stores:
            device = self.config.store_device or str(self.device)
            self._stores[nominate] = Datastore.open(folder, nominate=nominate, device=device)
        return self._stores[nominate]

    def beam(self, beams: int) -> BeamConfig:
        return BeamConfig(beams=beams, max_new_tokens=self.config.max_new_tokens)

    def runner(self, variant: Variant) -> Runner:
        """Load a variant; raise an error with the reason if it cannot run."""
        if variant.system in PEERS:
            return self._peer(variant)
        return OwnRunner(self.translator(variant, self.config.nominate))

    def translator(self, variant: Variant, nominate: str) -> Translator:
        store = self.store(nominate) if variant.system in RETRIEVING else None
        return Translator(
            self.model(variant.precision),
            store,
            variant.system,
            beam=self.beam(variant.beams),
            batch_size=variant.batch_size,
        )

    def _peer(self, variant: Variant) -> Runner:
        model, beam = self.model("fp32"), self.beam(variant.beams)
        loaded = self._load_peer(variant.system, variant.precision)
        if variant.system == "transformers":
            decode, version = generate.decoder(loaded, model.seq2seq, beam), generate.version()
        else:
            decode, version = ctranslate2.decoder(loaded, model, beam), ctranslate2.version()
        return PeerRunner(model, variant, beam, decode, version)

    def _load_peer(self, system: str, precision: str) -> Any:
        key = system, precision
        if key not in self._loaded:
            self._loaded[key] = (
                self._transformers(precision) if system == "transformers" else self._ctranslate2(precision)
            )
        return self._loaded[key]

    def _transformers(self, precision: str) -> Any:
        if self.parallel_batches == 1:
            return generate.load_weights(self._model_folder, precision, self.device)
        # A process for each batch: threads of one process would share one interpreter lock.
        return ProcessPool(self.parallel_batches, generate.load_alone, self._model_folder, precision)

    def _ctranslate2(self, precision: str) -> Process:
        return Process(ctranslate2.load, self._converted, precision, str(self.device), self.parallel_batches)

    def close(self) -> None:
        """End the processes of other programs."""
        for loaded in self._loaded.values():
            if isinstance(loaded, ProcessPool | Process):
                loaded.close()

    @functools.cached_property
    def _converted(self) -> Path:
        ctranslate2.convert(self._model_folder, self._folder / "ctranslate2")
        return self._folder / "ctranslate2"

    @functools.cached_property
    def _model_folder(self) -> str:
        """The model in Hugging Face's format."""
        name = self.model_config.model
        if name not in EMBEDDED:
            return name
        export_embedded(name, self._folder / "exported")
        return str(self._folder / "exported")


@contextmanager
def opened(config: BenchConfig) -> Iterator[SystemLoader]:
    """Open a loader with the configured number of threads; its files are temporary."""
    with tempfile.TemporaryDirectory() as folder, threads_set(config.threads):
        loader = SystemLoader(config, Path(folder))
        try:
            yield loader
        finally:
            loader.close()


@contextmanager
def threads_set(wanted: int | None) -> Iterator[None]:
    """Set the threads of torch and FAISS for the block; CTranslate2's are set when it is loaded."""
    if wanted is None:
        yield
        return
    try:
        faiss = import_faiss()
    except MissingPackageError:  # then no search uses it
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
