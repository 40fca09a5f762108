"""All layers of a decoder in one call: what transformers gives, and what the same decoder gives layer by layer."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nearmt.engines.cpu.decoder import KernelLayers
from nearmt.engines.reference import decoder_state
from nearmt.engines.reference.decoder import TorchLayers
from nearmt.models import Seq2SeqModel
from tests.engines.reference.test_decoder import Run, steps_of, with_others_following
from tests.kernels import needs_kernels
from tests.tiny import FAMILIES, VOCABULARY, random_sources, tiny_model

pytestmark = needs_kernels

KNOWN = [family for family in FAMILIES if family != "t5"]
every_known_family = pytest.mark.parametrize("family", KNOWN)


def by_kernel(hf: Any, **settings: Any) -> Seq2SeqModel:
    model = Seq2SeqModel(hf, **settings)
    assert isinstance(model._decoder._layers, KernelLayers)
    return model


def by_torch(hf: Any, **settings: Any) -> Seq2SeqModel:
    model = Seq2SeqModel(hf, **settings)
    assert isinstance(model._decoder._layers, TorchLayers)
    return model


# Which decoders it knows.


def test_it_does_not_know_t5() -> None:
    """Positions are biases there, and its norms have no shift."""
    by_torch(tiny_model("t5", 3))


@pytest.mark.parametrize("activation", ["tanh", "gelu_new", "quick_gelu", "leaky_relu"])
def test_it_does_not_know_every_activation(activation: str) -> None:
    by_torch(tiny_model("marian", 3, activation_function=activation))


def test_it_reads_floats_only() -> None:
    by_torch(tiny_model("marian", 3), precision="bf16")


def test_it_does_not_know_norms_without_a_shift() -> None:
    hf: Any = tiny_model("marian", 3)
    norm = hf.get_decoder().layers[1].final_layer_norm
    hf.get_decoder().layers[1].final_layer_norm = nn.LayerNorm(norm.normalized_shape, bias=False)
    by_torch(hf)


@pytest.mark.usefixtures("no_kernels")
def test_without_kernels_layers_are_those_of_torch() -> None:
    by_torch(tiny_model("marian", 3))
    by_torch(tiny_model("marian", 3), precision="int8")


# With kernels and without.


@every_known_family
def test_steps_are_those_without_kernels(family: str, request: pytest.FixtureRequest) -> None:
    found = steps_of(by_kernel(tiny_model(family, 3)))
    request.getfixturevalue("no_kernels")
    torch.testing.assert_close(found, steps_of(by_torch(tiny_model(family, 3))), rtol=1e-4, atol=1e-4)


@every_known_family
def test_rounded_weights_say_nearly_the_same(family: str, request: pytest.FixtureRequest) -> None:
    """Inputs are rounded to one of 255 levels, here and there to another one; slots are halves."""
    exact = steps_of(by_kernel(tiny_model(family, 3)))
    found = steps_of(by_kernel(tiny_model(family, 3), precision="int8"))
    request.getfixturevalue("no_kernels")
    expected = steps_of(by_torch(tiny_model(family, 3), precision="int8"))
    there = exact.isfinite()
    assert torch.equal(found.isfinite(), there)

    def apart(one: Tensor, other: Tensor) -> float:
        return float((one - other)[there].abs().mean())

    assert apart(found, expected) < 0.03
    # Neither is farther from the truth than the other, but for chance.
    assert apart(found, exact) < 1.5 * apart(expected, exact)


@every_known_family
@pytest.mark.parametrize("key_layer", ["output", "feed-forward"])
def test_keys_are_those_without_kernels(family: str, key_layer: str, request: pytest.FixtureRequest) -> None:
    """What the last feed-forward block was given, or what all layers give."""

    def keys(model: Seq2SeqModel) -> Tensor:
        state = model.encode(random_sources(3, count=3, longest=8))
        return model.step(state, torch.tensor([list(model.prompt)] * 3))[1]

    found_BH = keys(by_kernel(tiny_model(family, 3), key_layer=key_layer))
    request.getfixturevalue("no_kernels")
    expected_BH = keys(by_torch(tiny_model(family, 3), key_layer=key_layer))
    torch.testing.assert_close(found_BH, expected_BH, rtol=1e-4, atol=1e-4)


# As transformers has it.


def check_steps(hf: Any, rows: list[int], longest: int = 8) -> None:
    """Every step of rows of some sentences is that of their prefixes."""
    run = Run(by_kernel(hf), random_sources(3, count=3, longest=longest), seed=1)
    for rows_each in rows:
        torch.testing.assert_close(run.step(), run.expected(hf), rtol=1e-4, atol=1e-4)
        run.choose([0, 1, 2], rows_each)


@pytest.mark.parametrize("activation", ["relu", "silu", "gelu"])
@pytest.mark.parametrize("family", ["marian", "m2m_100"])
def test_activations(family: str, activation: str) -> None:
    """Norms behind the blocks or before them."""
    hf: Any = tiny_model(family, 3, activation_function=activation)
    # Far from zero, too, where exponentials have no room.
    hf.get_decoder().layers[0].fc1.bias.data[::3] = 150.0
    hf.get_decoder().layers[0].fc1.bias.data[1::3] = -150.0
    check_steps(hf, [2, 2])


@pytest.mark.parametrize("family", ["fsmt", "mbart"])
def test_more_rows_than_are_compared_together(family: str) -> None:
    check_steps(tiny_model(family, 3), [5, 6, 11, 7, 1])


@pytest.mark.parametrize(("width", "inner"), [(6, 5), (20, 37), (36, 70), (72, 33), (132, 64)])
@pytest.mark.parametrize("family", ["marian", "nllb"])
def test_sizes_that_fill_no_vectors(family: str, width: int, inner: int) -> None:
    """Heads of 3 to 66 numbers."""
    check_steps(tiny_model(family, 3, d_model=width, decoder_ffn_dim=inner), [3, 2, 3])


def test_sources_longer_than_a_vector() -> None:
    """Lengths are unequal: nobody looks at what lies behind a shorter one."""
    check_steps(tiny_model("marian", 3), [2, 2], longest=50)


@pytest.mark.parametrize("room", [4, 64])
def test_more_slots_than_a_vector(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_state, "_ROOM", room)
    check_steps(tiny_model("marian", 3), [4] * 9)


@pytest.mark.parametrize("rows", [90, 100])
def test_more_rows_than_go_through_weights_together(rows: int) -> None:
    check_steps(tiny_model("marian", 3), [rows, 1])


@every_known_family
def test_sentences_take_the_places_of_others(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_state, "_ROOM", 8)
    hf: Any = tiny_model(family, 3)
    with_others_following(by_kernel(hf), hf, longest=20)


def test_sentences_leave() -> None:
    hf: Any = tiny_model("mbart", 3)
    run, still_open = Run(by_kernel(hf), random_sources(3, count=4, longest=8), seed=1), [0, 1, 2, 3]
    while still_open:
        torch.testing.assert_close(run.step(), run.expected(hf), rtol=1e-4, atol=1e-4)
        run.choose(still_open, rows_each=3)
        torch.testing.assert_close(run.step(), run.expected(hf), rtol=1e-4, atol=1e-4)
        still_open.pop(len(still_open) // 2)
        if still_open:
            run.choose(still_open, rows_each=2)


def test_slots_of_rounded_weights_are_halves() -> None:
    for precision, dtype in {"int8": torch.float16, "fp32": torch.float32}.items():
        run = Run(by_kernel(tiny_model("marian", 3), precision=precision), random_sources(3, count=2), seed=1)
        run.step()
        for slots in (run.state.own, run.state.source):
            assert slots is not None and slots.key.dtype == slots.value_LGXD.dtype == dtype


# The same in every batch.


def go_on(state: decoder_state.DecoderState, choosers: list[random.Random], each: int) -> Tensor:
    """Let each sentence continue some of its rows as its chooser says; returned are their tokens."""
    rows = state.rows_each
    parents = [place * rows + own.randrange(rows) for place, own in enumerate(choosers) for _ in range(each)]
    state.reorder(torch.tensor(parents))
    return torch.tensor([[own.randrange(4, VOCABULARY)] for own in choosers for _ in range(each)])


def steps_among(model: Seq2SeqModel, beside: list[list[int]], before: int, each: int = 3) -> Tensor:
    """Logits and keys of one sentence at every step, among others that have taken so many steps before it came."""
    mine, theirs = random.Random(1), random.Random(2)
    state = model.encode([[*range(7, 26), 2]])
    found = [torch.cat(model.step(state, torch.tensor([model.prompt])), dim=1)]
    newest_BT, place = go_on(state, [mine], each), 0
    if beside:
        batch, place = model.encode(beside), 1
        model.step(batch, torch.tensor([model.prompt] * len(beside)))
        token_BT = go_on(batch, [theirs] * len(beside), each)
        for _ in range(before):
            model.step(batch, token_BT)
            token_BT = go_on(batch, [theirs] * len(beside), each)
        with torch.inference_mode():
            batch.replace([place], state, [0])
        token_BT[place * each : (place + 1) * each] = newest_BT
        state, newest_BT = batch, token_BT
    choosers = [mine if number == place else theirs for number in range(state.sentences)]
    for _ in range(14):
        all_BX = torch.cat(model.step(state, newest_BT), dim=1)
        found.append(all_BX[place * each : (place + 1) * each])
        newest_BT = go_on(state, choosers, each)
    return torch.cat(found)


@every_known_family
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_rows_are_the_same_in_every_batch(family: str, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit, although slots lie elsewhere when others were there before; also among hundreds of rows."""
    monkeypatch.setattr(decoder_state, "_ROOM", 24)
    model = by_kernel(tiny_model(family, 3, d_model=48), precision=precision)
    alone = steps_among(model, [], 0)
    for count, before in ((2, 0), (2, 1), (3, 5), (4, 9), (60, 2)):
        assert torch.equal(steps_among(model, random_sources(count, count=count, longest=30), before), alone)
