"""A decoder that never copies what rows share gives what each row gives on its own."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor

from nearmt.config.model import PRECISIONS
from nearmt.engines.reference import decoder, decoder_state, integer
from nearmt.engines.reference.decoder import TorchLayers
from nearmt.models import Seq2SeqModel
from tests.tiny import FAMILIES, VOCABULARY, random_sources, tiny_model

every_family = pytest.mark.parametrize("family", FAMILIES)


class Run:
    """Rows of some sentences that are continued, repeated, dropped at random."""

    def __init__(self, model: Seq2SeqModel, sources: list[list[int]], seed: int) -> None:
        self.model, self.sources = model, sources
        self.random = random.Random(seed)
        self.state = model.encode(sources)
        self.prefixes = [list(model.prompt) for _ in sources]
        self.owner = list(range(len(sources)))
        self.is_new = True

    def step(self) -> Tensor:
        """Feed what is new; the logits of all rows."""
        newest = torch.tensor(self.prefixes if self.is_new else [prefix[-1:] for prefix in self.prefixes])
        self.is_new = False
        return self.model.step(self.state, newest)[0]

    def choose(self, open_sentences: list[int], rows_each: int) -> None:
        """Every open sentence goes on with so many rows, each from any row it had, with any token."""
        rows = []
        for sentence in open_sentences:
            own = [row for row, owner in enumerate(self.owner) if owner == sentence]
            rows += [self.random.choice(own) for _ in range(rows_each)]
        owner = [self.owner[row] for row in rows]
        kept = [place for place, sentence in enumerate(dict.fromkeys(self.owner)) if sentence in open_sentences]
        self.state.reorder(torch.tensor(rows), kept)
        tokens = [self.random.randrange(4, VOCABULARY) for _ in rows]
        self.prefixes = [[*self.prefixes[row], token] for row, token in zip(rows, tokens, strict=True)]
        self.owner = owner

    def replace(self, place: int, newer: Run, chosen: int) -> None:
        """A sentence of a newer run takes the place of one of this, with as many rows."""
        with torch.inference_mode():
            self.state.replace([place], newer.state, [chosen])
        each = self.state.rows_each
        rows, newer_rows = slice(place * each, (place + 1) * each), slice(chosen * each, (chosen + 1) * each)
        self.prefixes[rows] = newer.prefixes[newer_rows]
        self.owner[rows] = [len(self.sources)] * each
        self.sources = [*self.sources, newer.sources[newer.owner[chosen * each]]]

    def expected(self, hf: Any) -> Tensor:
        """The logits that transformers gives for each row's whole prefix, without any cache."""
        logits = []
        for prefix, owner in zip(self.prefixes, self.owner, strict=True):
            inputs = {"input_ids": torch.tensor([self.sources[owner]]), "decoder_input_ids": torch.tensor([prefix])}
            with torch.inference_mode():
                logits.append(hf(**inputs, use_cache=False).logits[0, -1])
        return torch.stack(logits)


@every_family
@pytest.mark.parametrize("room", [4, 64])
def test_rows_are_those_of_their_prefixes(family: str, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_state, "_ROOM", room)
    hf: Any = tiny_model(family, 3)
    run = Run(Seq2SeqModel(hf), random_sources(3, count=4, longest=8), seed=1)
    still_open = [0, 1, 2, 3]
    for time in range(12):
        found = run.step()
        torch.testing.assert_close(found, run.expected(hf), rtol=1e-4, atol=1e-4)
        if time in (4, 8):
            still_open.pop(1)
        run.choose(still_open, rows_each=1 if time == 10 else 3)


def with_others_following(model: Seq2SeqModel, hf: Any, longest: int) -> Run:
    """A run in which sentences of another one take places; every step is that of the rows' prefixes."""
    run = Run(model, random_sources(3, count=3, longest=8), seed=1)
    newer = Run(model, random_sources(4, count=3, longest=longest), seed=2)
    newer.step()
    newer.choose([0, 1, 2], rows_each=2)
    for time in range(14):
        torch.testing.assert_close(run.step(), run.expected(hf), rtol=1e-4, atol=1e-4)
        run.choose(list(dict.fromkeys(run.owner)), rows_each=2)
        if time in (2, 3, 9):
            run.replace({2: 1, 3: 1, 9: 0}[time], newer, {2: 2, 3: 0, 9: 1}[time])
    return run


@every_family
@pytest.mark.parametrize("room", [4, 64])
@pytest.mark.parametrize("longest", [3, 8, 20])
def test_sentences_take_the_places_of_others(
    family: str, room: int, longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoder_state, "_ROOM", room)
    hf: Any = tiny_model(family, 3)
    run = with_others_following(Seq2SeqModel(hf), hf, longest)
    assert run.state.source_lengths == [len(run.sources[owner]) for owner in dict.fromkeys(run.owner)]


def test_slots_that_nobody_looks_at_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_state, "_ROOM", 16)
    model = Seq2SeqModel(tiny_model("marian", 3))
    run = Run(model, random_sources(3, count=2, longest=8), seed=2)
    for _ in range(40):
        run.step()
        # All rows go on from the first one: of every step but the last, one slot is in use.
        run.state.reorder(torch.tensor([0] * 4 + [run.state.rows_each] * 4))
        run.prefixes = [[*run.prefixes[0], 5 + row] for row in range(8)]
    assert run.state.position_S.tolist() == [40, 40]
    assert run.state.own is not None and run.state.own.value_LGXD.shape[2] <= 64  # not the 160 of all rows of all steps


def test_a_sentence_does_not_see_the_padding_of_its_neighbours() -> None:
    model = Seq2SeqModel(tiny_model("marian", 3))
    short, long = [7, 8, 0], [4, 5, 6, 7, 8, 9, 10, 11, 0]
    together, alone = Run(model, [short, long], 1).step(), Run(model, [short], 1).step()
    torch.testing.assert_close(together[:1], alone, rtol=1e-5, atol=1e-5)


# Layers as TorchScript.


def compiled(model: Seq2SeqModel) -> list[bool]:
    """Of each layer: whether a step calls it as a whole."""
    assert isinstance(model._decoder._layers, TorchLayers)
    return [isinstance(layer, torch.jit.ScriptModule) for layer in model._decoder._layers.layers]


def steps_of(model: Seq2SeqModel) -> Tensor:
    """What many rows get at every step, of few rows and of many."""
    run = Run(model, random_sources(3, count=4, longest=8), seed=1)
    logits = []
    for rows_each in (1, 3, 3, 2, 2, 1):
        logits.append(run.step())
        run.choose([0, 1, 2, 3], rows_each)
    return torch.cat(logits)


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
def test_layers_are_compiled_with_every_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
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
    # Now the probe listens to the last layer, in Python.
    model.follow_weights()
    assert compiled(model) == [True, False]
    assert torch.equal(steps_of(model), expected)


def test_compiled_layers_follow_their_weights() -> None:
    hf: Any = tiny_model("marian", 3)
    model = Seq2SeqModel(hf)
    steps_of(model)
    with torch.no_grad():
        for layer in hf.get_decoder().layers:
            layer.fc1.weight.mul_(1.5)
            layer.self_attn.k_proj.weight.mul_(1.5)
    model.follow_weights()
    run = Run(model, random_sources(3, count=4, longest=8), seed=1)
    torch.testing.assert_close(run.step(), run.expected(hf), rtol=1e-4, atol=1e-4)
