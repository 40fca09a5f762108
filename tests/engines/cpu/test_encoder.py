"""All layers of an encoder in one call: what transformers gives, and for a sentence the same in every batch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from nearmt.engines.cpu.encoder import KernelEncoder
from nearmt.models import Seq2SeqModel
from tests.kernels import needs_kernels
from tests.tiny import FAMILIES, random_sources, tiny_model

pytestmark = needs_kernels

KNOWN = [family for family in FAMILIES if family != "t5"]
every_known_family = pytest.mark.parametrize("family", KNOWN)
every_precision = pytest.mark.parametrize("precision", ["fp32", "int8"])


def by_kernel(hf: Any, **settings: Any) -> Seq2SeqModel:
    model = Seq2SeqModel(hf, **settings)
    assert isinstance(model.network.encoder, KernelEncoder)
    return model


def encoded(model: Seq2SeqModel, sources: list[list[int]]) -> list[Tensor]:
    """The states of each sentence, without padding."""
    state = model.encode(sources)
    return [state.encoded_SFH[number, : len(source)] for number, source in enumerate(sources)]


def by_transformers(hf: Any, sources: list[list[int]]) -> list[Tensor]:
    """The same, each sentence alone."""
    with torch.inference_mode():
        return [hf.get_encoder()(input_ids=torch.tensor([source])).last_hidden_state[0] for source in sources]


def check(hf: Any, sources: list[list[int]]) -> None:
    expected = by_transformers(hf, sources)
    found = encoded(by_kernel(hf), sources)
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)


# As transformers has it.


@every_known_family
def test_sentences_are_those_of_transformers(family: str) -> None:
    """Of unequal lengths, more than a vector has lanes."""
    check(tiny_model(family, 3), random_sources(3, count=7, longest=50))


@pytest.mark.parametrize("activation", ["relu", "silu", "gelu"])
@pytest.mark.parametrize("family", ["marian", "m2m_100"])
def test_activations(family: str, activation: str) -> None:
    """Norms behind the blocks or before them."""
    check(tiny_model(family, 3, activation_function=activation), random_sources(3, count=3))


@pytest.mark.parametrize(("width", "inner"), [(6, 5), (20, 37), (36, 130), (72, 33), (132, 64)])
@pytest.mark.parametrize("family", ["marian", "nllb"])
def test_sizes_that_fill_no_vectors(family: str, width: int, inner: int) -> None:
    check(tiny_model(family, 3, d_model=width, encoder_ffn_dim=inner), random_sources(3, count=4, longest=20))


def test_more_tokens_than_go_through_the_layers_together() -> None:
    """Several groups of sentences, and one sentence that is a group by itself."""
    sources = [*random_sources(3, count=12, longest=60), list(range(4, 50)) * 7, *random_sources(4, count=3)]
    check(tiny_model("marian", 3, max_position_embeddings=400), sources)


@pytest.mark.parametrize("family", ["m2m_100", "fsmt"])
def test_padding_within_a_source(family: str) -> None:
    """Tokenizers may read it from a text. In these families it has no position of its own."""
    hf: Any = tiny_model(family, 3)
    check(hf, [[5, 6, hf.config.pad_token_id, 7, 8, 2], [9, 2]])


@every_known_family
def test_rounded_weights_say_nearly_the_same(family: str) -> None:
    sources = random_sources(3, count=5, longest=20)
    exact = torch.cat(by_transformers(tiny_model(family, 3), sources))
    found = torch.cat(encoded(by_kernel(tiny_model(family, 3), precision="int8"), sources))
    assert float((found - exact).abs().mean()) < 0.05 * float(exact.abs().mean())


def test_padding_is_zero() -> None:
    state = by_kernel(tiny_model("mbart", 3)).encode([[5, 6, 7, 2], [8, 2]])
    assert not state.encoded_SFH[1, 2:].any()


def test_it_follows_trained_weights() -> None:
    hf: Any = tiny_model("marian", 3)
    model, sources = by_kernel(hf), random_sources(3, count=3)
    encoded(model, sources)
    with torch.no_grad():
        for layer in hf.get_encoder().layers:
            layer.fc1.weight.mul_(1.5)
            layer.self_attn.k_proj.weight.mul_(1.5)
    model.follow_weights()
    for mine, other in zip(encoded(model, sources), by_transformers(hf, sources), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)


# The same in every batch.


@every_known_family
@every_precision
def test_a_sentence_is_the_same_in_every_batch(family: str, precision: str) -> None:
    """To the last bit: alone, among longer and shorter ones, in another order, on the edge of a group."""
    model = by_kernel(tiny_model(family, 3, d_model=48), precision=precision)
    sources = random_sources(5, count=24, longest=40)
    together = encoded(model, sources)
    for number, source in enumerate(sources):
        assert torch.equal(encoded(model, [source])[0], together[number])
    backwards = encoded(model, sources[::-1])[::-1]
    some = encoded(model, sources[3:8])
    assert all(map(torch.equal, backwards, together)) and all(map(torch.equal, some, together[3:8]))
