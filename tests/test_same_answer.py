"""On a CPU with kernels a translation is the same in every batch, order and number of threads, to the last bit."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from nearmt.contracts import Translation
from nearmt.datastore import BuildConfig, Datastore, JoinedStore, LiveStore
from nearmt.decoding import BeamConfig
from nearmt.methods.adaptive import Head, HeadShape, save_adaptive
from nearmt.models import ModelConfig, TranslationModel, load_model
from nearmt.translator import Translator
from tests.conftest import make_pairs
from tests.kernels import needs_kernels
from tests.tiny import tiny_marian_folder

pytestmark = needs_kernels

PRECISIONS = ("fp32", "int8")
#: Batch size, threads, and whether the order is another one.
WAYS = ((1, 1, False), (3, 2, True), (64, 1, False), (64, 2, True), (8, 2, False), (8, 1, True))
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("plain", {}),
    "knn": ("knn", {}),
    "chunk": ("chunk", {}),
}
#: Other ways of retrieving, which other code serves.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "chunk, few columns": ("chunk", {"cache-columns": 16}),
    "chunk, of each hypothesis": ("chunk", {"scope": "hypothesis"}),
    "chunk, in order": ("chunk", {"recall": "in-order"}),
    "efficient": ("efficient", {"reuse-scope": "source"}),
    "subset": ("subset", {"subset": 20}),
    "sk-mt": ("sk-mt", {}),
    "retomaton": ("retomaton", {"follow": 2}),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TranslationModel]:
    """A model with more columns than a vector has lanes, in both precisions."""
    folder = tmp_path_factory.mktemp("same-answer")
    sizes = {"d_model": 96, "encoder_ffn_dim": 160, "decoder_ffn_dim": 160}
    path = str(tiny_marian_folder(folder, seed=1, **sizes))
    return {name: load_model(ModelConfig(model=path, device="cpu", precision=name)) for name in PRECISIONS}


@pytest.fixture(scope="module")
def store(models: dict[str, TranslationModel], tmp_path_factory: pytest.TempPathFactory) -> Datastore:
    """Pairs that come twice have equal keys, among which nothing but their order decides."""
    pairs = make_pairs(90, seed=3)
    return Datastore.build(tmp_path_factory.mktemp("stores") / "store", [*pairs, *pairs[:40]], models["fp32"])


def sentences(count: int) -> list[str]:
    """Of very different lengths, so that some are done early and others follow."""
    words = " ".join(pair.source for pair in make_pairs(200, seed=5)).split()
    chooser = random.Random(4)
    return [" ".join(chooser.choices(words, k=chooser.choice((1, 2, 4, 7, 12, 20)))) for _ in range(count)]


def translated(translator: Translator, texts: list[str], threads: int, shuffled: bool) -> list[Translation]:
    """In the order of the texts, whatever the order in which they are given."""
    order = list(range(len(texts)))
    if shuffled:
        random.Random(threads).shuffle(order)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = dict(zip(order, translator.translate([texts[place] for place in order]), strict=True))
    finally:
        torch.set_num_threads(before)
    return [found[place] for place in range(len(texts))]


def check(
    model: TranslationModel, datastore: LiveStore, method: tuple[str, dict[str, Any]], texts: list[str],
    tokens: int, ways: Sequence[tuple[int, int, bool]] = WAYS,
) -> None:  # fmt: skip
    """Texts, scores, steps and searches: all of a translation is equal, scores to the last bit."""
    beam = BeamConfig(beams=3, max_new_tokens=tokens)

    def in_batches_of(size: int) -> Translator:
        return Translator(model, datastore if method[0] != "plain" else None, *method, beam, size)

    expected = translated(in_batches_of(8), texts, 1, shuffled=False)
    for size, threads, shuffled in ways:
        assert translated(in_batches_of(size), texts, threads, shuffled) == expected, (size, threads, shuffled)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_translations_do_not_depend_on_the_batch(
    name: str, precision: str, models: dict[str, TranslationModel], store: Datastore
) -> None:
    check(models[precision], store, METHODS[name], sentences(68), tokens=14)


@pytest.mark.parametrize("name", VARIANTS)
def test_nor_does_any_other_way_of_retrieving(name: str, models: dict[str, TranslationModel], store: Datastore) -> None:
    check(models["fp32"], store, VARIANTS[name], sentences(24), tokens=10, ways=WAYS[:3])


def test_nor_do_stores_with_weights(models: dict[str, TranslationModel], store: Datastore, tmp_path: Path) -> None:
    config = BuildConfig(reduction_of=str(store.path))
    other = Datastore.build(tmp_path / "other", make_pairs(30, seed=8), models["fp32"], config)
    joined = JoinedStore([(store, 0.5), (other, 1.0)])
    check(models["fp32"], joined, METHODS["chunk"], sentences(24), tokens=10, ways=WAYS[:3])


def test_nor_does_an_explanation(models: dict[str, TranslationModel], store: Datastore) -> None:
    """Which pairs spoke for each token, and how much."""
    texts = sentences(12)
    found = [
        Translator(models["int8"], store, "chunk", {}, BeamConfig(beams=3, max_new_tokens=8), size).translate(
            texts, explain=True
        )
        for size in (12, 1, 5)
    ]
    assert found[0] == found[1] == found[2]


def test_nor_does_a_network_that_weighs_neighbours(
    models: dict[str, TranslationModel], store: Datastore, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    heads = {
        name: Head(HeadShape(8, confidence=True, scale=store.snapshot().profile.search_scale), 10.0)
        for name in ("search", "cache")
    }
    save_adaptive(tmp_path / "network", heads, {"model": models["fp32"].fingerprint})
    settings = {"adaptive": str(tmp_path / "network"), "k": 8, "cache-k": 8, "guard": False}
    check(models["fp32"], store, ("chunk", settings), sentences(24), tokens=10, ways=WAYS[:3])


@pytest.mark.embedded
@pytest.mark.parametrize(("precision", "names"), [("fp32", ["plain"]), ("int8", ["plain", "chunk"])])
def test_the_embedded_model_gives_the_same_in_every_batch(precision: str, names: list[str], tmp_path: Path) -> None:
    texts = [
        "Die Kinder spielen im Garten.",
        "Vor dem Öffnen des Deckels ist die Pumpe abzuschalten und gegen Wiedereinschalten zu sichern.",
        "Warum?",
        "Der Vertrag tritt am Tag nach seiner Unterzeichnung in Kraft und gilt für die Dauer von fünf Jahren.",
        "Wir fahren morgen früh mit dem Zug nach Hamburg.",
    ]
    model = load_model(ModelConfig(device="cpu", precision=precision))
    store = Datastore.build(tmp_path / "store", make_pairs(8), model)
    for name in names:
        check(model, store, METHODS[name], texts, tokens=24, ways=WAYS[:2])
