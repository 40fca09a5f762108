"""Keys are the states that predict: forced or step by step, in any batch, on any thread."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nearmt.config.model import KEY_LAYERS
from nearmt.engines.precision import Int8Linear
from nearmt.errors import ConfigError, ModelError
from nearmt.models import ModelConfig, Seq2SeqModel, TranslationModel
from nearmt.models.families import FAMILIES as SUPPORTED
from nearmt.models.families import family_of
from nearmt.models.modules import TransformersModules
from tests.kernels import needs_kernels
from tests.tiny import FAMILIES, VOCABULARY, random_sources, tiny_model

every_family = pytest.mark.parametrize("family", FAMILIES)
every_layer = pytest.mark.parametrize("layer", KEY_LAYERS)


def made_targets(count: int = 5) -> list[list[int]]:
    return random_sources(11, count=count, longest=9)


def stepped(model: Seq2SeqModel, source: list[int], target: list[int]) -> tuple[Tensor, Tensor]:
    """Keys and logits that a decoder sees which is fed the prompt and then one token after the other."""
    state = model.encode([source])
    logits, key = model.step(state, torch.tensor([model.prompt]))
    keys, every_logits = [key], [logits]
    for token in target[:-1]:
        logits, key = model.step(state, torch.tensor([[token]]))
        keys.append(key)
        every_logits.append(logits)
    return torch.cat(keys), torch.cat(every_logits)


@every_family
@every_layer
def test_forced_keys_are_those_of_the_steps(family: str, layer: str) -> None:
    model = Seq2SeqModel(tiny_model(family, 1), key_layer=layer)
    assert (len(model.prompt) == 2) is (family in ("mbart50", "m2m_100", "nllb"))
    sources, targets = random_sources(1), made_targets()
    forced = model.force_decode(sources, targets)
    for source, target, found in zip(sources, targets, forced, strict=True):
        expected, _ = stepped(model, source, target)
        assert found.shape == (len(target), model.hidden_size) and found.dtype == torch.float32
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    # Keys of different prefixes differ: the comparison above says something.
    assert float((forced[0][0] - forced[0][1]).abs().max()) > 1e-2


@needs_kernels
@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "t5"])
@pytest.mark.parametrize("precision", ["fp32", "int8"])
@every_layer
def test_with_kernels_forced_keys_are_those_of_the_steps_to_the_last_bit(
    family: str, precision: str, layer: str
) -> None:
    """In every batch: what is stored for a prefix is what a translation asks for that begins with it."""
    model = Seq2SeqModel(tiny_model(family, 1, d_model=48), key_layer=layer, precision=precision)
    sources, targets = random_sources(1, longest=30), random_sources(11, longest=40)
    together = model.force_decode(sources, targets)
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        assert torch.equal(model.force_decode([source], [target])[0], together[number])
        assert torch.equal(stepped(model, source, target)[0], together[number])


@every_family
def test_the_output_key_gives_the_logits(family: str) -> None:
    hf: Any = tiny_model(family, 2)
    model = Seq2SeqModel(hf)
    source, target = random_sources(2)[0], made_targets()[0]
    keys, logits = stepped(model, source, target)
    projection = hf.model.decoder.output_projection if family == "fsmt" else hf.get_output_embeddings()
    with torch.inference_mode():
        expected = projection(keys) + getattr(hf, "final_logits_bias", torch.zeros(1, 1))
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)


@every_family
def test_the_layers_are_different_states(family: str) -> None:
    sources, targets = random_sources(3), made_targets()
    output, inner = (
        Seq2SeqModel(tiny_model(family, 3), key_layer=layer).force_decode(sources, targets)[0] for layer in KEY_LAYERS
    )
    assert output.shape == inner.shape
    assert float((output - inner).abs().max()) > 1e-2


@every_family
@every_layer
def test_forced_keys_do_not_depend_on_the_batch(family: str, layer: str) -> None:
    model = Seq2SeqModel(tiny_model(family, 4), key_layer=layer)
    sources, targets = random_sources(4, count=6), made_targets(6)
    together = model.force_decode(sources, targets)
    for source, target, found in zip(sources, targets, together, strict=True):
        torch.testing.assert_close(found, model.force_decode([source], [target])[0], rtol=1e-4, atol=1e-4)


@every_family
@every_layer
def test_stopping_at_the_key_changes_nothing(family: str, layer: str) -> None:
    hf = tiny_model(family, 5).requires_grad_(False)
    modules = TransformersModules(lambda: hf, family_of(hf), layer)
    model = Seq2SeqModel(tiny_model(family, 5))
    token_BS, mask_BS = model.padded(random_sources(5))
    fed_BT = model._fed(made_targets())
    projected: list[int] = []
    projection = SUPPORTED[hf.config.model_type].output_projection(hf)
    projection.register_forward_hook(lambda *parts: projected.append(1))
    with torch.inference_mode():
        inputs = modules.encode(token_BS, mask_BS), mask_BS, fed_BT
        _, whole = modules.logits_and_keys(*inputs)
        assert projected == [1]
        early = modules.keys(*inputs)
        assert projected == [1]
        _, again = modules.logits_and_keys(*inputs)
    assert torch.equal(early, whole) and torch.equal(again, whole)


def test_an_error_within_the_model_is_not_swallowed() -> None:
    model = Seq2SeqModel(tiny_model("marian"))
    with pytest.raises(IndexError):
        model.force_decode([[VOCABULARY + 5, 2]], [[5, 2]])
    model.force_decode([[5, 2]], [[5, 2]])


def test_threads_read_their_own_keys() -> None:
    model = Seq2SeqModel(tiny_model("marian", 6))
    sources = random_sources(6, count=4)
    expected = [model.force_decode([source], [source])[0] for source in sources]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(10):
            found = model.force_decode([sources[number]], [sources[number]])[0]
            if found.shape != expected[number].shape or not torch.allclose(found, expected[number], atol=1e-4):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@every_family
def test_weights_are_frozen(family: str) -> None:
    hf = tiny_model(family)
    assert any(parameter.requires_grad for parameter in hf.parameters())
    model = Seq2SeqModel(hf)
    assert not any(parameter.requires_grad for parameter in hf.parameters())
    assert not hf.training
    assert not model.force_decode([[5, 2]], [[5, 2]])[0].requires_grad


# Number formats.


def similarity(mine: list[Tensor], other: list[Tensor]) -> float:
    """The smallest cosine of a key with its counterpart."""
    return float(nn.functional.cosine_similarity(torch.cat(mine), torch.cat(other)).min())


@every_family
@pytest.mark.parametrize(("precision", "least"), [("bf16", 0.99), ("int8", 0.99)])
def test_other_number_formats_are_close(family: str, precision: str, least: float) -> None:
    sources, targets = random_sources(7), made_targets()
    exact = Seq2SeqModel(tiny_model(family, 7)).force_decode(sources, targets)
    rough = Seq2SeqModel(tiny_model(family, 7), precision=precision).force_decode(sources, targets)
    assert all(key.dtype == torch.float32 for key in rough)
    assert not torch.equal(torch.cat(exact), torch.cat(rough))
    assert similarity(exact, rough) > least


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "t5"])
def test_int8_does_not_depend_on_the_batch(family: str) -> None:
    """Batched with a sentence of far larger activations, a scale for the whole batch would show."""
    model = Seq2SeqModel(tiny_model(family, 8), precision="int8")
    sources, targets = random_sources(8, count=6), made_targets(6)
    together = model.force_decode(sources, targets)
    for source, target, found in zip(sources, targets, together, strict=True):
        torch.testing.assert_close(found, model.force_decode([source], [target])[0], rtol=1e-3, atol=1e-3)


def test_int8_rows_are_independent() -> None:
    torch.manual_seed(0)
    layer = Int8Linear(nn.Linear(16, 24))
    rows = torch.randn(5, 3, 16) * torch.tensor([1.0, 1e3, 1e-3, 1.0, 0.0])[:, None, None]
    together = layer(rows)
    assert together.shape == (5, 3, 24)
    for number in range(5):
        assert torch.equal(together[number], layer(rows[number]))
        assert torch.equal(together[number, 1], layer(rows[number, 1]))


def test_int8_is_close_to_the_layer_it_replaces() -> None:
    torch.manual_seed(0)
    for linear in (nn.Linear(64, 48), nn.Linear(64, 48, bias=False)):
        rows = torch.randn(20, 64)
        error = (Int8Linear(linear)(rows) - linear(rows).detach()).abs().max()
        assert 0 < float(error) < 0.02


def test_unknown_formats_are_refused() -> None:
    with pytest.raises(ConfigError, match="must be one of fp32, bf16, int8"):
        Seq2SeqModel(tiny_model("marian"), precision="fp8")
    with pytest.raises(ConfigError, match="precision = 'int4': must be one of"):
        ModelConfig(precision="int4")
    with pytest.raises(ConfigError, match="key-layer = 'encoder': must be one of output, feed-forward"):
        ModelConfig(key_layer="encoder")


# Families.


def test_an_unsupported_model_type_names_the_supported() -> None:
    from transformers import AutoModelForSeq2SeqLM, BartConfig

    sizes = {"d_model": 8, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "encoder_layers": 1, "decoder_layers": 1}
    heads = {"encoder_attention_heads": 1, "decoder_attention_heads": 1, "max_position_embeddings": 8}
    bart = AutoModelForSeq2SeqLM.from_config(BartConfig(vocab_size=20, **sizes, **heads))
    with pytest.raises(ModelError, match=r"model type 'bart' is not supported; .*marian"):
        family_of(bart)
    with pytest.raises(ModelError, match="'bart'"):
        Seq2SeqModel(bart)


@every_family
def test_positions_bound_what_is_fed(family: str) -> None:
    model = Seq2SeqModel(tiny_model(family))
    assert model.positions == 64
    row = [5] * 63 + [2]
    assert model.force_decode([row], [row[len(model.prompt) - 1 :]])[0].shape[0] == 64 - len(model.prompt) + 1


def test_a_loaded_model_is_frozen_and_described(tiny: TranslationModel) -> None:
    assert tiny.language_pair == ("de", "en")
    assert tiny.key_layer == "output" and tiny.seq2seq.precision == "fp32"
    assert not any(parameter.requires_grad for parameter in tiny.seq2seq._model.parameters())
