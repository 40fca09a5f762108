"""Efficient kNN-MT: kNN-MT, but for the searches that it saves."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from nearmt.contracts import Origin, Translation
from nearmt.datastore import Datastore, PruneConfig, prune
from nearmt.decoding import BeamConfig, Hypothesis, beam_search
from nearmt.engines.reference.scoring import neighbour_weights
from nearmt.errors import ConfigError
from nearmt.methods import EfficientConfig, make_method
from nearmt.models import Seq2SeqModel, TranslationModel
from nearmt.research.methods.efficient import REUSE_SHARE, EfficientMethod
from nearmt.steps import Method, Step
from nearmt.translator import Translator
from tests.conftest import make_pairs
from tests.methods.test_equivalences import assert_differ, assert_same, assert_same_texts, store_of
from tests.requests import begun
from tests.tiny import random_sources, tiny_model
from tests.toy_store import ToyStore

BEAM = BeamConfig(beams=4, max_new_tokens=15)
TEXTS = [pair.source for pair in make_pairs(8, seed=5)]


def search(model: Seq2SeqModel, method: Method, sources: list[list[int]]) -> list[Hypothesis]:
    return beam_search(model, method, sources, [len(source) for source in sources], BEAM)[0]


def efficient(store: ToyStore | Datastore, **settings: Any) -> EfficientMethod:
    return EfficientMethod(store, EfficientConfig(k=4, **settings))


@pytest.mark.parametrize("scope", ["source", "batch"])
@pytest.mark.parametrize("family", ["marian", "nllb"])
def test_distance_0_is_knn(family: str, scope: str) -> None:
    """The same query finds the same neighbours, so it does not matter that it is not searched for again."""
    model, sources = Seq2SeqModel(tiny_model(family, 2)), random_sources(2)
    store = store_of(model)
    knn = search(model, make_method("knn", store, {"k": 4}), sources)
    assert_same(search(model, efficient(store, reuse_distance=0.0, reuse_scope=scope), sources), knn)
    far = efficient(store, reuse_distance=3 * store.search_scale**0.5, reuse_scope=scope)
    assert_differ(search(model, far, sources), knn)


@pytest.mark.parametrize("family", ["marian", "mbart50", "t5"])
def test_scope_source_does_not_know_its_batch(family: str) -> None:
    model, sources = Seq2SeqModel(tiny_model(family, 3)), random_sources(3, count=8)
    method = efficient(store_of(model), reuse_scope="source")
    assert not method.shares_batch
    alone = [search(model, method, [source])[0] for source in sources]
    assert_same(search(model, method, sources), alone, 1e-4)


def test_scope_batch_does_and_says_so() -> None:
    model, sources = Seq2SeqModel(tiny_model("marian", 3)), random_sources(3, count=8)
    store = store_of(model)
    method = efficient(store, reuse_distance=3 * store.search_scale**0.5)
    assert method.shares_batch
    assert_differ(search(model, method, sources), [search(model, method, [source])[0] for source in sources])


def translate(
    model: TranslationModel, store: Datastore, method: str, settings: dict[str, Any], batch: int = 8
) -> list[Translation]:
    return Translator(model, store, method, {"k": 4, **settings}, BEAM, batch).translate(TEXTS)


@pytest.mark.parametrize("batch", [1, 3])
def test_texts_in_other_batches(tiny: TranslationModel, tiny_store: Datastore, batch: int) -> None:
    scope = {"reuse-scope": "source"}
    together = translate(tiny, tiny_store, "efficient", scope)
    found = translate(tiny, tiny_store, "efficient", scope, batch)
    assert_same_texts(found, together, 1e-4)
    assert [t.searches for t in found] == [t.searches for t in together]


@pytest.mark.parametrize("scope", ["source", "batch"])
def test_searches_are_counted(tiny: TranslationModel, tiny_store: Datastore, scope: str) -> None:
    knn = translate(tiny, tiny_store, "knn", {})
    none, some, all_of_them = (
        translate(tiny, tiny_store, "efficient", {"reuse-scope": scope, "reuse-distance": distance})
        for distance in (0.0, 0.5 * tiny_store.snapshot().profile.search_scale ** 0.5, 1e9)
    )
    assert all(t.searches == t.steps for t in knn)
    # All sentences of a batch search at the first step; then everything is near.
    assert [t.searches for t in all_of_them] == [1] * len(TEXTS)
    assert sum(t.searches for t in some) < sum(t.searches for t in none) <= sum(t.searches for t in knn)
    assert_same_texts(none, knn)


def test_provenance_says_searched_where_it_did(tiny: TranslationModel, tiny_store: Datastore) -> None:
    """With one hypothesis the steps of the sentence are the steps of its tokens."""
    settings = {"k": 4, "reuse-scope": "source", "lambda": 0.8}
    greedy = BeamConfig(beams=1, max_new_tokens=15)
    found = Translator(tiny, tiny_store, "efficient", settings, greedy).translate(TEXTS, explain=True)
    for translation in found:
        assert translation.provenance is not None and translation.provenance[0].searched
        assert sum(token.searched for token in translation.provenance) == translation.searches
        for token in translation.provenance:
            assert bool(token.chunks) == token.searched
            assert token.origin in (("model", "search") if token.searched else ("model", "cache"))
    tokens = [token for translation in found for token in translation.provenance or ()]
    assert {token.origin for token in tokens} >= {"search", "cache"}
    assert all(token.witnesses for token in tokens if token.origin == "cache")


def test_re_used_neighbours_of_a_pruned_store_keep_their_weights(
    tiny: TranslationModel, tiny_store: Datastore, tmp_path: Path
) -> None:
    shutil.copytree(tiny_store.path, tmp_path / "store")
    prune(tmp_path / "store", PruneConfig(neighbours=16))
    store = Datastore.open(tmp_path / "store")
    method = efficient(store, reuse_distance=1e9)
    state = begun(method, [3], 5, trace=True)
    generator = torch.Generator().manual_seed(0)
    # Near an entry that stands for several, so that weights matter.
    entry_N = torch.arange(len(store))
    weight_N = store.snapshot().weights(entry_N)
    assert weight_N is not None and float(weight_N.max()) > 1
    hidden_BH = torch.randn(1, tiny.seq2seq.hidden_size, generator=generator)
    for time in range(1, 3):
        logits_BV = torch.randn(1, 200, generator=generator)
        state.scores(Step(logits_BV, hidden_BH, [time], [0]))
    assert state.evidence is not None
    searched, reused = state.evidence
    assert (int(searched.origin_B), int(reused.origin_B)) == (int(Origin.SEARCH), int(Origin.CACHE))
    assert torch.equal(reused.entry_BK, searched.entry_BK) and torch.equal(reused.weight_BK, searched.weight_BK)
    found = store.snapshot().search(store.snapshot().query(hidden_BH), 4)
    count_BK = store.snapshot().weights(found.entry_BK)
    assert count_BK is not None and method.config.temperature is not None
    expected_BK = neighbour_weights(found.distance_BK, method.config.temperature, count_BK)
    assert torch.allclose(reused.weight_BK, expected_BK, atol=1e-6)
    unweighted_BK = neighbour_weights(found.distance_BK, method.config.temperature)
    assert (count_BK > 1).any() and not torch.allclose(reused.weight_BK, unweighted_BK, atol=1e-3)


def test_re_used_neighbours_weigh_as_much_as_searched_ones(tiny_store: Datastore, tiny: TranslationModel) -> None:
    method = efficient(tiny_store, reuse_distance=1e9, weight=0.37)
    state = begun(method, [3], 5, trace=True)
    hidden_BH = torch.randn(1, tiny.seq2seq.hidden_size, generator=torch.Generator().manual_seed(1))
    logits_BV = torch.randn(1, 200, generator=torch.Generator().manual_seed(2))
    first_BV = state.scores(Step(logits_BV.clone(), hidden_BH, [1], [0])).log_probs()
    assert torch.equal(state.scores(Step(logits_BV.clone(), hidden_BH + 3, [2], [0])).log_probs(), first_BV)
    assert state.evidence is not None
    assert [float(evidence.share_B) for evidence in state.evidence] == pytest.approx([0.37, 0.37])


def test_the_default_distance_is_the_stores(tiny_store: Datastore) -> None:
    method = efficient(tiny_store)
    assert method.config.reuse_distance == pytest.approx(
        REUSE_SHARE * tiny_store.snapshot().profile.search_scale ** 0.5
    )
    assert f"|reuse-distance:{method.config.reuse_distance:g}|" in method.signature()


def test_the_signature_has_everything_that_matters(tiny_store: Datastore) -> None:
    settings: list[dict[str, Any]] = [
        {},
        {"k": 5},
        {"lambda": 0.11},
        {"temperature": 7.0},
        {"reuse-distance": 0.3},
        {"reuse-scope": "source"},
    ]
    signatures = [make_method("efficient", tiny_store, given).signature() for given in settings]
    assert len(set(signatures)) == len(settings)
    assert all(f"method:efficient|datastore:{tiny_store.snapshot().identity}|" in signature for signature in signatures)
    assert not any(str(tiny_store.path) in signature for signature in signatures)
    names = [part.partition(":")[0] for part in signatures[0].split("|")]
    assert names == ["method", "datastore", *EfficientConfig.public_fields()]


@pytest.mark.parametrize("settings", [{"reuse-distance": -1}, {"reuse-distance": "near"}, {"reuse-scope": "beam"}])
def test_bad_settings(tiny_store: Datastore, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        make_method("efficient", tiny_store, settings)
