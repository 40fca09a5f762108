"""Training of the networks of other papers, and the noise that one of them is trained with."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from nearmt.datastore import Datastore
from nearmt.errors import ConfigError
from nearmt.methods.adaptive import load_adaptive
from nearmt.models import TranslationModel
from nearmt.research.training.adaptive import AdaptiveConfig, _train_head, train_adaptive
from nearmt.research.training.noise import noise_rate, with_noise
from nearmt.research.training.trace import Trace
from nearmt.translator import Translator
from tests.conftest import make_pairs
from tests.research.training.test_adaptive import K, model_weight, planted


def test_robust_learns_to_weigh_by_distance() -> None:
    """Near neighbours are right and far ones wrong; the model is right where neighbours are far."""
    near = planted(1500, distance=1.0, right=0.95, model_probability=0.1, seed=1)
    far = planted(1500, distance=6.0, right=0.0, model_probability=0.8, seed=2)
    config = AdaptiveConfig(network="robust", updates=800, batch_tokens=256, learning_rate=1e-2)
    head, result = _train_head(Trace.join([near, far]), config)
    assert model_weight(head, planted(300, 1.0, 0.95, 0.1, seed=3)) < 0.2
    assert model_weight(head, planted(300, 6.0, 0.0, 0.8, seed=4)) > 0.8
    assert result.loss < 0.4 < 1.0 < result.loss_model_alone and result.temperature > 0


def test_kernel_smoothed_learns_from_keys() -> None:
    """Whether neighbours are right depends on where the query is: on a number that distances do not tell."""
    trace, keys = planted(3000, 1.0, 0.0, model_probability=0.2, seed=1), torch.zeros(1, 4)
    trace.query_XD[:, 0] = torch.where(torch.arange(3000) % 2 == 0, 1.0, -1.0)
    trace.token_XK[::2] = trace.gold_X[::2, None]
    config = AdaptiveConfig(network="kernel-smoothed", updates=500, batch_tokens=256, learning_rate=1e-2)
    head, result = _train_head(trace, config, lambda entry_XK: keys[entry_XK])
    assert head.shape.columns == 4 and result.loss < 0.9 < 1.6 < result.loss_model_alone


def test_noise_falls_to_a_third_in_a_fifth_of_the_updates() -> None:
    assert noise_rate(0, 500) == 1.0
    assert noise_rate(100, 500) == pytest.approx(math.exp(-1)) and noise_rate(1000, 5000) == noise_rate(100, 500)


def test_noise_puts_the_right_token_where_there_is_none() -> None:
    trace = planted(400, distance=50.0, right=0.3, model_probability=0.2, seed=1)
    trace.distance_XK[::3, 2:] = torch.inf
    known_X = (trace.distance_XK.isfinite() & (trace.token_XK == trace.gold_X[:, None])).any(dim=1)
    assert 0.2 < float(known_X.float().mean()) < 0.9
    torch.manual_seed(0)
    noisy = with_noise(trace, rate=1.0, scale=50.0, columns=256)
    # Sorted anew: what was put in is nearest, for it is the query itself with noise.
    assert torch.equal(noisy.distance_XK, noisy.distance_XK.sort(dim=1).values)
    assert torch.equal(noisy.distance_XK.isfinite().sum(dim=1), trace.distance_XK.isfinite().sum(dim=1))
    put_X = ~known_X
    assert bool((noisy.token_XK[put_X, 0] == trace.gold_X[put_X]).all())
    assert float(noisy.distance_XK[put_X, 0].max()) < 0.1 < float(noisy.distance_XK[known_X, 0].min())
    assert torch.equal(noisy.log_prob_XK[put_X, 0], trace.gold_log_prob_X[put_X])
    # One was put in the place of the farthest; the others only moved, by about the noise.
    assert torch.allclose(noisy.distance_XK[put_X, 1], trace.distance_XK[put_X, 0], rtol=0.05)
    assert torch.allclose(noisy.distance_XK[known_X, 0], trace.distance_XK[known_X, 0], rtol=0.05)
    assert not torch.equal(noisy.distance_XK[known_X], trace.distance_XK[known_X])


def test_noise_is_that_of_keys() -> None:
    """Distances to keys that have the noise, in mean and spread."""
    columns, scale = 64, 30.0
    generator = torch.Generator().manual_seed(3)
    difference_D = torch.randn(columns, generator=generator)
    noise_XD = 0.03 * (scale / columns) ** 0.5 * torch.randn(20000, columns, generator=generator)
    expected_X = (difference_D + noise_XD).square().sum(dim=1)
    trace = planted(20000, distance=1.0, right=1.0, model_probability=0.5, seed=1)
    trace.distance_XK[:] = difference_D.square().sum()
    torch.manual_seed(1)
    found_X = with_noise(trace, 1.0, scale, columns).distance_XK.flatten()
    assert float(found_X.mean()) == pytest.approx(float(expected_X.mean()), rel=1e-3)
    assert float(found_X.std()) == pytest.approx(float(expected_X.std()), rel=0.05)


def test_without_noise_a_trace_stays_as_it_is() -> None:
    trace = planted(50, distance=2.0, right=0.5, model_probability=0.2, seed=1)
    noisy = with_noise(trace, rate=0.0, scale=2.0, columns=8)
    assert torch.equal(noisy.distance_XK, trace.distance_XK) and torch.equal(noisy.token_XK, trace.token_XK)


@pytest.mark.parametrize("network", ["kernel-smoothed", "robust"])
def test_from_training_to_translating(
    network: str, tiny: TranslationModel, tiny_store: Datastore, tmp_path: Path
) -> None:
    config = AdaptiveConfig(network=network, updates=30, batch_tokens=64)
    result = train_adaptive(tiny, tiny_store, "knn", make_pairs(60, seed=8), [], tmp_path / "net", config, {"k": K})
    assert set(result.heads) == {"search"} and result.heads["search"].updates == 30
    head = load_adaptive(tmp_path / "net", K, None).heads["search"]
    assert (head.shape.network, head.shape.columns) == (network, tiny_store.snapshot().columns)
    translator = Translator(tiny, tiny_store, "knn", {"k": K, "adaptive": str(tmp_path / "net")})
    assert translator.translate("die pumpe prüfen").text
    again = train_adaptive(tiny, tiny_store, "knn", make_pairs(60, seed=8), [], tmp_path / "two", config, {"k": K})
    assert (tmp_path / "net").read_bytes() == (tmp_path / "two").read_bytes()
    assert again.heads == result.heads


@pytest.mark.parametrize(("method", "network"), [("chunk", "robust"), ("subset", "adaptive"), ("retomaton", "robust")])
def test_methods_that_it_is_not_trained_for(
    method: str, network: str, tiny: TranslationModel, tiny_store: Datastore, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="--method knn"):
        train_adaptive(
            tiny, tiny_store, method, make_pairs(5), [], tmp_path / "net", AdaptiveConfig(network=network)
        )  # fmt: skip
