"""Training of the adaptive network: it learns known patterns, reproducibly, and refuses unusable data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from nearmt.contracts import Origin, Pair
from nearmt.datastore import Datastore
from nearmt.errors import ConfigError, InputError
from nearmt.methods import make_method
from nearmt.methods.adaptive import load_adaptive
from nearmt.methods.networks import Network
from nearmt.methods.retrieving import RetrievingMethod
from nearmt.models import TranslationModel
from nearmt.research.training.adaptive import (
    AdaptiveConfig,
    AdaptiveResult,
    HeadResult,
    _seen,
    _train_head,
    train_adaptive,
)
from nearmt.research.training.trace import Trace, trace_pairs
from nearmt.translator import Translator
from tests.conftest import make_pairs

K = 4
QUICK = AdaptiveConfig(updates=400, batch_tokens=256, learning_rate=3e-3)
CHUNK: dict[str, Any] = {"k": K, "schedule": "every:3", "chunk": 6}


def planted(
    tokens: int, distance: float, right: float, model_probability: float, seed: int, origin: Origin = Origin.SEARCH
) -> Trace:
    """Make a trace whose neighbours have about this distance and are right with this probability."""
    generator = torch.Generator().manual_seed(seed)
    gold_X = torch.randint(0, 50, (tokens,), generator=generator)
    is_right_XK = torch.rand(tokens, K, generator=generator) < right
    wrong_XK = torch.randint(50, 90, (tokens, K), generator=generator)
    distance_XK = (distance * (0.8 + 0.4 * torch.rand(tokens, K, generator=generator))).sort(dim=1).values
    gold_log_prob_X = torch.full((tokens,), model_probability).log()
    return Trace(
        origin_X=torch.full((tokens,), int(origin)),
        distance_XK=distance_XK,
        token_XK=torch.where(is_right_XK, gold_X[:, None], wrong_XK),
        count_XK=torch.ones(tokens, K),
        log_prob_XK=torch.where(is_right_XK, gold_log_prob_X[:, None], -8.0),
        likeliest_XR=torch.full((tokens, 8), -0.5),
        gold_X=gold_X,
        gold_log_prob_X=gold_log_prob_X,
        entry_XK=torch.zeros(tokens, K, dtype=torch.long),
        query_XD=torch.zeros(tokens, 4),
    )


def model_weight(head: Network, trace: Trace) -> float:
    """Return the mean w_0."""
    with torch.no_grad():
        model_X, _ = head.weigh(_seen(head, trace, None))
    return float(model_X.mean())


@pytest.mark.parametrize("confidence", [True, False])
def test_head_learns_to_weigh_by_distance(confidence: bool) -> None:
    """Near neighbours are right and far ones wrong; the model is right where neighbours are far."""
    near = planted(1500, distance=1.0, right=0.95, model_probability=0.1, seed=1)
    far = planted(1500, distance=6.0, right=0.0, model_probability=0.8, seed=2)
    head, result = _train_head(
        Trace.join([near, far]),
        AdaptiveConfig(updates=500, batch_tokens=256, learning_rate=1e-2, confidence=confidence),
    )
    assert model_weight(head, planted(300, 1.0, 0.95, 0.1, seed=3)) < 0.15
    assert model_weight(head, planted(300, 6.0, 0.0, 0.8, seed=4)) > 0.9
    # Half of the tokens cost almost nothing, the others as much as with the model: 0.22 nats.
    assert result.loss < 0.35 < 1.0 < result.loss_model_alone
    assert head.shape.confidence is confidence


def test_head_learns_the_number_of_neighbours() -> None:
    """If only the nearest neighbour is ever right, only that gets weight."""
    trace = planted(2000, distance=1.0, right=0.0, model_probability=0.05, seed=1)
    trace.token_XK[:, 0] = trace.gold_X
    head, _ = _train_head(trace, AdaptiveConfig(updates=500, batch_tokens=256, learning_rate=1e-2, confidence=False))
    with torch.no_grad():
        _, weight_XK = head.weigh(_seen(head, trace, None))
    assert float(weight_XK[:, 0].mean()) > 0.9


def test_general_text_raises_the_weight_of_the_model() -> None:
    domain = planted(1000, distance=2.0, right=0.7, model_probability=0.3, seed=1)
    general = planted(1000, distance=2.5, right=0.0, model_probability=0.5, seed=2)
    alone, result = _train_head(domain, QUICK)
    both, result_both = _train_head(Trace.join([domain, general]), QUICK)
    assert result_both.model_weight > result.model_weight + 0.1
    unseen = planted(500, distance=2.5, right=0.0, model_probability=0.5, seed=3)
    assert model_weight(both, unseen) > model_weight(alone, unseen) + 0.2


def test_missing_neighbours_are_accepted() -> None:
    """Chunks that are read in order may end."""
    trace = planted(800, distance=1.0, right=0.9, model_probability=0.1, seed=1)
    trace.distance_XK[::2, 2:] = torch.inf
    head, result = _train_head(trace, QUICK)
    assert all(bool(parameter.isfinite().all()) for parameter in head.parameters())
    assert result.loss < 0.6 * result.loss_model_alone
    assert head.temperature() != pytest.approx(0.5 * head.shape.scale, rel=1e-4)


def test_training_stops_at_the_maximum_of_updates() -> None:
    trace = planted(400, distance=1.0, right=0.9, model_probability=0.1, seed=1)
    assert _train_head(trace, AdaptiveConfig(updates=150))[1].updates == 150
    assert _train_head(trace, AdaptiveConfig(updates=7))[1].updates == 7
    # No gain is possible: the model is certain of every token, and the neighbours are wrong.
    hopeless = planted(400, distance=1.0, right=0.0, model_probability=1.0, seed=1)
    stopped = _train_head(hopeless, AdaptiveConfig(updates=3000, learning_rate=0.05, patience=2, batch_tokens=16))[1]
    assert stopped.updates < 3000 and stopped.model_weight > 0.99


def test_diverged_loss_is_reported() -> None:
    trace = planted(400, distance=1.0, right=0.9, model_probability=0.1, seed=1)
    trace.distance_XK[:] = torch.nan
    trace.distance_XK[:, 0] = 1.0
    with pytest.raises(ConfigError, match="learning-rate"):
        _train_head(trace, AdaptiveConfig(updates=2))


# With a model and a datastore.


def train(
    model: TranslationModel,
    store: Datastore,
    out: Path,
    dev: Sequence[Pair],
    general: Sequence[Pair] = (),
    method: str = "knn",
    settings: dict[str, Any] | None = None,
    config: AdaptiveConfig = QUICK,
) -> AdaptiveResult:
    return train_adaptive(model, store, method, dev, general, out, config, {"k": K} if settings is None else settings)


def traced(model: TranslationModel, store: Datastore, pairs: list[Pair]) -> Trace:
    method = make_method("knn", store, {"k": K})
    assert isinstance(method, RetrievingMethod)
    return trace_pairs(model, method, pairs)


def test_text_of_the_datastore_gets_more_weight_than_other_text(
    tiny: TranslationModel, tiny_store: Datastore, tiny_pairs: list[Pair], tmp_path: Path
) -> None:
    """Pairs of the store find themselves; random pairs find nothing useful."""
    result = train(tiny, tiny_store, tmp_path / "net", tiny_pairs, make_pairs(60, seed=8))
    assert (result.domain_sentences, result.general_sentences) == (60, 60)
    head = load_adaptive(tmp_path / "net", K, None).heads["search"]
    known, unknown = (model_weight(head, traced(tiny, tiny_store, pairs)) for pairs in (tiny_pairs, make_pairs(30, 9)))
    assert known < 0.3 and unknown > known + 0.2
    search = result.heads["search"]
    assert search.loss < search.loss_model_alone and 0 < search.model_weight < 1


def test_training_is_reproducible(
    tiny: TranslationModel, tiny_store: Datastore, tiny_pairs: list[Pair], tmp_path: Path
) -> None:
    dev = 2 * tiny_pairs
    (tmp_path / "other").mkdir()
    torch.manual_seed(123)
    expected = torch.rand(3)
    results = []
    for path in (tmp_path / "net", tmp_path / "other" / "net"):
        torch.manual_seed(123)
        results.append(train(tiny, tiny_store, path, dev, method="chunk", settings=CHUNK))
        assert torch.equal(torch.rand(3), expected)  # the global random state is unchanged
    assert (tmp_path / "net").read_bytes() == (tmp_path / "other" / "net").read_bytes()
    assert results[0].heads == results[1].heads
    seeded = AdaptiveConfig(updates=100, batch_tokens=64, seed=2)
    train(tiny, tiny_store, tmp_path / "third", dev, config=seeded)
    train(tiny, tiny_store, tmp_path / "fourth", dev, config=AdaptiveConfig(updates=100, batch_tokens=64, seed=3))
    assert (tmp_path / "third").read_bytes() != (tmp_path / "fourth").read_bytes()


@pytest.mark.parametrize("recall", ["cache", "in-order"])
def test_method_chunk_has_two_heads(
    tiny: TranslationModel, tiny_store: Datastore, tiny_pairs: list[Pair], tmp_path: Path, recall: str
) -> None:
    settings = {**CHUNK, "recall": recall}
    result = train(tiny, tiny_store, tmp_path / "net", 2 * tiny_pairs, method="chunk", settings=settings)
    assert list(result.heads) == ["search", "cache"] and result.path == str(tmp_path / "net")
    for head in result.heads.values():
        assert isinstance(head, HeadResult) and head.loss < head.loss_model_alone
    translator = Translator(tiny, tiny_store, "chunk", {**settings, "adaptive": result.path})
    # It reproduces known references.
    assert [translator.translate(pair.source).text for pair in tiny_pairs[:4]] == [p.target for p in tiny_pairs[:4]]


def test_file_records_model_datastore_and_settings(
    tiny: TranslationModel, tiny_store: Datastore, tiny_pairs: list[Pair], tmp_path: Path
) -> None:
    train(tiny, tiny_store, tmp_path / "net", 2 * tiny_pairs, method="chunk", settings=CHUNK)
    with safe_open(tmp_path / "net", "pt") as file:
        text = file.metadata()["nearmt"]
    about = json.loads(text)
    assert about["model"] == tiny.fingerprint and about["datastore"] == tiny_store.snapshot().identity
    assert about["method"] == "chunk" and "|schedule:every:3|" in about["settings"]
    assert about["training"]["updates"] == QUICK.updates
    assert str(tmp_path) not in text and str(tiny_store.path) not in text


def test_unusable_data_is_refused(
    tiny: TranslationModel, tiny_store: Datastore, tiny_pairs: list[Pair], tmp_path: Path
) -> None:
    out = tmp_path / "net"
    with pytest.raises(InputError, match="the development set has no pairs"):
        train(tiny, tiny_store, out, [], tiny_pairs)
    with pytest.raises(InputError, match=r"only \d+ tokens to learn from at search steps, 200 are needed"):
        train(tiny, tiny_store, out, tiny_pairs[:2])
    with pytest.raises(InputError, match="the datastore is empty"):
        train(tiny, Datastore.build(tmp_path / "empty", [], tiny), out, tiny_pairs)
    with pytest.raises(InputError, match="too long for the model"):
        train(tiny, tiny_store, out, [Pair("pumpe " * 200, "pump")])
    with pytest.raises(ConfigError, match="use knn or chunk"):
        train(tiny, tiny_store, out, tiny_pairs, method="plain", settings={})
    with pytest.raises(ConfigError, match="networks of method knn"):
        train(tiny, tiny_store, out, tiny_pairs, method="efficient")
    for settings in ({"schedule": "every:1"}, {"schedule": "every:2", "recall": "in-order", "chunk": 1}):
        with pytest.raises(ConfigError, match="nothing is recalled between searches"):
            train(tiny, tiny_store, out, 2 * tiny_pairs, method="chunk", settings={"k": K, **settings})
    assert not out.exists()


@pytest.mark.parametrize(
    "bad",
    [{"learning_rate": 0.0}, {"updates": 0}, {"batch_tokens": 0}, {"patience": 0}, {"seed": -1}, {"seed": 2**64}],
    ids=str,
)
def test_invalid_settings_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad)).replace("_", "-")):
        AdaptiveConfig(**bad)
