"""The translation models of the server, by direction."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from weakref import WeakValueDictionary

from nearmt.corpus.stop_words import likely_languages
from nearmt.datastore.disk import Manifest
from nearmt.datastore.edit.adapting import read_adapter
from nearmt.errors import ConfigError
from nearmt.languages import base_language, same_language
from nearmt.models import ModelConfig, TranslationModel, load_model
from nearmt.serve.errors import Conflict

Direction = tuple[str, str]
#: Characters by which a language is told.
_READ = 2000


class Models:
    """Loaded models; the first of those that fit is used."""

    def __init__(self, models: Sequence[TranslationModel]) -> None:
        if not models:
            raise ConfigError("no model: give --model at least once")
        self._models = tuple(models)
        #: Models with the adapter of a memory, by fingerprint, as long as something uses them.
        self._adapted: WeakValueDictionary[str, TranslationModel] = WeakValueDictionary()
        self._adapting = threading.Lock()

    @classmethod
    def load(cls, configs: Sequence[ModelConfig]) -> Models:
        return cls([load_model(config) for config in configs])

    def __iter__(self) -> Iterator[TranslationModel]:
        return iter(self._models)

    def __len__(self) -> int:
        return len(self._models)

    def directions(self) -> list[Direction]:
        """Base languages, each direction once."""
        pairs = [model.language_pair for model in self._models]
        return list(dict.fromkeys((base_language(source), base_language(target)) for source, target in pairs))

    def find(
        self, source_lang: str | None = None, target_lang: str | None = None, texts: Sequence[str] = ()
    ) -> TranslationModel:
        """The model of a direction, of which either side may be left open: then texts tell their language."""
        fitting = [model for model in self._models if _fits(model, source_lang, target_lang)]
        if not fitting:
            known = ", ".join(f"{source} to {target}" for source, target in self.directions())
            asked = f"{(source_lang or 'any language')[:40]} to {(target_lang or 'any language')[:40]}"
            raise ConfigError(f"no model translates {asked}; known: {known}")
        sources = list(dict.fromkeys(base_language(model.language_pair[0]) for model in fitting))
        if source_lang is None and len(sources) > 1:
            likely = likely_languages("\n".join(texts)[:_READ], sources)[0][0]
            return next(model for model in fitting if base_language(model.language_pair[0]) == likely)
        return fitting[0]

    def of(self, memory: str, manifest: Manifest) -> TranslationModel:
        """The loaded model that a memory was built with, without the memory's adapter; a memory of another model is
        refused."""
        languages = manifest.source_lang, manifest.target_lang
        fingerprint = manifest.fingerprint if manifest.adapter is None else manifest.adapter.base
        for model in self._models:
            if model.fingerprint == fingerprint and model.language_pair == languages:
                return model
        raise Conflict(
            f"memory '{memory}': was built with model '{manifest.model}' ({languages[0]} to {languages[1]}), which is "
            "not loaded; start the server with it, or reindex the memory for another one"
        )

    def of_memory(self, folder: Path, manifest: Manifest) -> TranslationModel:
        """The model of a memory; with the memory's adapter it is a model of its own, which is loaded here."""
        base = self.of(folder.name, manifest)
        if manifest.adapter is None:
            return base
        name = f"{manifest.fingerprint} {'-'.join(base.language_pair)}"
        with self._adapting:
            model = self._adapted.get(name)
            if model is None:
                model = base.adapted(read_adapter(folder, manifest))
                self._adapted[name] = model
            return model


def _fits(model: TranslationModel, source_lang: str | None, target_lang: str | None) -> bool:
    source, target = model.language_pair
    return same_language(source_lang, source) and same_language(target_lang, target)
