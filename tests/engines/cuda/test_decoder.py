"""Static batches: when they are used, shared and freed. On a CPU their steps run without being captured.

What steps compute is tested for all engines in tests/engines/test_decoders.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from nearmt.decoding import BeamConfig, beam_search
from nearmt.engines.cuda import decoder as cuda_decoder
from nearmt.engines.cuda.decoder import GraphDecoder, GraphState, Shape, StaticBatch
from nearmt.methods.plain import PlainMethod
from nearmt.models import Seq2SeqModel
from tests.engines.decoder_runs import Run, check_replaced
from tests.engines.test_decoders import on_graphs
from tests.tiny import FAMILIES, random_sources, restless_model, tiny_model

every_family = pytest.mark.parametrize("family", FAMILIES)

# On a GPU layers are torch's.
pytestmark = pytest.mark.usefixtures("no_kernels")


def opened(hf: Any) -> Seq2SeqModel:
    return on_graphs(Seq2SeqModel(hf))


def shapes_of(model: Seq2SeqModel) -> list[Shape]:
    assert isinstance(model.network.decoder, GraphDecoder)
    return list(model.network.decoder.batches)


def batch_of(run: Run) -> StaticBatch | None:
    assert isinstance(run.state, GraphState)
    return run.state.batch


@pytest.mark.parametrize("tokens", [8, 128])
def test_all_steps_but_the_first_use_a_static_batch(tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step defines the format of keys and values."""
    monkeypatch.setattr(cuda_decoder, "_TOKENS", tokens)
    hf: Any = tiny_model("marian", 3)
    model = opened(hf)
    run = Run(model, random_sources(3, count=5, longest=8), seed=1)
    still_open, bound = [0, 1, 2, 3, 4], []
    for time in range(12):
        run.check(hf)
        bound.append(batch_of(run) is not None)
        if time in (4, 8):
            still_open.pop(1)
        run.choose(still_open, rows_each=1 if time == 10 else 3)
    assert bound == [False] + [True] * 11
    assert len(shapes_of(model)) >= 3


def test_replaced_sentences_use_the_static_batch() -> None:
    hf: Any = tiny_model("marian", 3)
    assert batch_of(check_replaced(opened(hf), hf, longest=8)) is not None


def test_a_static_batch_is_used_again() -> None:
    model = opened(tiny_model("marian", 3))
    for seed in range(3):
        run = Run(model, random_sources(seed, count=3, longest=8), seed)
        for _ in range(6):
            run.step()
            run.choose([0, 1, 2], rows_each=2)
    assert shapes_of(model) == [Shape(slots=3, rows_each=2, tokens=128, positions=16)]


def test_concurrent_requests_do_not_share_a_static_batch() -> None:
    hf: Any = tiny_model("marian", 3)
    model = opened(hf)
    runs = [Run(model, random_sources(seed, count=3, longest=8), seed) for seed in range(2)]
    for _ in range(6):
        for run in runs:
            run.check(hf)
            run.choose([0, 1, 2], rows_each=2)
    assert batch_of(runs[0]) is not None and batch_of(runs[1]) is None
    # It is free as soon as the request is gone.
    del run
    runs.pop(0)
    runs[0].step()
    assert batch_of(runs[0]) is not None


@every_family
def test_unused_slots_stay_within_the_positions(family: str) -> None:
    """Five of six slots are in use; sentences follow each other for more steps than the model has positions."""
    sources = random_sources(5, count=120)
    model = opened(restless_model(family))
    lengths = [len(source) for source in sources]
    found, _ = beam_search(model, PlainMethod(), sources, lengths, BeamConfig(max_new_tokens=30), slots=5)
    assert sum(hypothesis.steps for hypothesis in found) > 5 * model.positions
    assert any(shape.slots == 6 for shape in shapes_of(model))
