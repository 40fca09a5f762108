"""CTranslate2 on the same weights: a fast engine made for translation, without retrieval."""

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
    """A model of a folder or of the hub in CTranslate2's own format, in fp32; it is quantised when it is loaded."""
    import_ctranslate2()
    from ctranslate2.converters import TransformersConverter

    try:
        with warnings.catch_warnings(), _start_tokens_as_they_are():
            warnings.simplefilter("ignore")
            TransformersConverter(name, trust_remote_code=False).convert(str(folder), force=True)
    except Exception as error:  # it raises many kinds for models that it does not know
        raise ModelError(f"ctranslate2 cannot convert it: {' '.join(str(error).split()) or error!r}") from error


@contextmanager
def _start_tokens_as_they_are() -> Iterator[None]:
    """CTranslate2 takes it for granted that Marian starts from a vector of zeros. Trained elsewhere, it may not.

    While the block runs, its converter keeps the start token with its embedding.
    """
    from ctranslate2.converters import transformers as loaders

    marian: Any = loaders.MarianMTLoader
    bart: Any = loaders.BartLoader

    class Loader(marian):  # type: ignore[misc]
        def set_decoder(self, spec: Any, decoder: Any) -> None:
            bart.set_decoder(self, spec, decoder)

        def _remove_pad_weights(self, spec: Any) -> None:
            """Start and padding are the same token."""

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
    """Its translator. Batches run side by side, one on each thread, as nearmt's do."""
    engine = import_ctranslate2()
    kind, _, number = device.partition(":")
    place = {"device": kind, "device_index": int(number or 0)}
    try:
        return engine.Translator(
            str(folder), **place, compute_type=_TYPES[precision], inter_threads=threads, intra_threads=1
        )
    except (ValueError, RuntimeError) as error:  # a number format or a device that it was not built for
        raise ModelError(f"ctranslate2: {' '.join(str(error).split())}") from error


def translate(engine: Any, sources: list[list[str]], settings: dict[str, Any]) -> list[list[str]]:
    return [list(result.hypotheses[0]) for result in engine.translate_batch(sources, **settings)]


def decoder(process: Process, model: TranslationModel, search: BeamConfig) -> Decode:
    """Its beam search, in a process of its own: it sets the number of OpenMP threads, and torch's with it.

    It stops as soon as a full beam has ended, which nearmt and `transformers` do not.
    """
    number_of = model.codec.vocabulary()
    piece_of = {number: piece for piece, number in number_of.items()}
    first = model.seq2seq.forced_first
    prefix = [] if first is None else [piece_of[first]]
    usual = {
        "beam_size": search.beams,
        "length_penalty": search.length_penalty,
        "max_input_length": 0,
        "suppress_sequences": [[piece_of[model.seq2seq.pad_id]]],
        "return_end_token": True,
    }

    def decode(batches: list[Batch]) -> list[list[int]]:
        sources = [[piece_of[token] for token in row] for batch, _ in batches for row in batch]
        settings = {
            **usual,
            "target_prefix": [prefix] * len(sources) if prefix else None,
            "max_batch_size": max(len(batch) for batch, _ in batches),
            "max_decoding_length": max(limit for _, limit in batches),
        }
        found = process.call(translate, sources, settings)
        return [[number_of[piece] for piece in pieces[len(prefix) :]] for pieces in found]

    return decode
