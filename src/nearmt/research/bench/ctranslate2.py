"""CTranslate2 with the same weights: a fast translation engine, without retrieval."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nearmt.decoding import BeamConfig
from nearmt.errors import MissingPackageError, ModelError
from nearmt.models import TranslationModel
from nearmt.research.bench.processes import Process
from nearmt.research.bench.runners import Batch, Decode

_TYPES = {"fp32": "float32", "bf16": "bfloat16", "int8": "int8"}


def import_ctranslate2() -> Any:
    try:
        import ctranslate2
    except ImportError as error:
        raise MissingPackageError("ctranslate2 is not installed: `pip install 'nearmt[bench]'`") from error
    return ctranslate2


def version() -> str:
    return f"ctranslate2:{import_ctranslate2().__version__}"


def convert(name: str, folder: Path) -> None:
    """Convert a model (a folder or a hub id) to CTranslate2's format in fp32; it is quantised when loaded."""
    import_ctranslate2()
    from ctranslate2.converters import TransformersConverter

    try:
        with warnings.catch_warnings(), _keep_start_embedding():
            warnings.simplefilter("ignore")
            TransformersConverter(name, trust_remote_code=False).convert(str(folder), force=True)
    except Exception as error:  # unsupported models raise many kinds of errors
        raise ModelError(f"ctranslate2 cannot convert it: {' '.join(str(error).split()) or error!r}") from error


@contextmanager
def _keep_start_embedding() -> Iterator[None]:
    """Make the converter keep the embedding of Marian's start token while the block runs.

    CTranslate2 assumes that it is a zero vector, which does not hold for every Marian model.
    """
    from ctranslate2.converters import transformers as loaders

    marian: Any = loaders.MarianMTLoader
    bart: Any = loaders.BartLoader

    class Loader(marian):  # type: ignore[misc]
        def set_decoder(self, spec: Any, decoder: Any) -> None:
            bart.set_decoder(self, spec, decoder)

        def _remove_pad_weights(self, spec: Any) -> None:
            """Keep them: start and padding are the same token."""

        def get_vocabulary(self, model: Any, tokenizer: Any) -> Any:
            return bart.get_vocabulary(self, model, tokenizer)

        def set_config(self, config: Any, model: Any, tokenizer: Any) -> None:
            super().set_config(config, model, tokenizer)
            config.decoder_start_token = tokenizer.pad_token

    usual = loaders._MODEL_LOADERS["MarianConfig"]
    loaders._MODEL_LOADERS["MarianConfig"] = Loader()
    try:
        yield
    finally:
        loaders._MODEL_LOADERS["MarianConfig"] = usual


def load(folder: Path, precision: str, device: str, threads: int) -> Any:
    """Load a translator that runs one batch on each thread, as nearmt does."""
    engine = import_ctranslate2()
    kind, _, number = device.partition(":")
    try:
        return engine.Translator(
            str(folder),
            device=kind,
            device_index=int(number or 0),
            compute_type=_TYPES[precision],
            inter_threads=threads,
            intra_threads=1,
        )
    except (ValueError, RuntimeError) as error:  # a precision or a device that this build does not support
        raise ModelError(f"ctranslate2: {' '.join(str(error).split())}") from error


def translate(engine: Any, sources: list[list[str]], settings: dict[str, Any]) -> list[list[str]]:
    return [list(result.hypotheses[0]) for result in engine.translate_batch(sources, **settings)]


def decoder(process: Process, model: TranslationModel, beam: BeamConfig) -> Decode:
    """Make a decoder that runs CTranslate2's beam search in another process, since it changes torch's threads.

    CTranslate2 stops as soon as a full beam has ended, unlike nearmt and `transformers`.
    """
    id_of = model.codec.vocabulary()
    subword_of = {number: subword for subword, number in id_of.items()}
    first = model.seq2seq.forced_first
    prefix = [] if first is None else [subword_of[first]]
    fixed = {
        "beam_size": beam.beams,
        "length_penalty": beam.length_penalty,
        "max_input_length": 0,
        "suppress_sequences": [[subword_of[model.seq2seq.pad_id]]],
        "return_end_token": True,
    }

    def decode(batches: list[Batch]) -> list[list[int]]:
        sources = [[subword_of[token] for token in row] for batch, _ in batches for row in batch]
        settings = {
            **fixed,
            "target_prefix": [prefix] * len(sources) if prefix else None,
            "max_batch_size": max(len(batch) for batch, _ in batches),
            "max_decoding_length": max(limit for _, limit in batches),
        }
        found = process.call(translate, sources, settings)
        return [[id_of[subword] for subword in output[len(prefix) :]] for output in found]

    return decode
