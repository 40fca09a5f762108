"""Subset kNN-MT and SK-MT: searches among the entries of similar sentences, written out in loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from nearmt.contracts import Origin
from nearmt.datastore import Datastore
from nearmt.decoding import BeamConfig
from nearmt.methods import KnnConfig, SkMtConfig, SubsetConfig, make_method
from nearmt.methods.knn import KnnMethod
from nearmt.methods.mixing import FixedMixer
from nearmt.methods.retrieving import RetrievingMethod
from nearmt.models import Seq2SeqModel, TranslationModel
from nearmt.research.methods.sk_mt import DistanceMixer, SkMtMethod
from nearmt.research.methods.subset import SubsetMethod
from nearmt.steps import Step
from nearmt.translator import Translator
from tests.conftest import make_pairs
from tests.methods.test_equivalences import assert_differ, assert_same, assert_same_texts, search, store_of
from tests.random_stores import random_store
from tests.requests import begun
from tests.tiny import random_sources, tiny_model
from tests.toy_store import ToyStore

BEAM = BeamConfig(beams=3, max_new_tokens=12)
TEXTS = [pair.source for pair in make_pairs(6, seed=5)]
OFF: dict[str, Any] = {"guard": False, "break_loops": False, "ends": "all", "agreement": 0.0}
VOCABULARY = 11
#: Whether lambda is fixed, lambda (or its factor) and T.
Rule = tuple[str, float, float]


def entries_of(store: ToyStore, pairs: list[int]) -> list[int]:
    starts = [0, *store.ends]
    return [entry for pair in pairs for entry in range(starts[pair], store.ends[pair])]


def slow_mixture(
    store: ToyStore, entries: list[int], query: list[float], log_prob_V: np.ndarray, k: int, rule: Rule
) -> np.ndarray:
    """Equations 2 and 3 over the k nearest of some entries, one entry at a time."""
    kind, weight, temperature = rule
    distances = {n: sum((a - float(b)) ** 2 for a, b in zip(query, store.key_ND[n], strict=True)) for n in entries}
    nearest = sorted(distances, key=lambda n: (distances[n], n))[:k]
    model_V = np.exp(log_prob_V)
    if not nearest:
        return np.asarray(model_V)
    if kind == "by distance":
        weight *= max(0.0, 1 - distances[nearest[0]] / temperature)
    shares = [math.exp(-(distances[n] - distances[nearest[0]]) / temperature) for n in nearest]
    probability_V = np.zeros_like(model_V)
    for n, share in zip(nearest, shares, strict=True):
        probability_V[int(store.token_N[n])] += share / sum(shares)
    return np.asarray((1 - weight) * model_V + weight * probability_V)


def step_of(seed: int, rows: int, columns: int, sentences: list[int]) -> tuple[Tensor, Tensor, Step]:
    generator = torch.Generator().manual_seed(seed)
    logits_BV = 3 * torch.randn(rows, VOCABULARY, generator=generator)
    hidden_BH = torch.randn(rows, columns, generator=generator)
    return logits_BV, hidden_BH, Step(logits_BV.clone(), hidden_BH, [1] * len(sentences), sentences)


@given(st.integers(0, 1000), st.integers(1, 5), st.integers(1, 4), st.sampled_from(["subset", "sk-mt"]))
def test_a_step_is_its_definition(seed: int, count: int, k: int, name: str) -> None:
    """Two rows of each of two sentences; the first is like pair 2 and those after it, the other like pair 4."""
    store = random_store(seed, sentences=7, columns=3, vocabulary=VOCABULARY)
    sources, method = [[2, 1], [4, 0]], made(name, store, count, k)
    state = begun(method, [2, 2], 5, sources)
    logits_BV, hidden_BH, step = step_of(seed, 4, 3, [0, 1])
    found_BV = state.scores(step).log_probs().exp()
    kind, weight = ("fixed", 0.7) if name == "subset" else ("by distance", 1.0)
    for row, source in enumerate([2, 2, 4, 4]):
        last = min(source + (6 if name == "sk-mt" else count), 7)  # the last of 6 candidates have the fewest edits
        entries = entries_of(store, list(range(max(source, last - count), last)))
        log_prob_V = torch.log_softmax(logits_BV[row].double(), dim=0).numpy()
        rule = kind, weight, 6.0
        expected_V = slow_mixture(store, entries, hidden_BH[row].tolist(), log_prob_V, k, rule)
        assert np.allclose(found_BV[row].numpy(), expected_V, atol=1e-5)


def made(name: str, store: ToyStore, count: int, k: int) -> RetrievingMethod:
    if name == "subset":
        return SubsetMethod(store, SubsetConfig(k=k, subset=count, weight=0.7, temperature=6.0, **OFF))
    return SkMtMethod(store, SkMtConfig(k=k, references=count, candidates=6, temperature=6.0, **OFF))


@pytest.mark.parametrize("family", ["marian", "nllb"])
def test_with_all_pairs_subset_is_knn(family: str) -> None:
    model, sources = Seq2SeqModel(tiny_model(family, 2)), random_sources(2)
    store = store_of(model)
    # A sentence is like the pair with the number of its first token: 0 is like all.
    sources = [[0, *source] for source in sources]
    knn = search(model, make_method("knn", store, {"k": 4}), sources)
    assert_same(search(model, make_method("subset", store, {"k": 4, "subset": 1000}), sources), knn, 1e-4)
    assert_differ(search(model, make_method("subset", store, {"k": 4, "subset": 1}), sources), knn)


def test_with_all_pairs_sk_mt_is_knn_with_its_lambda() -> None:
    """And kNN-MT as it is, if lambda is fixed."""
    model = Seq2SeqModel(tiny_model("marian", 2))
    store, sources = store_of(model), [[0, *source] for source in random_sources(2)]
    knn = KnnMethod(store, KnnConfig(k=4, weight=0.6, temperature=70.0))
    sk_mt = SkMtMethod(store, SkMtConfig(k=4, references=1000, temperature=70.0))
    found = search(model, sk_mt, sources)
    assert_differ(found, search(model, knn, sources))
    knn.mixer = DistanceMixer(1.0, 70.0)
    assert_same(found, search(model, knn, sources), 1e-4)
    knn.mixer = sk_mt.mixer = FixedMixer(0.6, 70.0, 0.6, 70.0)
    assert_same(search(model, sk_mt, sources), search(model, knn, sources), 1e-4)


def test_with_all_pairs_of_a_datastore(tiny: TranslationModel, tiny_store: Datastore) -> None:
    """All sources have the end of the sentence in common."""
    assert len(tiny.codec.source_ids("pumpe")) > 1
    knn = Translator(tiny, tiny_store, "knn", {"k": 4}, BEAM).translate(TEXTS)
    subset = Translator(tiny, tiny_store, "subset", {"k": 4, "subset": 60}, BEAM).translate(TEXTS)
    assert_same_texts(subset, knn, 1e-4)


def test_the_nearer_the_nearest_the_more_it_counts() -> None:
    store = ToyStore(torch.tensor([[1.0], [2.0]]), torch.tensor([3, 4]), [2])
    method = SkMtMethod(store, SkMtConfig(k=2, temperature=4.0, **OFF))
    shares = []
    for distance in (0.0, 1.0, 2.0, 9.0):
        state = begun(method, [1], 3, [[0]], trace=True)
        logits_BV = torch.zeros(1, VOCABULARY)
        state.scores(Step(logits_BV, torch.tensor([[1.0 - distance]]), [1], [0]))
        assert state.evidence is not None
        shares.append(float(state.evidence[0].share_B))
    assert shares == pytest.approx([1.0, 0.75, 0.0, 0.0])


@pytest.mark.parametrize("name", ["subset", "sk-mt"])
def test_nothing_is_searched_and_all_comparisons_are_counted(
    name: str, tiny: TranslationModel, tiny_store: Datastore
) -> None:
    size = {"subset": {"subset": 5}, "sk-mt": {"references": 5}}[name]
    greedy = BeamConfig(beams=1, max_new_tokens=12)
    found = Translator(tiny, tiny_store, name, {**size, "guard": False}, greedy).translate(TEXTS)
    for text, translation in zip(TEXTS, found, strict=True):
        candidates = (5, 64) if name == "sk-mt" else (5,)
        similar = tiny_store.snapshot().similar([tiny.codec.source_ids(text)], *candidates)
        assert translation.searches == 0
        assert translation.compared == translation.steps * int((similar.entry_SX >= 0).sum())


@pytest.mark.parametrize("name", ["subset", "sk-mt"])
def test_explanations_name_similar_pairs(name: str, tiny: TranslationModel, tiny_store: Datastore) -> None:
    settings = {"temperature": 1000.0, "guard": False}
    found = Translator(tiny, tiny_store, name, settings, BEAM).translate(TEXTS, explain=True)
    tokens = [token for translation in found for token in translation.provenance or ()]
    assert {token.origin for token in tokens} >= {"cache"} and not any(token.searched for token in tokens)
    assert all(token.witnesses for token in tokens if token.origin == "cache")


def test_sentences_without_anything_similar_are_the_models_own() -> None:
    """Also beside others; their caches stay empty."""
    store = random_store(1, sentences=4, columns=3, vocabulary=VOCABULARY)
    state = begun(made("subset", store, 2, 2), [2, 2], 5, [[], [1]], trace=True)
    logits_BV, _, step = step_of(3, 4, 3, [0, 1])
    found_BV = state.scores(step).log_probs()
    assert torch.allclose(found_BV[:2], torch.log_softmax(logits_BV[:2], dim=1), atol=1e-6)
    assert not torch.allclose(found_BV[2:], torch.log_softmax(logits_BV[2:], dim=1), atol=1e-3)
    assert state.evidence is not None
    assert state.evidence[0].origin_B.tolist() == [int(Origin.MODEL)] * 2 + [int(Origin.CACHE)] * 2
    assert state.compared[0] == 0 < state.compared[1]


@pytest.mark.parametrize(("name", "setting"), [("subset", "subset"), ("sk-mt", "references"), ("sk-mt", "candidates")])
def test_settings_are_in_the_signature(tiny_store: Datastore, name: str, setting: str) -> None:
    one, other = (make_method(name, tiny_store, {setting: value}).signature() for value in (3, 70))
    assert f"method:{name}|" in one and f"|{setting}:3|" in f"{one}|" and f"|{setting}:70|" in f"{other}|"
    with pytest.raises(Exception, match=setting):
        make_method(name, tiny_store, {setting: 0})
