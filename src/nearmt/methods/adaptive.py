"""Adaptive kNN-MT (Zheng et al. 2021): a small network decides how many neighbours to believe, and how much.

From the distances of the K nearest neighbours and the number of different tokens among the first 1..K of
them it gives a distribution over r in {0, 1, 2, 4, ..., K}; p = w_0 p_NMT + sum over r of w_r p_kNN(r), where
p_kNN(r) is equation 2 over the r nearest. With `confidence` it also sees how likely the model thinks the
neighbours' tokens, as later systems do: it then knows when the model needs no help.

Searches and the neighbours' cache measure distances differently, so each has a head of its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from nearmt.contracts import Evidence, Origin, Scores
from nearmt.engines.precision import apply_precision
from nearmt.errors import ConfigError, InputError, writing
from nearmt.methods.mixing import EvidenceMixer, Votes
from nearmt.methods.networks import NETWORKS, Network, Seen, new_network
from nearmt.models import TranslationModel

HIDDEN = 32
# As many as a method may ask for.
_MOST_NEIGHBOURS, _MOST_COLUMNS = 1024, 4096
# Distances in typical distances; farther neighbours, and padding, get this value.
FARTHEST = 8.0
# Log-probabilities are clamped to this.
UNLIKELIEST = -12.0
# Where the file keeps what is not a tensor.
_METADATA = "nearmt"


@dataclass(frozen=True)
class HeadShape:
    """What a head needs to be rebuilt."""

    k: int
    confidence: bool
    scale: float  # the typical distance of a nearest neighbour: the unit of its inputs
    network: str = NETWORKS[0]
    columns: int = 0  # of the keys

    def __post_init__(self) -> None:
        if not (1 <= self.k <= _MOST_NEIGHBOURS and 0 < self.scale < float("inf")):
            raise ValueError(f"{self}")
        if self.network not in NETWORKS or not 0 <= self.columns <= _MOST_COLUMNS:
            raise ValueError(f"{self}")


def subset_sizes(k: int) -> list[int]:
    """The numbers of neighbours to choose from besides 0: 1, 2, 4, ... and K itself."""
    sizes = [1]
    while sizes[-1] * 2 < k:
        sizes.append(sizes[-1] * 2)
    return sizes if sizes[-1] == k else [*sizes, k]


@dataclass(frozen=True)
class NetworkOrigin:
    """Which network this is, and which model it belongs to."""

    path: str
    identity: str  # of the content
    model: str  # fingerprint


class Head(Network):
    """2K inputs (3K + 1 with confidence), one hidden layer, a weight for every subset size and for none."""

    def __init__(self, shape: HeadShape, temperature: float) -> None:
        super().__init__()
        self.shape = shape
        inputs = 2 * shape.k + (shape.k + 1 if shape.confidence else 0)
        self.hidden = nn.Linear(inputs, HIDDEN)
        self.output = nn.Linear(HIDDEN, 1 + len(subset_sizes(shape.k)))
        self.log_temperature = nn.Parameter(torch.tensor(temperature).log())

    def weigh(self, seen: Seen) -> tuple[Tensor, Tensor]:
        distance_BK, token_BK, spoken_BK, likeliest_BR, count_BK = seen[:5]
        return self.forward(distance_BK, token_BK, spoken_BK, likeliest_BR[:, 0], count_BK)

    def quick(self) -> list[nn.Parameter]:
        return [self.log_temperature]

    def temperature(self) -> float:
        return float(self.log_temperature.detach().exp())

    def forward(
        self, distance_BK: Tensor, token_BK: Tensor, spoken_BK: Tensor, surest_B: Tensor, count_BK: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The weight w_0 of the model [B] and what each neighbour weighs [B, K]; together they sum to 1.

        `spoken_BK` is the model's log-probability of each neighbour's token, `surest_B` that of its best. Columns
        beyond the K of the head are for another kind of step: their weight is 0.
        """
        columns, k = distance_BK.shape[1], self.shape.k
        distance_BK, token_BK, spoken_BK = distance_BK[:, :k], token_BK[:, :k], spoken_BK[:, :k]
        count_BK = None if count_BK is None else count_BK[:, :k]
        feature_BF = self._features(distance_BK, token_BK, spoken_BK, surest_B)
        weight_BR = torch.softmax(self.output(torch.tanh(self.hidden(feature_BF))), dim=-1)
        missing_BK = torch.isinf(distance_BK)
        # Infinite distances would leave the temperature without a gradient.
        score_BK = -distance_BK.masked_fill(missing_BK, 0.0) / self.log_temperature.exp()
        if count_BK is not None:
            score_BK = score_BK + count_BK.log()
        # Padding gets no weight; the first column always has a neighbour (or the row is not used).
        score_BK = score_BK.masked_fill(missing_BK, torch.finfo(score_BK.dtype).min)
        total_BK = torch.zeros_like(score_BK)
        for number, size in enumerate(subset_sizes(k), 1):
            share_BS = torch.softmax(score_BK[:, :size], dim=-1) * weight_BR[:, number : number + 1]
            total_BK = total_BK + nn.functional.pad(share_BS, (0, k - size))
        return weight_BR[:, 0], nn.functional.pad(total_BK, (0, columns - k))

    def _features(self, distance_BK: Tensor, token_BK: Tensor, spoken_BK: Tensor, surest_B: Tensor) -> Tensor:
        near_BK = (distance_BK / self.shape.scale).clamp(max=FARTHEST)
        there_BK = ~torch.isinf(distance_BK)
        features = [near_BK, distinct_counts(token_BK, there_BK) / self.shape.k]
        if self.shape.confidence:
            spoken_BK = torch.where(there_BK, spoken_BK, UNLIKELIEST).clamp(min=UNLIKELIEST)
            features += [spoken_BK / -UNLIKELIEST, surest_B.clamp(min=UNLIKELIEST)[:, None] / -UNLIKELIEST]
        return torch.cat(features, dim=1)


