"""Frozen translation models: loaded by name, bound to a translation direction."""

from __future__ import annotations

import errno
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from nearmt.config.model import ModelConfig
from nearmt.engines.reference.decoder_state import DecoderState
from nearmt.errors import ConfigError
from nearmt.models.auto_precision import resolve_precision
from nearmt.models.codec import TextCodec
from nearmt.models.embedded import EMBEDDED, export_embedded
from nearmt.models.fingerprint import fingerprint
from nearmt.models.fitting import split_to_fit
from nearmt.models.huggingface import Seq2SeqModel
from nearmt.models.loading import load_pretrained
from nearmt.timing import timed

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = [
    "EMBEDDED",
    "DecoderState",
    "ModelConfig",
    "Seq2SeqModel",
    "TextCodec",
    "TrainableModel",
    "TranslationModel",
    "export_embedded",
    "load_model",
    "load_trainable",
    "resolve_device",
    "split_to_fit",
]


@dataclass(frozen=True)
class TranslationModel:
    """A frozen model with its tokenizer, bound to one direction."""

    name: str
    seq2seq: Seq2SeqModel
    codec: TextCodec
    fingerprint: str

    @property
    def language_pair(self) -> tuple[str, str]:
        return self.codec.source_lang, self.codec.target_lang

    @property
    def key_layer(self) -> str:
        return self.seq2seq.key_layer


@dataclass(frozen=True)
class TrainableModel:
    """A model whose weights may change, and the same weights as a model that translates."""

    weights: PreTrainedModel
    tokenizer: Any
    #: Its fingerprint is that of the weights as they were loaded.
    translation: TranslationModel

    def save(self, folder: Path) -> None:
        """Write an ordinary Hugging Face folder: weights, settings of model and generation, tokenizer."""
        from safetensors import SafetensorError

        try:
            self.weights.save_pretrained(folder)
        except SafetensorError as error:  # its own kind for a full disk, with the system's number in the text
            raise OSError(errno.ENOSPC if "os error 28" in str(error) else errno.EIO, str(error)) from error
        self.tokenizer.save_pretrained(folder)


def load_model(config: ModelConfig | None = None) -> TranslationModel:
    """Load a model by its embedded name, its folder, or its hub id."""
    config = config or ModelConfig()
    with timed("model/load"):
        return _bound(*load_pretrained(config.model), config, resolve_device(config.device))


def load_trainable(config: ModelConfig) -> TrainableModel:
    """Load a model in fp32 with the weights that its makers trained open to training."""
    if config.precision not in ("auto", "fp32"):
        raise ConfigError(f"precision = {config.precision!r}: weights are trained in fp32; leave --precision out")
    config = replace(config, precision="fp32")
    device = resolve_device(config.device)
    model, tokenizer = load_pretrained(config.model)
    for module in model.modules():  # positions that are computed, not learned, stay as they are
        if "Sinusoidal" in type(module).__name__:
            module.requires_grad_(False)
    learned = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    translation = _bound(model, tokenizer, config, device)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in learned)
    return TrainableModel(model, tokenizer, translation)


def _bound(model: PreTrainedModel, tokenizer: Any, config: ModelConfig, device: str) -> TranslationModel:
    codec = TextCodec(tokenizer, model.config, config.model, config.source_lang, config.target_lang)
    _bind_target_language(model, tokenizer, codec)
    identity = fingerprint(model, codec.vocabulary())
    precision = resolve_precision(config.precision, device, model.config)
    seq2seq = Seq2SeqModel(model, key_layer=config.key_layer, precision=precision, device=device)
    return TranslationModel(config.model, seq2seq, codec, identity)


def _bind_target_language(model: PreTrainedModel, tokenizer: Any, codec: TextCodec) -> None:
    """Tell the decoder its language: as forced first token, or (mBART-25) as start token."""
    if codec.target_tag_id is None:
        return
    assert model.generation_config is not None
    if type(tokenizer).__name__.startswith("MBartTokenizer"):
        model.generation_config.decoder_start_token_id = codec.target_tag_id
    else:
        model.generation_config.forced_bos_token_id = codec.target_tag_id


def resolve_device(device: str) -> str:
    """The device that a setting means; one that is not there is refused."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(device).type
    except RuntimeError as error:
        raise ConfigError(f"device = {device!r}: unknown; give cpu, cuda, cuda:0, ... or auto") from error
    if kind == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device = {device!r}: no usable GPU here; give cpu or auto")
    return device
