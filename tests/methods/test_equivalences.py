"""What must come out the same, through the whole beam search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from nearmt.config.methods import ENDS
from nearmt.contracts import Pair, Translation
from nearmt.datastore import Datastore
from nearmt.decoding import BeamConfig, Hypothesis, beam_search
from nearmt.methods import METHODS, PRESETS, PlainMethod, make_method
from nearmt.models import Seq2SeqModel, TranslationModel
from nearmt.steps import Method
from nearmt.translator import Translator
from tests.conftest import make_pairs
from tests.random_stores import random_store
from tests.tiny import FAMILIES, VOCABULARY, random_sources, tiny_model
from tests.toy_store import ToyStore

BEAM = BeamConfig(beams=4, max_new_tokens=15)
KNN: dict[str, Any] = {"k": 4}
CHUNK: dict[str, Any] = {**KNN, "chunk": 6, "schedule": "geometric:2:8"}
STRATEGIES: dict[str, dict[str, Any]] = {"default": {}, "hypothesis": {"scope": "hypothesis"}, **PRESETS}
del STRATEGIES["paper"]  # another name for `sentence`

TEXTS = [pair.source for pair in make_pairs(8, seed=5)]


def store_of(model: Seq2SeqModel) -> ToyStore:
    """The states of random pairs, and temperatures that fit them."""
    sources, targets = random_sources(11, count=40), random_sources(12, count=40)
    states = model.force_decode(sources, targets)
    ends = torch.tensor([len(target) for target in targets]).cumsum(0).tolist()
    store = ToyStore(torch.cat(states), torch.tensor([token for target in targets for token in target]), ends)
    store.search_scale = float(store.search(store.key_ND, 8).distance_BK[:, 1:].median())
    return store


def search(model: Seq2SeqModel, method: Method, sources: list[list[int]]) -> list[Hypothesis]:
    return beam_search(model, method, sources, [len(source) for source in sources], BEAM)[0]


def assert_same(found: list[Hypothesis], expected: list[Hypothesis], tolerance: float = 0.0) -> None:
    assert [h.tokens for h in found] == [h.tokens for h in expected]
    assert [h.score for h in found] == pytest.approx([h.score for h in expected], abs=tolerance, rel=0)


def assert_differ(found: list[Hypothesis], other: list[Hypothesis]) -> None:
    assert [h.tokens for h in found] != [h.tokens for h in other]


@pytest.mark.parametrize("family", FAMILIES)
def test_weight_0_is_the_model_alone(family: str) -> None:
    model, sources = Seq2SeqModel(tiny_model(family, 1)), random_sources(1)
    store = store_of(model)
    alone = search(model, PlainMethod(), sources)
    assert_same(search(model, make_method("knn", store, {**KNN, "lambda": 0.0}), sources), alone)
    for strategy in ("default", "in-order", "sentence"):
        settings = {**CHUNK, **STRATEGIES[strategy], "lambda": 0.0, "cache-lambda": 0.0}
        assert_same(search(model, make_method("chunk", store, settings), sources), alone)
    # With weight they do change what comes out.
    assert_differ(search(model, make_method("knn", store, KNN), sources), alone)
    assert_differ(
        search(model, make_method("chunk", store, {**CHUNK, "lambda": 0.0, "cache-lambda": 0.6}), sources), alone
    )
    assert_differ(search(model, make_method("chunk", store, {**CHUNK, "cache-lambda": 0.0}), sources), alone)


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("family", ["marian", "nllb"])
def test_chunks_of_one_token_at_every_step_are_knn(family: str, strategy: str, ends: str) -> None:
    model, sources = Seq2SeqModel(tiny_model(family, 2)), random_sources(2)
    store = store_of(model)
    settings = {**CHUNK, **STRATEGIES[strategy], "chunk": 1, "schedule": "every:1", "search-beams": 100}
    both = {"ends": ends, "break-loops": ends == "near"}
    settings |= both
    knn = search(model, make_method("knn", store, {**KNN, **both}), sources)
    assert_same(search(model, make_method("chunk", store, settings), sources), knn, 1e-5)
    # Both searching and the chunks matter otherwise.
    seldom = {**settings, "chunk": 6, "schedule": "every:4", "seeds": 0}
    assert_differ(search(model, make_method("chunk", store, seldom), sources), knn)


@pytest.mark.parametrize("family", ["marian", "mbart50", "t5"])
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("knn", KNN),
        ("chunk", CHUNK),
        ("chunk", {**CHUNK, "scope": "hypothesis"}),
        ("chunk", {**CHUNK, "recall": "in-order"}),
    ],
    ids=["knn", "source scope", "hypothesis scope", "in order"],
)
def test_batch_of_8_is_batch_of_1(family: str, name: str, settings: dict[str, Any]) -> None:
    model, sources = Seq2SeqModel(tiny_model(family, 3)), random_sources(3, count=8)
    method = make_method(name, store_of(model), settings)
    assert not method.shares_batch
    alone = [search(model, method, [source])[0] for source in sources]
    assert_same(search(model, method, sources), alone, 1e-4)


def test_a_shared_batch_says_so() -> None:
    model, sources = Seq2SeqModel(tiny_model("marian", 3)), random_sources(3, count=8)
    method = make_method("chunk", store_of(model), {**CHUNK, **PRESETS["sentence"]})
    assert method.shares_batch
    assert_differ(search(model, method, sources), [search(model, method, [source])[0] for source in sources])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_same_sentence_twice_in_a_batch(strategy: str) -> None:
    model, sources = Seq2SeqModel(tiny_model("marian", 4)), random_sources(4, count=4)
    method = make_method("chunk", store_of(model), {**CHUNK, **STRATEGIES[strategy]})
    found = search(model, method, [sources[0], sources[1], sources[0], sources[2], sources[1]])
    assert_same(found[2:3], found[0:1], 1e-5)
    assert_same(found[4:5], found[1:2], 1e-5)
    assert_differ(found[0:1], found[1:2])


@pytest.mark.parametrize("name", ["knn", "chunk"])
def test_an_empty_store_is_the_model_alone(name: str) -> None:
    model, sources = Seq2SeqModel(tiny_model("marian", 5)), random_sources(5)
    store = random_store(0, 0, columns=16, vocabulary=VOCABULARY)
    alone = search(model, PlainMethod(), sources)
    assert_same(search(model, make_method(name, store, KNN), sources), alone)


# The same on the level of text, with a datastore on disk.


def assert_same_texts(found: list[Translation], expected: list[Translation], tolerance: float = 0.0) -> None:
    assert [t.text for t in found] == [t.text for t in expected]
    assert [t.tokens for t in found] == [t.tokens for t in expected]
    assert [t.score for t in found] == pytest.approx([t.score for t in expected], abs=tolerance, rel=0)


def translate(
    model: TranslationModel,
    store: Datastore | None,
    method: str,
    settings: dict[str, Any] | None = None,
    batch: int = 8,
) -> list[Translation]:
    return Translator(model, store, method, settings, BEAM, batch).translate(TEXTS)


def test_texts_with_weight_0(tiny: TranslationModel, tiny_store: Datastore) -> None:
    alone = translate(tiny, None, "plain")
    assert_same_texts(translate(tiny, tiny_store, "knn", {"lambda": 0.0}), alone)
    assert_same_texts(translate(tiny, tiny_store, "chunk", {"lambda": 0.0, "cache-lambda": 0.0}), alone)
    for method in ("knn", "chunk"):
        mixed = translate(tiny, tiny_store, method, {"agreement": 0, "break-loops": False})
        assert [t.text for t in mixed] != [t.text for t in alone]


def test_texts_with_chunks_of_one_token(tiny: TranslationModel, tiny_store: Datastore) -> None:
    knn = translate(tiny, tiny_store, "knn")
    settings = {"chunk": 1, "schedule": "every:1", "search-beams": 100}
    assert_same_texts(translate(tiny, tiny_store, "chunk", settings), knn, 1e-5)


@pytest.mark.parametrize(
    ("method", "settings"),
    [("knn", {}), ("chunk", {}), ("chunk", {"scope": "hypothesis"}), ("chunk", {"recall": "in-order"})],
    ids=["knn", "source scope", "hypothesis scope", "in order"],
)
@pytest.mark.parametrize("batch", [1, 3])
def test_texts_in_other_batches(
    tiny: TranslationModel, tiny_store: Datastore, method: str, settings: dict[str, Any], batch: int
) -> None:
    together = translate(tiny, tiny_store, method, settings)
    assert_same_texts(translate(tiny, tiny_store, method, settings, batch), together, 1e-4)


def test_the_same_text_twice(tiny: TranslationModel, tiny_store: Datastore) -> None:
    translator = Translator(tiny, tiny_store, beam=BEAM)
    first, other, second = translator.translate([TEXTS[0], TEXTS[1], TEXTS[0]])
    assert_same_texts([second], [first], 1e-5)
    assert other.text != first.text


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("knn", {"k": 1}),
        ("chunk", {"k": 1, "schedule": "every:4"}),
        ("chunk", {"k": 1, "schedule": "every:50", "chunk": 50, "recall": "in-order"}),
        ("chunk", {"k": 1, "schedule": "every:50", "chunk": 50, **PRESETS["single-chunk"]}),
    ],
    ids=["knn", "chunk", "in order", "single chunk"],
)
def test_a_store_of_one_pair_knows_that_pair(
    tiny: TranslationModel, tmp_path: Path, method: str, settings: dict[str, Any], beams: int
) -> None:
    """Where only the nearest neighbour speaks, the source of a stored pair becomes its target."""
    pair = Pair(source="die pumpe nicht öffnen", target="the shaft before always clean valve .")
    store = Datastore.build(tmp_path / "store", [pair], tiny)
    settings = {**settings, "lambda": 1.0} | ({"cache-lambda": 1.0, "cache-k": 1} if method == "chunk" else {})
    translator = Translator(tiny, store, method, settings, BeamConfig(beams=beams))
    found = translator.translate(pair.source)
    assert found.text == pair.target
    assert found.tokens == len(store)
    assert found.score == pytest.approx(0.0, abs=1e-5)
    assert Translator(tiny).translate(pair.source).text != pair.target


@pytest.mark.parametrize("method", [name for name in METHODS if name != "plain"])
def test_a_store_with_fewer_entries_than_neighbours(tiny: TranslationModel, tmp_path: Path, method: str) -> None:
    store = Datastore.build(tmp_path / "store", [Pair(source="pumpe", target="pump .")], tiny)
    assert len(store) < 8
    settings = {"k": 8, "lambda": 0.0} | ({"cache-lambda": 0.0} if method == "chunk" else {})
    assert_same_texts(translate(tiny, store, method, settings), translate(tiny, None, "plain"))
    assert [t.text for t in translate(tiny, store, method)] != [t.text for t in translate(tiny, None, "plain")]


@pytest.mark.parametrize("method", [name for name in METHODS if name != "plain"])
def test_an_empty_datastore(tiny: TranslationModel, tmp_path: Path, method: str) -> None:
    store = Datastore.build(tmp_path / "store", [], tiny)
    assert len(store) == 0
    assert_same_texts(translate(tiny, store, method), translate(tiny, None, "plain"))
