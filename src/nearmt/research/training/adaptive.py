"""Training of the network of Adaptive kNN-MT, on in-domain and general text."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nearmt.config import Config, option
from nearmt.contracts import Origin, Pair, Progress
from nearmt.errors import ConfigError, InputError
from nearmt.methods import make_method
from nearmt.methods.adaptive import HeadShape, save_adaptive
from nearmt.methods.chunk import ChunkMethod
from nearmt.methods.knn import KnnMethod
from nearmt.methods.mixing import keys_of
from nearmt.methods.networks import NETWORKS, Network, Seen, new_network
from nearmt.methods.retrieving import RetrievingMethod
from nearmt.models import TranslationModel
from nearmt.research.training.noise import noise_rate, with_noise
from nearmt.research.training.trace import Trace, trace_pairs
from nearmt.retrieval.source import LiveSource

#: Looks up the keys of entries.
Keys = Callable[[Tensor], Tensor]

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
    network: str = option(NETWORKS[0], "whose network: Zheng's, Jiang's of 2021, or Jiang's of 2022", choices=NETWORKS)
    confidence: bool = option(True, "give the network the model's confidence as an input (adaptive)")
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
    retrieving = _retrieving_method(method, config.network, datastore, settings)
    trace = trace_pairs(model, retrieving, [*dev, *general], progress)
    if not len(trace):
        raise InputError("no neighbours to learn from: the datastore is empty, or all pairs are too long for the model")
    heads, results, keys = {}, {}, partial(keys_of, datastore.snapshot())
    for name, part in _steps_by_head(trace, retrieving).items():
        heads[name], results[name] = _train_head(part, config, keys)
    about = {
        "model": model.fingerprint,
        "datastore": datastore.snapshot().profile.identity,
        "settings": retrieving.settings(),
    }
    save_adaptive(out, heads, {"method": method, **about, "training": asdict(config)})
    seconds = round(time.perf_counter() - started, 1)
    return AdaptiveResult(str(out), method, len(dev), len(general), results, seconds)


def _retrieving_method(
    name: str, network: str, datastore: LiveSource, settings: Mapping[str, Any] | None
) -> RetrievingMethod:
    method = make_method(name, datastore, settings)
    if not isinstance(method, RetrievingMethod):
        raise ConfigError(f"method '{name}' retrieves nothing that could be weighed; use knn or chunk")
    if name not in ("knn", "chunk"):
        # Its neighbours have the distances of searches, so it needs no head of its own.
        raise ConfigError(f"method '{name}' uses the networks of method knn; train one with --method knn")
    if name == "chunk" and network != NETWORKS[0]:
        raise ConfigError(f"network = '{network}': weighs neighbours of searches alone; train it with --method knn")
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


def _train_head(trace: Trace, config: AdaptiveConfig, keys: Keys | None = None) -> tuple[Network, HeadResult]:
    """Train a head on most of the tokens; the others decide when to stop and which weights to keep."""
    device = trace.gold_X.device
    with torch.random.fork_rng([device] if device.type == "cuda" else []):  # leaves the global random state alone
        torch.manual_seed(config.seed)
        order_X = torch.randperm(len(trace)).to(device)
        held_out = max(1, int(_HELD_OUT * len(trace)))
        check, rest = trace.select(order_X[:held_out]), trace.select(order_X[held_out:])
        head = _new_head(trace, config, device)
        loss, updates = _descend(head, rest, check, config, keys)
    with torch.no_grad():
        model_X, _ = head.weigh(_seen(head, check, keys))
    alone = float(-check.gold_log_prob_X.mean())
    result = HeadResult(
        tokens=len(trace),
        updates=updates,
        loss_model_alone=round(alone, 4),
        loss=round(loss, 4),
        model_weight=round(float(model_X.mean()), 3),
        temperature=round(head.temperature(), 3),
    )
    return head, result


def _new_head(trace: Trace, config: AdaptiveConfig, device: torch.device) -> Network:
    nearest = float(trace.distance_XK[:, 0].median()) or 1.0
    shape = HeadShape(trace.distance_XK.shape[1], config.confidence, nearest, config.network, trace.query_XD.shape[1])
    return new_network(shape, temperature=0.5 * nearest).to(device)


def _descend(head: Network, train: Trace, check: Trace, config: AdaptiveConfig, keys: Keys | None) -> tuple[float, int]:
    """Run Adam with early stopping and leave the best weights in the head; return their loss and the updates."""
    optimiser = _optimiser(head, config.learning_rate)
    best, best_loss, update, stale = _copy(head), float("inf"), 0, 0
    while update < config.updates and stale < config.patience:
        for _ in range(min(_CHECKED_EVERY, config.updates - update)):
            chosen = torch.randint(len(train), (config.batch_tokens,), device=train.gold_X.device)
            batch = train.select(chosen)
            if config.network == "robust":
                batch = with_noise(batch, noise_rate(update, config.updates), head.shape.scale, batch.query_XD.shape[1])
            loss = _loss(head, batch, keys)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            update += 1
        with torch.no_grad():
            checked = float(_loss(head, check, keys))
        stale = 0 if checked < best_loss else stale + 1
        if checked < best_loss:
            best, best_loss = _copy(head), checked
    if best_loss == float("inf"):
        raise ConfigError(
            f"learning-rate = {config.learning_rate:g}: the loss is no longer a number; give a smaller one"
        )
    head.load_state_dict(best)
    return best_loss, update


def _optimiser(head: Network, learning_rate: float) -> torch.optim.Adam:
    # A temperature is a single number that starts as a rough guess, so its learning rate is higher.
    quick = head.quick()
    layers = [weight for weight in head.parameters() if not any(weight is each for each in quick)]
    groups: list[dict[str, Any]] = [{"params": layers}, {"params": quick, "lr": 10 * learning_rate}]
    return torch.optim.Adam([group for group in groups if group["params"]], lr=learning_rate)


def _seen(head: Network, trace: Trace, keys: Keys | None) -> Seen:
    inputs = trace.distance_XK, trace.token_XK, trace.log_prob_XK, trace.likeliest_XR, trace.count_XK
    return Seen(*inputs, trace.query_XD, keys(trace.entry_XK) if head.sees_keys and keys else None)


def _loss(head: Network, trace: Trace, keys: Keys | None) -> Tensor:
    """Mean over tokens of -log(w_0 p_NMT(y) + sum of the weights of neighbours with token y)."""
    model_X, weight_XK = head.weigh(_seen(head, trace, keys))
    retrieved_X = (weight_XK * (trace.token_XK == trace.gold_X[:, None])).sum(dim=1)
    return -(model_X * trace.gold_log_prob_X.exp() + retrieved_X).clamp(min=1e-12).log().mean()


def _copy(head: Network) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in head.state_dict().items()}
