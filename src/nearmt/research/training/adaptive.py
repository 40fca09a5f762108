"""Training the network of Adaptive kNN-MT, on text of the domain and on general text."""

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
from nearmt.methods.efficient import EfficientMethod
from nearmt.methods.knn import KnnMethod
from nearmt.methods.retrieving import RetrievingMethod
from nearmt.models import TranslationModel
from nearmt.research.training.trace import Trace, trace_pairs
from nearmt.retrieval.source import SnapshotSource

_CHECKED_EVERY = 100  # updates
_HELD_OUT = 0.1  # of the tokens, to stop on
_FEWEST_TOKENS = 200


@dataclass(frozen=True)
class AdaptiveConfig(Config):
    """How the network is trained."""

    learning_rate: float = option(3e-4, "step size of Adam", low=1e-8, high=1)
    updates: int = option(5000, "most updates", low=1)
    batch_tokens: int = option(1024, "target tokens of an update", low=1)
    patience: int = option(5, f"checks without gain before it stops; one every {_CHECKED_EVERY} updates", low=1)
    confidence: bool = option(True, "let the network see how sure the model is")
    seed: int = option(1, "of the first weights and of the order", low=0, high=2**63 - 1)


@dataclass(frozen=True)
class HeadResult:
    """One head: how well it explains tokens that it was not trained on."""

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
    datastore: SnapshotSource,
    method: str,
    dev: Sequence[Pair],
    general: Sequence[Pair],
    out: Path,
    config: AdaptiveConfig | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> AdaptiveResult:
    """Train a network for a method on a store and write it to `out`.

    `dev` is text of the store's domain that is not in it. `general` is text the memory knows nothing of, from
    which the network learns to leave the model alone.
    """
    config, started = config or AdaptiveConfig(), time.perf_counter()
    if not dev:
        raise InputError("the development set has no pairs: nothing to learn from")
    retrieving = make_method(method, datastore, settings)
    if not isinstance(retrieving, RetrievingMethod):
        raise ConfigError(f"method '{method}' retrieves nothing that could be weighed; use knn or chunk")
    if isinstance(retrieving, EfficientMethod):
        # What it re-uses are neighbours of searches, with their distances: there is nothing else to learn.
        raise ConfigError("method 'efficient' uses the networks of method knn; train one with --method knn")
    trace = trace_pairs(model, retrieving, [*dev, *general], progress)
    if not len(trace):
        raise InputError("no neighbours to learn from: the datastore is empty, or all pairs are too long for the model")
    heads, results = {}, {}
    for name, origin in (("search", Origin.SEARCH), ("cache", Origin.CACHE)):
        part = trace.select(trace.origin_X == int(origin))
        if name == "cache" and not isinstance(retrieving, ChunkMethod):
            continue
        if name == "cache" and not len(part):
            raise ConfigError("nothing is recalled between searches: search less often, or use method knn")
        if len(part) < _FEWEST_TOKENS:
            raise InputError(
                f"only {len(part)} tokens to learn from at {name} steps, {_FEWEST_TOKENS} are needed; "
                "give a larger development set"
            )
        heads[name], results[name] = _train_head(part.nearest(_neighbours(retrieving, origin)), config)
    about = {"model": model.fingerprint, "datastore": datastore.snapshot().identity, "settings": retrieving.settings()}
    save_adaptive(out, heads, {"method": method, **about, "training": asdict(config)})
    seconds = round(time.perf_counter() - started, 1)
    return AdaptiveResult(str(out), method, len(dev), len(general), results, seconds)


def _neighbours(method: RetrievingMethod, origin: Origin) -> int:
    """How many neighbours such a step has at most."""
    assert isinstance(method, KnnMethod | ChunkMethod)
    if isinstance(method, ChunkMethod) and origin == Origin.CACHE:
        return method.config.cache_k or method.config.k
    return method.config.k


def _train_head(trace: Trace, config: AdaptiveConfig) -> tuple[Head, HeadResult]:
    """The head that makes held-out tokens most likely."""
    device = trace.gold_X.device
    with torch.random.fork_rng([device] if device.type == "cuda" else []):  # other people's random numbers stay theirs
        torch.manual_seed(config.seed)
        return _descend(trace, config, device)


def _descend(trace: Trace, config: AdaptiveConfig, device: torch.device) -> tuple[Head, HeadResult]:
    """Adam on most of the tokens, until those that are held out gain no more."""
    order_X = torch.randperm(len(trace)).to(device)
    held_out = max(1, int(_HELD_OUT * len(trace)))
    check, rest = trace.select(order_X[:held_out]), trace.select(order_X[held_out:])
    nearest = float(trace.distance_XK[:, 0].median()) or 1.0
    shape = HeadShape(trace.distance_XK.shape[1], config.confidence, nearest)
    head = Head(shape, temperature=0.5 * nearest).to(device)
    layers = [*head.hidden.parameters(), *head.output.parameters()]
    # The temperature starts as a guess and is a single number: it may move faster.
    groups: list[dict[str, Any]] = [
        {"params": layers},
        {"params": [head.log_temperature], "lr": 10 * config.learning_rate},
    ]
    optimiser = torch.optim.Adam(groups, lr=config.learning_rate)
    best, best_loss, update, stale = _copy(head), float("inf"), 0, 0
    while update < config.updates and stale < config.patience:
        until_check = min(_CHECKED_EVERY, config.updates - update)
        for _ in range(until_check):
            chosen = torch.randint(len(rest), (config.batch_tokens,), device=device)
            loss = _loss(head, rest.select(chosen))
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
    with torch.no_grad():
        model_X, _ = _apply(head, check)
    alone = float(-check.gold_log_prob_X.mean())
    result = HeadResult(
        tokens=len(trace),
        updates=update,
        loss_model_alone=round(alone, 4),
        loss=round(best_loss, 4),
        model_weight=round(float(model_X.mean()), 3),
        temperature=round(float(head.log_temperature.detach().exp()), 3),
    )
    return head, result


def _apply(head: Head, trace: Trace) -> tuple[Tensor, Tensor]:
    return head(trace.distance_XK, trace.token_XK, trace.spoken_XK, trace.surest_X, trace.count_XK)  # type: ignore[no-any-return]


def _loss(head: Head, trace: Trace) -> Tensor:
    """-log(w_0 p_NMT(y) + sum of the weights of neighbours that say y), the mean over tokens."""
    model_X, weight_XK = _apply(head, trace)
    spoken_X = (weight_XK * (trace.token_XK == trace.gold_X[:, None])).sum(dim=1)
    return -(model_X * trace.gold_log_prob_X.exp() + spoken_X).clamp(min=1e-12).log().mean()


def _copy(head: Head) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in head.state_dict().items()}
