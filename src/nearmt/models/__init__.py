"""Frozen translation models: loaded by name, bound to a translation direction."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nearmt.config.model import ModelConfig
from nearmt.engines.cpu.packed_cache import PackedCache, cache_folder
from nearmt.engines.decoders import kernels_support
from nearmt.engines.devices import resolve_device
from nearmt.engines.reference.decoder_state import DecoderState
from nearmt.errors import ConfigError
from nearmt.models.adapters import Adapter, merge
from nearmt.models.auto_precision import resolve_precision
from nearmt.models.codec import TextCodec
from nearmt.models.embedded import (
    EMBEDDED,
    embedded_config,
    embedded_tokenizer,
    export_embedded,
    load_embedded,
    open_embedded,
)
from nearmt.models.fingerprint import PlainWeights, Weights, checksum, fingerprint
from nearmt.models.fitting import split_to_fit
from nearmt.models.huggingface import Seq2SeqModel
from nearmt.models.loading import load_pretrained
from nearmt.models.marks import MarkTokens
from nearmt.timing import timed

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from nearmt.models.marian import StoredMarian

__all__ = [
    "EMBEDDED",
    "Adapter",
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


_AnyModel = TypeVar("_AnyModel", "PreTrainedModel", "StoredMarian")
_loads_base = threading.Lock()


@dataclass(frozen=True)
class TranslationModel:
    """A frozen model with its tokenizer, bound to one direction."""

    name: str
    seq2seq: Seq2SeqModel
    codec: TextCodec
    fingerprint: str
    #: How it was loaded.
    config: ModelConfig = field(default_factory=ModelConfig)
    #: What is merged into its weights.
    adapter: Adapter | None = None

    @property
    def base(self) -> TranslationModel:
        """The model without its adapter, loaded when it is first asked for."""
        if self.adapter is None:
            return self
        with _loads_base:
            return self._loaded_base

    @cached_property
    def _loaded_base(self) -> TranslationModel:
        return load_model(self.config)

    def adapted(self, adapter: Adapter | None) -> TranslationModel:
        """The model loaded once more, with an adapter; itself without one."""
        if adapter is None:
            return self
        model = load_model(self.config, adapter)
        vars(model)["_loaded_base"] = self
        return model

    @property
    def language_pair(self) -> tuple[str, str]:
        return self.codec.source_lang, self.codec.target_lang

    @property
    def key_layer(self) -> str:
        return self.seq2seq.key_layer

    @property
    def writes_marks(self) -> bool:
        """Whether protected spans can be marks (`corpus.marks`): not if the vocabulary has no brackets or digits."""
        return self.mark_tokens.complete

    @cached_property
    def mark_tokens(self) -> MarkTokens:
        return MarkTokens(self.codec, self.seq2seq.vocabulary)


@dataclass(frozen=True)
class TrainableModel:
    """A model whose weights may change, and a translation model that shares them."""

    weights: PreTrainedModel
    tokenizer: Any
    #: Its fingerprint is that of the loaded weights.
    translation: TranslationModel

    def save(self, folder: Path) -> None:
        """Write an ordinary Hugging Face folder: weights, settings of model and generation, tokenizer."""
        from safetensors import SafetensorError

        try:
            self.weights.save_pretrained(folder)
        except SafetensorError as error:  # also for a full disk, with the error number in its message
            raise OSError(errno.ENOSPC if "os error 28" in str(error) else errno.EIO, str(error)) from error
        self.tokenizer.save_pretrained(folder)


def load_model(config: ModelConfig | None = None, adapter: Adapter | None = None) -> TranslationModel:
    """Load a model by its embedded name, its folder, or its hub id; an adapter is merged into its weights."""
    config = config or ModelConfig()
    device = resolve_device(config.device)
    with timed("model/load"):
        if config.model in EMBEDDED:
            config = replace(
                config, precision=resolve_precision(config.precision, device, embedded_config(config.model))
            )
            if kernels_support(config.precision, device):
                return _open_embedded(config, device, adapter)
            return _bound(load_embedded(config.model), embedded_tokenizer(config.model), config, device, adapter)
        return _bound(*load_pretrained(config.model), config, device, adapter)


def load_trainable(config: ModelConfig) -> TrainableModel:
    """Load a model in fp32 whose weights can be trained, except those that were not trained originally."""
    if config.precision not in ("auto", "fp32"):
        raise ConfigError(f"precision = {config.precision!r}: weights are trained in fp32; omit --precision")
    config = replace(config, precision="fp32")
    device = resolve_device(config.device)
    model, tokenizer = load_pretrained(config.model)
    for module in model.modules():  # computed positions are not trained
        if "Sinusoidal" in type(module).__name__:
            module.requires_grad_(False)
    learned = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    translation = _bound(model, tokenizer, config, device)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in learned)
    return TrainableModel(model, tokenizer, translation)


def _open_embedded(config: ModelConfig, device: str, adapter: Adapter | None) -> TranslationModel:
    """The embedded model as kernels run it; transformers is imported only if something else is asked of it."""
    model, tokenizer, weights = open_embedded(config.model)
    codec = TextCodec(tokenizer, model.config, config.model, config.source_lang, config.target_lang)
    identity = fingerprint(model.config.model_type, weights, codec.vocabulary())

    def load() -> PreTrainedModel:
        return _merged(load_embedded(config.model), adapter, identity, config)

    packed = _packed_weights(identity, weights, config, device, adapter)
    model = _merged(model, adapter, identity, config)
    return _translation_model(model, codec, identity, config, device, packed, load, adapter)


def _bound(
    model: PreTrainedModel, tokenizer: Any, config: ModelConfig, device: str, adapter: Adapter | None = None
) -> TranslationModel:
    codec = TextCodec(tokenizer, model.config, config.model, config.source_lang, config.target_lang)
    _bind_target_language(model, tokenizer, codec)
    config = replace(config, precision=resolve_precision(config.precision, device, model.config))
    weights = {name: PlainWeights(tensor) for name, tensor in model.state_dict().items()}
    identity = fingerprint(str(model.config.model_type), weights, codec.vocabulary())
    packed = _packed_weights(identity, weights, config, device, adapter)
    del weights  # each is freed when it is converted
    model = _merged(model, adapter, identity, config)
    return _translation_model(model, codec, identity, config, device, packed, adapter=adapter)


def _merged(model: _AnyModel, adapter: Adapter | None, identity: str, config: ModelConfig) -> _AnyModel:
    """A model with an adapter merged into its weights, if there is one."""
    if adapter is not None:
        merge(model, adapter, identity, config.model)
    return model


def _packed_weights(
    identity: str, weights: Mapping[str, Weights], config: ModelConfig, device: str, adapter: Adapter | None
) -> PackedCache | None:
    """int8 weights in the kernels' layout from an earlier start, or to be kept for later ones."""
    if config.precision != "int8" or not kernels_support(config.precision, device):
        return None
    name, sums = identity, checksum(weights)
    if adapter is not None:
        name, sums = adapter.fingerprint, f"{sums}+{adapter.identity}"
    return PackedCache(cache_folder(), name, config.precision, sums)


def _translation_model(
    model: PreTrainedModel | StoredMarian,
    codec: TextCodec,
    identity: str,
    config: ModelConfig,
    device: str,
    packed: PackedCache | None,
    load: Callable[[], PreTrainedModel] | None = None,
    adapter: Adapter | None = None,
) -> TranslationModel:
    seq2seq = Seq2SeqModel(
        model, key_layer=config.key_layer, precision=config.precision, device=device, packed=packed, load=load
    )
    if packed is not None:
        packed.save()
    identity = identity if adapter is None else adapter.fingerprint
    return TranslationModel(config.model, seq2seq, codec, identity, config, adapter)


def _bind_target_language(model: PreTrainedModel, tokenizer: Any, codec: TextCodec) -> None:
    """Set the decoder's language as forced first token, or (mBART-25) as start token."""
    if codec.target_tag_id is None:
        return
    assert model.generation_config is not None
    if type(tokenizer).__name__.startswith("MBartTokenizer"):
        model.generation_config.decoder_start_token_id = codec.target_tag_id
    else:
        model.generation_config.forced_bos_token_id = codec.target_tag_id
