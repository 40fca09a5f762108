"""Steps on a stage of fixed shape give what steps without one give; on a CPU they are done anew instead of replayed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from nearmt.decoding import BeamConfig, beam_search
from nearmt.engines.cuda import decoder as graphs
from nearmt.engines.cuda.decoder import GraphedDecoder, GraphedState, Shape
from nearmt.methods.plain import PlainMethod
from nearmt.models import Seq2SeqModel
from tests.engines.reference.test_decoder import Run, with_others_following
from tests.tiny import FAMILIES, random_sources, restless_model, tiny_model

every_family = pytest.mark.parametrize("family", FAMILIES)

# On a GPU layers are torch's.
pytestmark = pytest.mark.usefixtures("no_kernels")


def staged(model: Seq2SeqModel) -> Seq2SeqModel:
    """As on a GPU, without the recording."""
    model._graphed = GraphedDecoder(model._decoder)
    return model


@every_family
@pytest.mark.parametrize("slots", [8, 128])
def test_rows_are_those_of_their_prefixes(family: str, slots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "_SLOTS", slots)
    hf: Any = tiny_model(family, 3)
    model = staged(Seq2SeqModel(hf))
    run = Run(model, random_sources(3, count=5, longest=8), seed=1)
    still_open = [0, 1, 2, 3, 4]
    on_stage = []
    for time in range(12):
        found = run.step()
        torch.testing.assert_close(found, run.expected(hf), rtol=1e-4, atol=1e-4)
        assert isinstance(run.state, GraphedState)
        on_stage.append(run.state.stage is not None)
        if time in (4, 8):
            still_open.pop(1)
        run.choose(still_open, rows_each=1 if time == 10 else 3)
    assert on_stage == [False] + [True] * 11  # the first step shows what a stage is like
    assert model._graphed is not None and len(model._graphed._stages) >= 3


@every_family
@pytest.mark.parametrize("longest", [3, 8, 40])
def test_sentences_take_the_seats_of_others(family: str, longest: int) -> None:
    hf: Any = tiny_model(family, 3)
    run = with_others_following(staged(Seq2SeqModel(hf)), hf, longest)
    assert isinstance(run.state, GraphedState) and run.state.stage is not None


def test_a_stage_is_used_again() -> None:
    model = staged(Seq2SeqModel(tiny_model("marian", 3)))
    for seed in range(3):
        run = Run(model, random_sources(seed, count=3, longest=8), seed)
        for _ in range(6):
            run.step()
            run.choose([0, 1, 2], rows_each=2)
    assert model._graphed is not None
    assert list(model._graphed._stages) == [Shape(sentences=3, rows_each=2, slots=128, positions=16)]


def test_requests_side_by_side_do_not_share_a_stage() -> None:
    hf: Any = tiny_model("marian", 3)
    model = staged(Seq2SeqModel(hf))
    runs = [Run(model, random_sources(seed, count=3, longest=8), seed) for seed in range(2)]
    for _ in range(6):
        for run in runs:
            torch.testing.assert_close(run.step(), run.expected(hf), rtol=1e-4, atol=1e-4)
            run.choose([0, 1, 2], rows_each=2)
    first, second = (run.state for run in runs)
    assert isinstance(first, GraphedState) and isinstance(second, GraphedState)
    assert first.stage is not None and second.stage is None
    # The stage is free as soon as nobody uses it.
    del first, run
    runs.pop(0)
    runs[0].step()
    assert second.stage is not None


def test_rows_that_do_not_move_stay() -> None:
    hf: Any = tiny_model("marian", 3)
    run = Run(staged(Seq2SeqModel(hf)), random_sources(3, count=2, longest=8), seed=1)
    run.step()
    run.choose([0, 1], rows_each=2)
    run.step()
    run.choose([0, 1], rows_each=2)
    run.step()
    run.prefixes = [[*prefix, 5] for prefix in run.prefixes]  # without `reorder`
    torch.testing.assert_close(run.step(), run.expected(hf), rtol=1e-4, atol=1e-4)


@every_family
@pytest.mark.parametrize("together", [2, 6])
def test_translations_are_the_same(family: str, together: int) -> None:
    sources = random_sources(5, count=6)

    def tokens(model: Seq2SeqModel) -> list[list[int]]:
        lengths = [len(source) for source in sources]
        config = BeamConfig(max_new_tokens=30)
        found, _ = beam_search(model, PlainMethod(), sources, lengths, config, slots=together)
        return [hypothesis.tokens for hypothesis in found]

    assert tokens(staged(Seq2SeqModel(restless_model(family)))) == tokens(Seq2SeqModel(restless_model(family)))


@every_family
def test_seats_that_nobody_takes_do_not_leave_the_positions(family: str) -> None:
    """Five of six seats are taken; as others follow, there are more steps than the model has positions."""
    sources = random_sources(5, count=120)
    model = staged(Seq2SeqModel(restless_model(family)))
    lengths = [len(source) for source in sources]
    found, _ = beam_search(model, PlainMethod(), sources, lengths, BeamConfig(max_new_tokens=30), slots=5)
    assert sum(hypothesis.steps for hypothesis in found) > 5 * model.positions
    assert model._graphed is not None
    assert any(shape.sentences == 6 for shape in model._graphed._stages)
