"""What is special to kernels: sizes, activations, int8, and rows that do not depend on their batch.

What steps compute is tested for all engines in tests/engines/test_decoders.py.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor

from nearmt.engines.cpu.decoder import KernelDecoder
from nearmt.engines.reference import decoder_state
from nearmt.engines.reference.decoder import TorchDecoder
from nearmt.models import Seq2SeqModel
from tests.engines.decoder_runs import Run, steps_of
from tests.kernels import needs_kernels
from tests.tiny import FAMILIES, VOCABULARY, random_sources, tiny_model

pytestmark = needs_kernels

KNOWN = [family for family in FAMILIES if family != "t5"]
every_known_family = pytest.mark.parametrize("family", KNOWN)


def by_kernel(hf: Any, **settings: Any) -> Seq2SeqModel:
    model = Seq2SeqModel(hf, **settings)
    assert isinstance(model.network.decoder, KernelDecoder)
    return model


def by_torch(hf: Any, **settings: Any) -> Seq2SeqModel:
    model = Seq2SeqModel(hf, **settings)
    assert isinstance(model.network.decoder, TorchDecoder)
    return model


@every_known_family
def test_rounded_weights_say_nearly_the_same(family: str, request: pytest.FixtureRequest) -> None:
    """Inputs are rounded to one of 255 levels, here and there to another one; cached keys and values are fp16."""
    exact = steps_of(by_kernel(tiny_model(family, 3)))
    found = steps_of(by_kernel(tiny_model(family, 3), precision="int8"))
    request.getfixturevalue("no_kernels")
    expected = steps_of(by_torch(tiny_model(family, 3), precision="int8"))
    there = exact.isfinite()
    assert torch.equal(found.isfinite(), there)

    def apart(one: Tensor, other: Tensor) -> float:
        return float((one - other)[there].abs().mean())

    assert apart(found, expected) < 0.03
    # Neither is farther from fp32 than the other, but for chance.
    assert apart(found, exact) < 1.5 * apart(expected, exact)


# As transformers has it.


def check_steps(hf: Any, rows: list[int], longest: int = 8) -> None:
    """Every step of rows of some sentences is that of their prefixes."""
    run = Run(by_kernel(hf), random_sources(3, count=3, longest=longest), seed=1)
    for rows_each in rows:
        run.check(hf)
        run.choose([0, 1, 2], rows_each)


@pytest.mark.parametrize("activation", ["relu", "silu", "gelu"])
@pytest.mark.parametrize("family", ["marian", "m2m_100"])
def test_activations(family: str, activation: str) -> None:
    """Norms behind the blocks or before them."""
    hf: Any = tiny_model(family, 3, activation_function=activation)
    # Far from zero, too, where exponentials overflow.
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
    """Lengths are unequal: no row attends to the padding of a shorter one."""
    check_steps(tiny_model("marian", 3), [2, 2], longest=50)


@pytest.mark.parametrize("capacity", [4, 64])
def test_more_cached_tokens_than_a_vector(capacity: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_state, "_CAPACITY", capacity)
    check_steps(tiny_model("marian", 3), [4] * 9)


@pytest.mark.parametrize("rows", [90, 100])
def test_more_rows_than_go_through_weights_together(rows: int) -> None:
    check_steps(tiny_model("marian", 3), [rows, 1])


def test_cached_keys_and_values_of_int8_are_fp16() -> None:
    for precision, dtype in {"int8": torch.float16, "fp32": torch.float32}.items():
        run = Run(by_kernel(tiny_model("marian", 3), precision=precision), random_sources(3, count=2), seed=1)
        run.step()
        for cached in (run.state.own, run.state.source):
            assert cached is not None and cached.key.dtype == cached.value_LGXD.dtype == dtype


# The same in every batch.


def go_on(state: decoder_state.DecoderState, choosers: list[random.Random], each: int) -> Tensor:
    """Continue some rows of each sentence as its chooser says; returns their tokens."""
    rows = state.rows_each
    parents = [slot * rows + own.randrange(rows) for slot, own in enumerate(choosers) for _ in range(each)]
    state.reorder(torch.tensor(parents))
    return torch.tensor([[own.randrange(4, VOCABULARY)] for own in choosers for _ in range(each)])


def steps_among(model: Seq2SeqModel, others: list[list[int]], before: int, each: int = 3) -> Tensor:
    """Logits and keys of one sentence at every step, among others that took `before` steps before it."""
    mine, theirs = random.Random(1), random.Random(2)
    state = model.encode([[*range(7, 26), 2]])
    found = [torch.cat(model.step(state, torch.tensor([model.prompt])), dim=1)]
    newest_BT, slot = go_on(state, [mine], each), 0
    if others:
        batch, slot = model.encode(others), 1
        model.step(batch, torch.tensor([model.prompt] * len(others)))
        token_BT = go_on(batch, [theirs] * len(others), each)
        for _ in range(before):
            model.step(batch, token_BT)
            token_BT = go_on(batch, [theirs] * len(others), each)
        with torch.inference_mode():
            batch.replace([slot], state, [0])
        token_BT[slot * each : (slot + 1) * each] = newest_BT
        state, newest_BT = batch, token_BT
    choosers = [mine if number == slot else theirs for number in range(state.slots)]
    for _ in range(14):
        all_BX = torch.cat(model.step(state, newest_BT), dim=1)
        found.append(all_BX[slot * each : (slot + 1) * each])
        newest_BT = go_on(state, choosers, each)
    return torch.cat(found)


@every_known_family
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_rows_are_the_same_in_every_batch(family: str, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit, although cached tokens lie elsewhere after other sentences; also among hundreds of rows."""
    monkeypatch.setattr(decoder_state, "_CAPACITY", 24)
    model = by_kernel(tiny_model(family, 3, d_model=48), precision=precision)
    alone = steps_among(model, [], 0)
    for count, before in ((2, 0), (2, 1), (3, 5), (4, 9), (60, 2)):
        assert torch.equal(steps_among(model, random_sources(count, count=count, longest=30), before), alone)
