"""Adaptive kNN-MT: the network is its definition, and a file is used only where it fits."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from nearmt.contracts import Evidence, Origin, Scores
from nearmt.datastore import Datastore
from nearmt.decoding import BeamConfig
from nearmt.engines.base import Retrieved
from nearmt.engines.reference.scoring import ReferenceScoring
from nearmt.errors import ConfigError
from nearmt.methods import KnnConfig, make_method
from nearmt.methods.adaptive import (
    AdaptiveMixer,
    Head,
    HeadShape,
    NetworkOrigin,
    distinct_counts,
    save_adaptive,
    subset_sizes,
)
from nearmt.methods.mixing import votes_of
from nearmt.models import TranslationModel
from nearmt.translator import Translator
from tests.conftest import make_pairs
from tests.methods.adaptive_reference import Neighbour, inputs_of, mixture, sizes_of
from tests.toy_store import ToyStore

VOCABULARY = 12
ORIGIN = NetworkOrigin("made", "identity", "model")
BEAM = BeamConfig(beams=3, max_new_tokens=12)
TEXTS = [pair.source for pair in make_pairs(6, seed=5)]


class Weighted(ToyStore):
    """A pruned store: `weight_N` says how many entries each entry stands for."""

    weight_N: Tensor | None = None

    def weights(self, entry: Tensor) -> Tensor | None:
        return None if self.weight_N is None else self.weight_N[entry]


def neighbours(method: str, k: int) -> dict[str, int]:
    """As many from the cache, where there is one, as from a search."""
    return {"k": k, "cache-k": k} if method == "chunk" else {"k": k}


def made_head(k: int, confidence: bool = True, scale: float = 3.0, temperature: float = 2.0, seed: int = 0) -> Head:
    torch.manual_seed(seed)
    head = Head(HeadShape(k, confidence, scale), temperature)
    with torch.no_grad():
        head.output.weight.mul_(6)  # fresh weights say nearly the same whatever they see
    return head.requires_grad_(False)


def decided(k: int, size: int, temperature: float, surplus: float = 200.0, confidence: bool = False) -> Head:
    """A head that always believes in exactly this many neighbours."""
    head = made_head(k, confidence, temperature=temperature)
    head.output.weight.zero_()
    head.output.bias.zero_()
    head.output.bias[[0, *subset_sizes(k)].index(size)] = surplus
    return head


def store_of(tokens: list[int], counts: list[float] | None = None) -> Weighted:
    """One entry a token, of one column."""
    store = Weighted(torch.zeros(len(tokens), 1), torch.tensor(tokens), [len(tokens)])
    store.weight_N = None if counts is None else torch.tensor(counts)
    return store


def found(rows: list[list[tuple[int, float]]], k: int, origin: Origin = Origin.SEARCH) -> Retrieved:
    """Entries and distances of every row."""
    retrieved = Retrieved.nothing(len(rows), k, torch.device("cpu"))
    for row, neighbours in enumerate(rows):
        retrieved.asked_B[row] = int(origin if neighbours else Origin.MODEL)
        for place, (entry, distance) in enumerate(neighbours):
            retrieved.entry_BK[row, place], retrieved.distance_BK[row, place] = entry, distance
    return retrieved


def scores_of(log_prob_BV: Tensor) -> Scores:
    return Scores(log_prob_BV.clone(), torch.zeros(len(log_prob_BV)))


def mix(log_prob_BV: Tensor, evidence: Evidence) -> Tensor:
    """The mixture, as log-probabilities."""
    return ReferenceScoring().mix(scores_of(log_prob_BV), evidence).log_probs()


def random_log_probs(rows: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.log_softmax(4 * torch.randn(rows, VOCABULARY, generator=generator), dim=-1)


# The network is its definition.


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 6, 8, 12, 16])
def test_subset_sizes(k: int) -> None:
    assert [0, *subset_sizes(k)] == sizes_of(k)


def test_subset_sizes_of_a_number_that_is_no_power_of_two() -> None:
    assert subset_sizes(6) == [1, 2, 4, 6]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=9), st.integers(0, 9))
def test_counts_of_different_tokens(tokens: list[int], there: int) -> None:
    there_BK = (torch.arange(len(tokens)) < there)[None]
    expected = [len(set(tokens[: min(r + 1, there)])) for r in range(len(tokens))]
    assert distinct_counts(torch.tensor([tokens]), there_BK)[0].tolist() == expected


@given(
    k=st.sampled_from([1, 2, 3, 4, 6, 8]),
    confidence=st.booleans(),
    boost=st.sampled_from([0.0, 0.7, -2.0]),
    pruned=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_the_mixture_is_the_definition(k: int, confidence: bool, boost: float, pruned: bool, seed: int) -> None:
    """Rows with all neighbours, with fewer, with one and with none; tokens repeat; some are far away."""
    random = np.random.default_rng(seed)
    entries = 3 * k + 1
    tokens = random.integers(0, min(VOCABULARY, k + 1), entries).tolist()
    counts = random.integers(1, 9, entries).astype(float).tolist() if pruned else None
    numbers: list[int] = [k, k, int(random.integers(0, k + 1)), 1, 0]
    rows = [
        [
            (int(entry), float(distance))
            for entry, distance in zip(
                random.choice(entries, number, replace=False), np.sort(random.exponential(9.0, number)), strict=True
            )
        ]
        for number in numbers
    ]
    head, log_prob_BV = made_head(k, confidence, seed=seed), random_log_probs(len(rows), seed)
    evidence = AdaptiveMixer({"search": head}, ORIGIN, boost).evidence(
        votes_of(found(rows, k), store_of(tokens, counts)), scores_of(log_prob_BV)
    )
    mixed_BV = mix(log_prob_BV, evidence).exp().numpy()
    for row, neighbours in enumerate(rows):
        known = [Neighbour(d, tokens[e], counts[e] if counts else 1.0) for e, d in neighbours]
        expected_V = mixture(head, known, log_prob_BV[row].double().numpy(), boost)
        np.testing.assert_allclose(mixed_BV[row], expected_V, atol=1e-5)
        assert mixed_BV[row].sum() == pytest.approx(1.0, abs=1e-5)
        assert float(evidence.weight_BK[row].sum()) == pytest.approx(1.0 if neighbours else 0.0, abs=1e-5)
    # Where there are neighbours they do matter.
    assert (evidence.share_B > 0).tolist() == [bool(neighbours) for neighbours in rows]


def test_the_reference_sees_what_the_network_sees() -> None:
    """Both halves of the test above could share a mistake: these inputs were worked out by hand."""
    log_prob_V = np.log(np.array([0.5, 0.3, 0.2]))
    neighbours = [Neighbour(1.0, 2), Neighbour(4.0, 0), Neighbour(50.0, 2)]
    inputs = inputs_of(neighbours, 4, 2.0, log_prob_V)
    p = [math.log(0.2) / 12, math.log(0.5) / 12, math.log(0.2) / 12, -1.0, math.log(0.5) / 12]
    assert inputs == pytest.approx([0.5, 2.0, 8.0, 8.0, 0.25, 0.5, 0.5, 0.5, *p])
    head = made_head(4, True, scale=2.0)
    distance_BK, token_BK = torch.tensor([[1.0, 4.0, 50.0, torch.inf]]), torch.tensor([[2, 0, 2, 1]])
    log_prob_BV = torch.tensor(log_prob_V)[None].float()
    seen_BF = head._features(distance_BK, token_BK, log_prob_BV.gather(1, token_BK), log_prob_BV.max(dim=1).values)
    assert seen_BF[0].tolist() == pytest.approx(inputs, abs=1e-6)


def test_forbidden_tokens_and_very_small_temperatures_give_numbers() -> None:
    head = decided(4, 4, temperature=1e-6)
    log_prob_BV = torch.log(torch.tensor([[0.0, 1.0, 0.0]]))
    mixer = AdaptiveMixer({"search": head}, ORIGIN)
    evidence = mixer.evidence(
        votes_of(found([[(0, 5000.0), (1, 5001.0)]], 4), store_of([0, 1])), scores_of(log_prob_BV)
    )
    assert evidence.weight_BK[0].tolist() == pytest.approx([1.0, 0.0, 0.0, 0.0])
    assert mix(log_prob_BV, evidence).exp()[0].tolist() == pytest.approx([1.0, 0.0, 0.0])


def test_a_missing_neighbour_leaves_the_temperature_its_gradient() -> None:
    head = made_head(4).requires_grad_(True)
    distance_BK = torch.tensor([[1.0, 2.0, torch.inf, torch.inf]])
    model_B, weight_BK = head(distance_BK, torch.tensor([[0, 1, 0, 0]]), torch.zeros(1, 4), torch.zeros(1), None)
    (weight_BK[0, 0] + model_B[0]).backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in head.parameters())
    assert head.log_temperature.grad != 0


@given(boost=st.floats(-5, 5), seed=st.integers(0, 1000))
def test_boost_shifts_the_log_odds(boost: float, seed: int) -> None:
    head, log_prob_BV = made_head(4, seed=seed), random_log_probs(1, seed)
    retrieved, store = found([[(0, 1.0), (1, 2.0), (2, 2.5), (3, 9.0)]], 4), store_of([3, 1, 3, 5])
    plain = AdaptiveMixer({"search": head}, ORIGIN).evidence(votes_of(retrieved, store), scores_of(log_prob_BV))
    boosted = AdaptiveMixer({"search": head}, ORIGIN, boost).evidence(
        votes_of(retrieved, store), scores_of(log_prob_BV)
    )

    odds = float(plain.share_B) / (1 - float(plain.share_B)) * math.exp(boost)
    # Shares are rounded: near 1 their odds are not exact.
    assert float(boosted.share_B) == pytest.approx(odds / (1 + odds), rel=1e-4)
    assert torch.equal(boosted.weight_BK, plain.weight_BK)


def test_evidence_may_be_changed_in_place() -> None:
    """Others lower shares in place, also outside of the search."""
    log_prob_BV = random_log_probs(1, 0)
    mixer = AdaptiveMixer({"search": made_head(2)}, ORIGIN)
    evidence = mixer.evidence(votes_of(found([[(0, 1.0), (1, 2.0)]], 2), store_of([3, 4])), scores_of(log_prob_BV))
    evidence.share_B *= 0.0
    assert torch.equal(mix(log_prob_BV, evidence), log_prob_BV)


def test_each_origin_has_its_head() -> None:
    """Searched rows are weighed by the one, recalled rows by the other."""
    heads = {"search": made_head(2, seed=1), "cache": made_head(2, scale=0.5, temperature=0.3, seed=2)}
    rows: list[list[tuple[int, float]]] = [[(0, 1.0), (1, 2.0)]] * 2
    retrieved = found(rows, 2)
    retrieved.asked_B[1] = int(Origin.CACHE)
    log_prob_BV = random_log_probs(1, 0).expand(2, -1)
    evidence = AdaptiveMixer(heads, ORIGIN).evidence(votes_of(retrieved, store_of([3, 4])), scores_of(log_prob_BV))
    mixed_BV = mix(log_prob_BV, evidence).exp()
    neighbours, log_prob_V = [Neighbour(1.0, 3), Neighbour(2.0, 4)], log_prob_BV[0].double().numpy()
    for row, name in enumerate(("search", "cache")):
        np.testing.assert_allclose(mixed_BV[row].numpy(), mixture(heads[name], neighbours, log_prob_V), atol=1e-5)
    assert not torch.allclose(mixed_BV[0], mixed_BV[1], atol=1e-3)


# Through the whole search.


def saved(path: Path, heads: dict[str, Head], model: TranslationModel) -> str:
    save_adaptive(path, heads, {"model": model.fingerprint})
    return str(path)


def outputs(model: TranslationModel, store: Datastore | None, method: str, settings: dict[str, Any]) -> list[Any]:
    found = Translator(model, store, method, settings, BEAM).translate(TEXTS)
    return [(t.text, t.tokens, pytest.approx(t.score, abs=1e-5)) for t in found]


@pytest.mark.parametrize("method", ["knn", "efficient", "chunk"])
def test_a_network_that_never_believes_is_the_model_alone(
    tiny: TranslationModel, tiny_store: Datastore, tmp_path: Path, method: str
) -> None:
    path = saved(tmp_path / "net", {"search": decided(4, 0, 1.0), "cache": decided(4, 0, 1.0)}, tiny)
    alone = Translator(tiny, beam=BEAM).translate(TEXTS)
    found = Translator(tiny, tiny_store, method, {**neighbours(method, 4), "adaptive": path}, BEAM).translate(TEXTS)
    assert [t.text for t in found] == [t.text for t in alone]
    # With one of them sentences do not follow others, and products of fewer rows may be rounded otherwise.
    near = 1e-6 if method == "efficient" else 0.0
    assert [t.score for t in found] == pytest.approx([t.score for t in alone], rel=near, abs=0.0)


@pytest.mark.parametrize("weight", [0.3, 0.7])
@pytest.mark.parametrize("method", ["knn", "efficient", "chunk", "in-order"])
def test_a_network_that_is_always_of_one_mind_is_a_fixed_weight(
    tiny: TranslationModel, tiny_store: Datastore, tmp_path: Path, method: str, weight: float
) -> None:
    """w on r = K only, and one temperature: equation 3 with that lambda and that T."""
    scale, cache_scale = tiny_store.snapshot().profile.search_scale, tiny_store.snapshot().profile.search_scale ** 0.5
    in_order = method == "in-order"
    method = "chunk" if in_order else method
    heads = {
        "search": decided(6, 6, 0.4 * scale),
        "cache": decided(6, 6, (0.4 * scale if in_order else 0.2 * cache_scale)),
    }
    for head in heads.values():  # log odds of lambda against the model; nothing for the other sizes
        head.output.bias.fill_(-200.0)
        head.output.bias[0], head.output.bias[-1] = math.log(1 - weight), math.log(weight)
    # The guard is stricter with a network, and all may end a sentence.
    same: dict[str, Any] = {"guard": False, "ends": "all"} | ({"recall": "in-order"} if in_order else {})
    fixed: dict[str, Any] = {**neighbours(method, 6), "lambda": weight, "temperature": 0.4 * scale, **same}
    if method == "chunk":
        fixed |= {"cache-lambda": weight, "cache-temperature": 0.2 * cache_scale}
    path = saved(tmp_path / "net", heads, tiny)
    expected = outputs(tiny, tiny_store, method, fixed)
    assert outputs(tiny, tiny_store, method, {**neighbours(method, 6), "adaptive": path, **same}) == expected
    assert outputs(tiny, tiny_store, method, {**fixed, "temperature": 4.0 * scale}) != expected


@pytest.mark.parametrize("method", ["knn", "efficient"])
def test_a_network_of_chunks_serves_searches_alone(
    tiny: TranslationModel, tiny_store: Datastore, tmp_path: Path, method: str
) -> None:
    """What efficient kNN-MT re-uses has the distances of searches, so the head of the cache must not see it."""
    heads = {"search": decided(4, 4, 9.0), "cache": decided(4, 0, 9.0)}
    both, one = saved(tmp_path / "both", heads, tiny), saved(tmp_path / "one", {"search": heads["search"]}, tiny)
    found = outputs(tiny, tiny_store, method, {**neighbours(method, 4), "adaptive": both})
    assert found == outputs(tiny, tiny_store, method, {**neighbours(method, 4), "adaptive": one})
    assert found != outputs(tiny, None, "plain", {})


@pytest.mark.parametrize("method", ["knn", "efficient", "chunk"])
def test_the_boost_is_a_setting(tiny: TranslationModel, tiny_store: Datastore, tmp_path: Path, method: str) -> None:
    path = saved(tmp_path / "net", {"search": made_head(4), "cache": made_head(4, seed=1)}, tiny)
    made = [
        make_method(method, tiny_store, {**neighbours(method, 4), "adaptive": path, "adaptive-boost": b})
        for b in (0.0, 1.5)
    ]
    assert [one.mixer.boost for one in made] == [0.0, 1.5]  # type: ignore[attr-defined]
    assert "adaptive-boost:1.5" in made[1].signature() and made[0].signature() != made[1].signature()
    settings = {**neighbours(method, 4), "adaptive": path}
    assert outputs(tiny, tiny_store, method, {**settings, "adaptive-boost": 5.0}) != outputs(
        tiny, tiny_store, method, settings
    )


@pytest.mark.parametrize("boost", [-5.1, 6, float("nan"), "much"])
def test_a_boost_out_of_range(boost: Any) -> None:
    with pytest.raises(ConfigError, match="adaptive-boost"):
        KnnConfig(adaptive="net", adaptive_boost=boost)


@pytest.mark.parametrize("method", ["knn", "efficient", "chunk"])
def test_a_boost_without_a_network(tiny_store: Datastore, method: str) -> None:
    with pytest.raises(ConfigError, match="adaptive-boost = 1: there is no network to boost; set adaptive"):
        make_method(method, tiny_store, {"adaptive-boost": 1.0})


@pytest.mark.parametrize("method", ["knn", "efficient", "chunk"])
def test_the_signature_knows_the_network_by_its_content(
    tiny: TranslationModel, tiny_store: Datastore, tmp_path: Path, method: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    heads = {"search": made_head(4), "cache": made_head(4)}
    first, copy = saved(tmp_path / "net", heads, tiny), saved(tmp_path / "elsewhere" / "other", heads, tiny)
    other = saved(tmp_path / "third", {**heads, "search": made_head(4, seed=9)}, tiny)
    signatures = [
        make_method(method, tiny_store, {**neighbours(method, 4), "adaptive": p}).signature()
        for p in (first, copy, other)
    ]
    assert signatures[0] == signatures[1] != signatures[2]
    assert str(tmp_path) not in signatures[0]
    # Lambda and T have no part in the result, and none in the signature.
    ignored = make_method(
        method, tiny_store, {**neighbours(method, 4), "adaptive": first, "lambda": 0.1, "temperature": 3.0}
    )
    assert ignored.signature() == signatures[0] and "|lambda:None|temperature:None|" in signatures[0]
