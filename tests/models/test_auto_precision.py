"""`precision = auto`: the fastest number format that suits device and model, and its real name everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearmt.cli.given import pick
from nearmt.datastore import Datastore
from nearmt.engines.cpu.decoder import KernelDecoder
from nearmt.errors import ConfigError
from nearmt.models import ModelConfig, Seq2SeqModel, TranslationModel, auto_precision, load_model, load_trainable
from nearmt.models.auto_precision import resolve_precision
from nearmt.translator import Translator
from tests.kernels import needs_kernels
from tests.tiny import FAMILIES, tiny_model

ACTIVATIONS = ("relu", "swish", "silu", "gelu", "tanh", "gelu_new")


def test_auto_is_the_default() -> None:
    assert ModelConfig().precision == pick(ModelConfig, {}).precision == "auto"
    with pytest.raises(ConfigError, match="precision = 'fp8': must be one of auto, fp32, bf16, int8"):
        ModelConfig(precision="fp8")


def test_what_is_asked_for_is_used() -> None:
    config = tiny_model("marian").config
    for wanted in ("fp32", "bf16", "int8"):
        assert resolve_precision(wanted, "cpu", config) == resolve_precision(wanted, "cuda:1", config) == wanted


@pytest.mark.parametrize("family", FAMILIES)
def test_a_gpu_uses_bf16_and_others_fp32(family: str) -> None:
    config = tiny_model(family).config
    assert resolve_precision("auto", "cuda", config) == resolve_precision("auto", "cuda:1", config) == "bf16"
    assert resolve_precision("auto", "mps", config) == "fp32"


@needs_kernels
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "t5"])
def test_a_cpu_uses_int8_where_kernels_support_encoder_and_decoder(family: str, activation: str) -> None:
    model = tiny_model(family, activation_function=activation)
    served = Seq2SeqModel(model, precision="int8")
    kernels = isinstance(served.network.decoder, KernelDecoder)
    assert resolve_precision("auto", "cpu", model.config) == ("int8" if kernels else "fp32")
    assert kernels == (activation in ("relu", "swish", "silu", "gelu"))


def test_a_cpu_uses_fp32_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_precision("auto", "cpu", tiny_model("t5").config) == "fp32"
    monkeypatch.setattr(auto_precision, "kernels", lambda: None)
    assert resolve_precision("auto", "cpu", tiny_model("marian").config) == "fp32"


@needs_kernels
def test_everything_names_what_was_used(tiny_folder: Path, tiny_store: Datastore, tmp_path: Path) -> None:
    translator = Translator(ModelConfig(model=str(tiny_folder), device="cpu"))
    assert translator.model.seq2seq.precision == "int8" and "|precision:int8|" in translator.signature()
    built = Datastore.build(tmp_path / "store", tiny_store.pairs(), translator.model)
    assert built.manifest.precision == "int8" and tiny_store.manifest.precision == "fp32"


@needs_kernels
def test_a_store_of_another_precision_can_be_used(
    tiny_folder: Path, tiny: TranslationModel, tiny_store: Datastore, tmp_path: Path
) -> None:
    quantised = load_model(ModelConfig(model=str(tiny_folder), device="cpu"))
    store = Datastore.build(tmp_path / "store", tiny_store.pairs(), quantised)
    for model, other in ((quantised, tiny_store), (tiny, store)):
        for method in ("knn", "chunk"):
            assert Translator(model, other, method).translate("die pumpe").searches > 0


def test_training_is_in_fp32(tiny_folder: Path) -> None:
    trained = load_trainable(ModelConfig(model=str(tiny_folder), device="cpu"))
    assert trained.translation.seq2seq.precision == "fp32"
    with pytest.raises(ConfigError, match="weights are trained in fp32"):
        load_trainable(ModelConfig(model=str(tiny_folder), device="cpu", precision="int8"))
