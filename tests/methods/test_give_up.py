"""Methods with a memory do not wait for hypotheses that are far behind the best that ended."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from nearmt.decoding import BeamConfig, Hypothesis, beam_search
from nearmt.methods import PRESETS, PlainMethod, make_method
from nearmt.methods.knn import TOLERANCE
from nearmt.methods.plain import PlainState
from nearmt.methods.retrieving import RetrievingMethod
from nearmt.models import Seq2SeqModel
from nearmt.steps import Method
from tests.methods.test_equivalences import assert_same, store_of
from tests.methods.test_guard import METHODS, TrustingStore, mixed_trust, world
from tests.requests import make_request
from tests.tiny import random_sources, restless_model
from tests.toy_store import ToyStore

BEAM = BeamConfig(beams=5, max_new_tokens=60)
NOTHING: dict[str, dict[str, Any]] = {"knn": {"lambda": 0.0}, "chunk": {"lambda": 0.0, "cache-lambda": 0.0}}


def restless_world(count: int = 8) -> tuple[Seq2SeqModel, TrustingStore, list[list[int]]]:
    """The model ends sentences by itself."""
    model = Seq2SeqModel(restless_model("nllb", 0))
    known = store_of(model)
    return model, TrustingStore(known.key_ND, known.token_N, known.ends), random_sources(3, count=count)


def search(model: Seq2SeqModel, method: Method, sources: list[list[int]]) -> list[Hypothesis]:
    return beam_search(model, method, sources, [len(source) for source in sources], BEAM)[0]


def made(name: str, store: ToyStore, **settings: Any) -> RetrievingMethod:
    method, usual = METHODS[name]
    found = make_method(method, store, {**usual, **settings})
    assert isinstance(found, RetrievingMethod)
    return found


def tolerances(method: Method, sources: list[list[int]]) -> list[float]:
    state = method.begin(make_request([len(source) for source in sources], 10, sources))
    return state.begin(range(len(sources)))


@pytest.mark.parametrize("name", METHODS)
def test_steps_are_saved_and_nothing_better_is_found(name: str) -> None:
    """Both searches are one until the first stops: what the second finds is as good or better."""
    model, store, sources = world("nllb", count=16)
    share = 10.0 if name == "sk-mt" else 0.05  # where T is small, its neighbours have no weight
    sharp = {"lambda": 0.9, "temperature": share * store.search_scale, "ends": "all"}
    early = search(model, made(name, store, **sharp), sources)
    late = search(model, made(name, store, **sharp, **{"give-up": False}), sources)
    assert sum(h.steps for h in early) < sum(h.steps for h in late)
    for one, other in zip(early, late, strict=True):
        assert one.steps <= other.steps and one.score <= other.score
        if one.steps == other.steps:
            assert one.tokens == other.tokens
    assert sum(one.tokens == other.tokens for one, other in zip(early, late, strict=True)) > len(sources) // 2


@pytest.mark.parametrize("name", METHODS)
def test_where_neighbours_have_no_say_it_waits_as_generate_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, store, sources = restless_world()
    alone = search(model, PlainMethod(), sources)
    assert len({h.steps for h in alone}) > 2
    assert tolerances(PlainMethod(), sources) == [math.inf] * len(sources)
    weightless = made(name, store, **NOTHING[METHODS[name][0] if METHODS[name][0] in NOTHING else "knn"])
    empty = made(name, ToyStore(torch.zeros(0, store.columns), torch.zeros(0, dtype=torch.long), []))
    store.rule = lambda source: 0.0
    distrusted = made(name, store)
    for method in (weightless, empty, distrusted):
        assert tolerances(method, sources) == [math.inf] * len(sources)
        found = search(model, method, sources)
        assert_same(found, alone)
        assert [h.steps for h in found] == [h.steps for h in alone]
    # Here it matters.
    monkeypatch.setattr(PlainState, "begin", lambda self, sentences: [TOLERANCE] * len(sentences))
    assert [h.steps for h in search(model, PlainMethod(), sources)] != [h.steps for h in alone]


@pytest.mark.parametrize("name", METHODS)
def test_each_sentence_waits_for_itself(name: str) -> None:
    _, store, sources = world()
    store.rule = mixed_trust
    expected = [math.inf if mixed_trust(source) == 0.0 else TOLERANCE for source in sources]
    assert set(expected) == {math.inf, TOLERANCE}
    assert tolerances(made(name, store), sources) == expected
    assert tolerances(made(name, store, guard=False), sources) == [TOLERANCE] * len(sources)
    assert tolerances(made(name, store, **{"give-up": False}), sources) == [math.inf] * len(sources)


def test_batch_of_16_is_batch_of_1() -> None:
    model, store, sources = restless_world(count=16)
    store.rule = mixed_trust
    method = made("chunk", store, **{"lambda": 0.9, "ends": "all"})
    together = search(model, method, sources)
    alone = [search(model, method, [source])[0] for source in sources]
    assert_same(together, alone, 1e-4)
    assert [h.steps for h in together] == [h.steps for h in alone]
    waiting = search(model, made("chunk", store, **{"lambda": 0.9, "ends": "all", "give-up": False}), sources)
    assert [h.steps for h in together] != [h.steps for h in waiting]
    in_turn = beam_search(model, method, sources, [len(source) for source in sources], BEAM, slots=3)[0]
    assert_same(in_turn, alone, 1e-4)
    assert [h.steps for h in in_turn] == [h.steps for h in alone]


@pytest.mark.parametrize("name", PRESETS)
def test_presets_wait_as_published(name: str) -> None:
    _, store, sources = world()
    assert tolerances(make_method("chunk", store, PRESETS[name]), sources) == [math.inf] * len(sources)


def test_it_is_part_of_the_signature() -> None:
    _, store, _ = world()
    on, off = made("knn", store).signature(), made("knn", store, **{"give-up": False}).signature()
    assert "|give-up:True" in on and "|give-up:False" in off
