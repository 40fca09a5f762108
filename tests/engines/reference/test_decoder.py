"""Layers of the reference as TorchScript.

What they compute is tested for all engines in tests/engines/test_decoders.py.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from nearmt.config.model import PRECISIONS
from nearmt.engines.reference import decoder, integer
from nearmt.engines.reference.decoder import TorchDecoder, TorchLayers
from nearmt.models import Seq2SeqModel
from tests.engines.decoder_runs import Run, steps_of
from tests.tiny import FAMILIES, random_sources, tiny_model

every_family = pytest.mark.parametrize("family", FAMILIES)


def compiled(model: Seq2SeqModel) -> list[bool]:
    """Of each layer: whether a step calls it as a whole."""
    assert isinstance(model.network.decoder, TorchDecoder)
    layers = model.network.decoder._layers
    assert isinstance(layers, TorchLayers)
    return [isinstance(layer, torch.jit.ScriptModule) for layer in layers.layers]


@every_family
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.usefixtures("no_kernels")
def test_compiled_layers_give_the_same_numbers(family: str, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Seq2SeqModel(tiny_model(family, 3), precision=precision)
    assert compiled(model) == [True, True]
    monkeypatch.setattr(decoder, "scripted", lambda layer: layer)
    as_it_is = Seq2SeqModel(tiny_model(family, 3), precision=precision)
    assert compiled(as_it_is) == [False, False]
    assert torch.equal(steps_of(model), steps_of(as_it_is))


@pytest.mark.usefixtures("no_kernels")
def test_layers_are_compiled_with_every_product(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = steps_of(Seq2SeqModel(tiny_model("marian", 3), precision="int8"))
    plain = integer._Plain, integer._kernel()[1]
    monkeypatch.setattr(integer, "_kernel", lambda: plain)
    model = Seq2SeqModel(tiny_model("marian", 3), precision="int8")
    assert compiled(model) == [True, True]
    torch.testing.assert_close(steps_of(model), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("no_kernels")
def test_layers_that_cannot_be_compiled_run_as_they_are() -> None:
    model = Seq2SeqModel(tiny_model("marian", 3), key_layer="feed-forward")
    expected = steps_of(model)
    # Encoding has loaded transformers' modules: a probe hooks into the last layer, in Python.
    model.follow_weights()
    assert compiled(model) == [True, False]
    assert torch.equal(steps_of(model), expected)


def test_joined_layers_follow_their_weights() -> None:
    hf: Any = tiny_model("marian", 3)
    model = Seq2SeqModel(hf)
    steps_of(model)
    with torch.no_grad():
        for layer in hf.get_decoder().layers:
            layer.fc1.weight.mul_(1.5)
            layer.self_attn.k_proj.weight.mul_(1.5)
    model.follow_weights()
    Run(model, random_sources(3, count=4, longest=8), seed=1).check(hf)