def distinct_counts(token_BK: Tensor, there_BK: Tensor) -> Tensor:
    """How many different tokens stand among the first 1, 2, ..., K neighbours, [B, K]."""
    same_BKK = (token_BK[:, :, None] == token_BK[:, None, :]) & there_BK[:, None, :]
    earlier_KK = torch.ones(token_BK.shape[1], token_BK.shape[1], device=token_BK.device).tril(-1).bool()
    is_new_BK = there_BK & ~(same_BKK & earlier_KK).any(dim=2)
    return is_new_BK.cumsum(dim=1).float()


class AdaptiveMixer(EvidenceMixer):
    """Lets the heads weigh what was retrieved. Without a head for the cache, one head serves all steps.

    Tokens are most likely under weights that are too small for translations: `boost` adds to the log odds of
    the neighbours, all of them together, against the model.
    """

    # Boosted neighbours harm general text that just reaches the mark; the domain's own goes beyond it (docs/log.md).
    trusted: ClassVar[tuple[float, float]] = (1.0, 1.3)

    def __init__(self, heads: Mapping[str, Network], origin: NetworkOrigin, boost: float = 0.0) -> None:
        self.heads, self.origin, self.boost = dict(heads), origin, boost
        self.sees_keys = any(head.sees_keys for head in heads.values())

    @property
    def identity(self) -> str | None:
        return self.origin.identity

    def check_model(self, model: TranslationModel) -> None:
        """Refuse a model whose states and probabilities the network has not seen. Other datastores are fine."""
        if model.fingerprint != self.origin.model:
            raise ConfigError(
                f"{self.origin.path}: was trained with model {self.origin.model}, not with '{model.name}' "
                f"({model.fingerprint}); train one for it with `nearmt train-adaptive`"
            )

    @torch.no_grad()
    def evidence(self, votes: Votes, scores: Scores) -> Evidence:
        found, token_BK, count_BK = votes.found, votes.token_BK, votes.count_BK
        device, likeliest = scores.offset_B.device, max(head.likeliest for head in self.heads.values())
        inputs = found.distance_BK, token_BK, scores.at(token_BK), scores.likeliest(likeliest)
        seen = Seen(*inputs, count_BK, votes.query_BD, votes.key_BKD)
        model_B, weight_BK = self._head("search", device).weigh(seen)
        if "cache" in self.heads:
            recalled_B = found.origin_B == int(Origin.CACHE)
            cache_model_B, cache_weight_BK = self._head("cache", device).weigh(seen)
            model_B = torch.where(recalled_B, cache_model_B, model_B)
            weight_BK = torch.where(recalled_B[:, None], cache_weight_BK, weight_BK)
        if self.boost:
            odds_B = (1.0 - model_B) * torch.tensor(self.boost).exp()
            model_B = model_B / (model_B + odds_B)
        present_B = found.origin_B != int(Origin.MODEL)
        share_B = torch.where(present_B, 1.0 - model_B, 0.0)
        weight_BK = torch.where(found.entry_BK >= 0, weight_BK, 0.0)
        total_B1 = weight_BK.sum(dim=1, keepdim=True)
        return Evidence(
            origin_B=found.origin_B,
            entry_BK=found.entry_BK,
            token_BK=token_BK,
            weight_BK=weight_BK / total_B1.clamp(min=1e-9),
            share_B=torch.where(total_B1[:, 0] > 0, share_B, 0.0),
        )

    def _head(self, name: str, device: torch.device) -> Network:
        head = self.heads[name]
        if next(head.parameters()).device != device:
            self.heads[name] = head = head.to(device)
        return head


