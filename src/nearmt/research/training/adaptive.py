"""Training of the network of Adaptive kNN-MT, on in-domain and general text."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nearmt.config import Config, option
from nearmt.contracts import Origin, Pair, Progress
from nearmt.errors import ConfigError, InputError
from nearmt.methods import make_method
from nearmt.methods.adaptive import Head, HeadShape, save_adaptive
from nearmt.methods.chunk import ChunkMethod
from nearmt.methods.knn import KnnMethod
from nearmt.methods.retrieving import RetrievingMethod
from nearmt.models import TranslationModel
from nearmt.research.methods.efficient import EfficientMethod
from nearmt.research.training.trace import Trace, trace_pairs
from nearmt.retrieval.source import LiveSource

_CHECKED_EVERY = 100  # updates between two checks
_HELD_OUT = 0.1  # share of the tokens used for early stopping
_FEWEST_TOKENS = 200


@dataclass(frozen=True)
class AdaptiveConfig(Config):
    """How the adaptive network is trained."""

    learning_rate: float = option(3e-4, "learning rate of Adam", low=1e-8, high=1)
    updates: int = option(5000, "maximum number of updates", low=1)
    batch_tokens: int = option(1024, "target tokens of an update", low=1)
    patience: int = option(5, f"checks without gain before stopping; one every {_CHECKED_EVERY} updates", low=1)
    confidence: bool = option(True, "give the network the model's confidence as an input")
    seed: int = option(1, "random seed of initial weights and batches", low=0, high=2**63 - 1)


@dataclass(frozen=True)
class HeadResult:
    """The loss of one head on held-out tokens."""

    tokens: int
    updates: int
    loss_model_alone: float  # nats a token
    loss: float
    model_weight: float  # mean w_0
    temperature: float


@dataclass(frozen=True)
class AdaptiveResult:
    """A trained network."""

    path: str
    method: str
    domain_sentences: int
    general_sentences: int
    heads: dict[str, HeadResult]
    seconds: float


def train_adaptive(
    model: TranslationModel,
    datastore: LiveSource,
    method: str,
    dev: Sequence[Pair],
    general: Sequence[Pair],
    out: Path,
    config: AdaptiveConfig | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> AdaptiveResult:
    """Train a network for a method on a datastore and write it to `out`.

    `dev` is text of the datastore's domain that it does not contain. `general` is text of other domains, from which
    the network learns to give neighbours little weight.
    """
    config, started = config or AdaptiveConfig(), time.perf_counter()
    if not dev:
        raise InputError("the development set has no pairs: nothing to learn from")
    retrieving = _retrieving_method(method, datastore, settings)
    trace = trace_pairs(model, retrieving, [*dev, *general], progress)
    if not len(trace):
        raise InputError("no neighbours to learn from: the datastore is empty, or all pairs are too long for the model")
    heads, results = {}, {}
    for name, part in _steps_by_head(trace, retrieving).items():
        heads[name], results[name] = _train_head(part, config)
    about = {
        "model": model.fingerprint,
        "datastore": datastore.snapshot().profile.identity,
        "settings": retrieving.settings(),
    }
    save_adaptive(out, heads, {"method": method, **about, "training": asdict(config)})
    seconds = round(time.perf_counter() - started, 1)
    return AdaptiveResult(str(out), method, len(dev), len(general), results, seconds)


def _retrieving_method(name: str, datastore: LiveSource, settings: Mapping[str, Any] | None) -> RetrievingMethod:
    method = make_method(name, datastore, settings)
    if not isinstance(method, RetrievingMethod):
        raise ConfigError(f"method '{name}' retrieves nothing that could be weighed; use knn or chunk")
    if isinstance(method, EfficientMethod):
        # It re-uses the neighbours of searches with their distances, so it needs no head of its own.
        raise ConfigError("method 'efficient' uses the networks of method knn; train one with --method knn")
    return method


def _steps_by_head(trace: Trace, method: RetrievingMethod) -> dict[str, Trace]:
    """Split a trace into search steps and, for method chunk, cache steps; raise an error if one has too few."""
    parts = {}
    for name, origin in (("search", Origin.SEARCH), ("cache", Origin.CACHE)):
        if name == "cache" and not isinstance(method, ChunkMethod):
            continue
        part = trace.select(trace.origin_X == int(origin))
        if name == "cache" and not len(part):
            raise ConfigError("nothing is recalled between searches: search less often, or use method knn")
        if len(part) < _FEWEST_TOKENS:
            raise InputError(
                f"only {len(part)} tokens to learn from at {name} steps, {_FEWEST_TOKENS} are needed; "
                "give a larger development set"
            )
        parts[name] = part.nearest(_most_neighbours(method, origin))
    return parts


def _most_neighbours(method: RetrievingMethod, origin: Origin) -> int:
    """Return the maximum number of neighbours of a step with this origin."""
    assert isinstance(method, KnnMethod | ChunkMethod)
    if isinstance(method, ChunkMethod) and origin == Origin.CACHE:
        return method.config.cache_k or method.config.k
    return method.config.k


def _train_head(trace: Trace, config: AdaptiveConfig) -> tuple[Head, HeadResult]:
    """Train a head on most of the tokens; the others decide when to stop and which weights to keep."""
    device = trace.gold_X.device
    with torch.random.fork_rng([device] if device.type == "cuda" else []):  # leaves the global random state alone
        torch.manual_seed(config.seed)
        order_X = torch.randperm(len(trace)).to(device)
        held_out = max(1, int(_HELD_OUT * len(trace)))
        check, rest = trace.select(order_X[:held_out]), trace.select(order_X[held_out:])
        head = _new_head(trace, config, device)
        loss, updates = _descend(head, rest, check, config)
    with torch.no_grad():
        model_X, _ = _apply(head, check)
    alone = float(-check.gold_log_prob_X.mean())
    result = HeadResult(
        tokens=len(trace),
        updates=updates,
        loss_model_alone=round(alone, 4),
        loss=round(loss, 4),
        model_weight=round(float(model_X.mean()), 3),
        temperature=round(float(head.log_temperature.detach().exp()), 3),
    )
    return head, result


def _new_head(trace: Trace, config: AdaptiveConfig, device: torch.device) -> Head:
    nearest = float(trace.distance_XK[:, 0].median()) or 1.0
    shape = HeadShape(trace.distance_XK.shape[1], config.confidence, nearest)
    return Head(shape, temperature=0.5 * nearest).to(device)


def _descend(head: Head, train: Trace, check: Trace, config: AdaptiveConfig) -> tuple[float, int]:
    """Run Adam with early stopping and leave the best weights in the head; return their loss and the updates."""
    optimiser = _optimiser(head, config.learning_rate)
    best, best_loss, update, stale = _copy(head), float("inf"), 0, 0
    while update < config.updates and stale < config.patience:
        until_check = min(_CHECKED_EVERY, config.updates - update)
        for _ in range(until_check):
            chosen = torch.randint(len(train), (config.batch_tokens,), device=train.gold_X.device)
            loss = _loss(head, train.select(chosen))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        update += until_check
        with torch.no_grad():
            checked = float(_loss(head, check))
        stale = 0 if checked < best_loss else stale + 1
        if checked < best_loss:
            best, best_loss = _copy(head), checked
    if best_loss == float("inf"):
        raise ConfigError(
            f"learning-rate = {config.learning_rate:g}: the loss is no longer a number; give a smaller one"
        )
    head.load_state_dict(best)
    return best_loss, update


def _optimiser(head: Head, learning_rate: float) -> torch.optim.Adam:
    layers = [*head.hidden.parameters(), *head.output.parameters()]
    # The temperature is a single number that starts as a rough guess, so its learning rate is higher.
    groups: list[dict[str, Any]] = [
        {"params": layers},
        {"params": [head.log_temperature], "lr": 10 * learning_rate},
    ]
    return torch.optim.Adam(groups, lr=learning_rate)


def _apply(head: Head, trace: Trace) -> tuple[Tensor, Tensor]:
    return head(trace.distance_XK, trace.token_XK, trace.log_prob_XK, trace.best_log_prob_X, trace.count_XK)  # type: ignore[no-any-return]


def _loss(head: Head, trace: Trace) -> Tensor:
    """Mean over tokens of -log(w_0 p_NMT(y) + sum of the weights of neighbours with token y)."""
    model_X, weight_XK = _apply(head, trace)
    retrieved_X = (weight_XK * (trace.token_XK == trace.gold_X[:, None])).sum(dim=1)
    return -(model_X * trace.gold_log_prob_X.exp() + retrieved_X).clamp(min=1e-12).log().mean()


def _copy(head: Head) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in head.state_dict().items()}