def save_adaptive(path: Path, heads: Mapping[str, Network], about: dict[str, Any]) -> None:
    """The heads as a safetensors file; `about` says where they come from: at least the `model`."""
    from safetensors.torch import save

    tensors = {
        f"{name}.{key}": t.detach().cpu() for name, head in heads.items() for key, t in head.state_dict().items()
    }
    shapes = {name: asdict(head.shape) for name, head in heads.items()}
    content = save(tensors, {_METADATA: json.dumps({"heads": shapes, **about})})
    partial = path.with_name(path.name + ".partial")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            partial.write_bytes(content)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def load_adaptive(
    path: Path, k: int, cache_k: int | None, boost: float = 0.0, columns: int | None = None
) -> AdaptiveMixer:
    """A trained network for `k` neighbours of a search and `cache_k` of the cache; refused if it is for other numbers.

    Without a cache, the head for it is dropped: only distances in the cache are not squared. `columns` are those of the
    keys of the store.
    """
    from safetensors import SafetensorError

    try:
        content = path.read_bytes()
        heads, model = _read(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise InputError(f"{path}: not a network made by `nearmt train-adaptive`") from error
    trained_k = heads["search"].shape.k
    if trained_k != k:
        raise ConfigError(f"{path}: was trained for {trained_k} neighbours, not for {k}; set k={trained_k}")
    if cache_k is None:
        heads = {"search": heads["search"]}
    elif "cache" not in heads:
        raise ConfigError(f"{path}: was trained without a cache; train one with `nearmt train-adaptive --method chunk`")
    elif (trained_k := heads["cache"].shape.k) != cache_k:
        raise ConfigError(
            f"{path}: was trained for {trained_k} neighbours from the cache, not for {cache_k}; set cache-k={trained_k}"
        )
    search, wanted = heads["search"], heads["search"].shape.columns
    if search.sees_keys and columns not in (None, wanted):
        raise ConfigError(f"{path}: was trained on keys of {wanted} columns, those of this datastore have {columns}")
    identity = hashlib.sha256(content).hexdigest()[:12]
    return AdaptiveMixer(heads, NetworkOrigin(str(path), identity, model), boost)


def _read(path: Path) -> tuple[dict[str, Network], str]:
    """The heads and the fingerprint of their model; many kinds of errors if it is another file."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        about = json.loads(file.metadata()[_METADATA])
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
    heads = {name: new_network(HeadShape(**shape), 1.0) for name, shape in about["heads"].items()}
    if "search" not in heads or not heads.keys() <= {"search", "cache"}:
        raise ValueError(f"heads {sorted(heads)}")
    if not isinstance(about["model"], str):
        raise ValueError("a network of no model")
    if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
        raise ValueError("weights that are not numbers")
    for name, head in heads.items():
        head.load_state_dict({key.partition(".")[2]: t for key, t in tensors.items() if key.startswith(f"{name}.")})
        head.eval().requires_grad_(False)
        apply_precision(head, "fp32", torch.device("cpu"))
    return heads, about["model"]
