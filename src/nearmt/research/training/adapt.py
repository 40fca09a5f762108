"""Training an adapter on the pairs of a memory, with early stopping on pairs that are held out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearmt import __version__
from nearmt.config import option
from nearmt.contracts import Pair, Progress
from nearmt.datastore.disk.ids import digest_of, with_ids
from nearmt.errors import InputError
from nearmt.models import Adapter, TrainableModel
from nearmt.models.adapters import MOST_RANK
from nearmt.research.training.batches import EncodedPairs, encode_pairs
from nearmt.research.training.checkpoint import Checkpoint
from nearmt.research.training.finetune import device_name, explain_out_of_memory
from nearmt.research.training.loop import OnEpoch, Outcome, TrainingConfig, train
from nearmt.research.training.low_rank import adapter_of, add_low_rank

#: Fewer pairs say too little: on so few, training mostly learns them by heart.
FEWEST_PAIRS = 200
#: One pair of so many is held out, but at least so many pairs and at most so many.
_HOLD_OUT_EVERY, _LEAST_HELD_OUT, _MOST_HELD_OUT = 20, 20, 200
#: Share of the loss that an adapter has to take away at least.
_LEAST_GAIN = 0.001


@dataclass(frozen=True)
class AdaptConfig(TrainingConfig):
    """How an adapter is trained."""

    rank: int = option(32, "rank of the adapter: its size and how much it can learn", low=1, high=MOST_RANK)
    alpha: float | None = option(None, "its output is scaled by alpha / rank (default: twice the rank)", low=1e-3)
    learning_rate: float = option(1e-3, "highest learning rate", low=1e-9, high=1)
    warmup: bool = option(True, "raise the learning rate linearly over the first epoch")
    dropout: float | None = option(0.1, "dropout while training (default: the model's own)", low=0, high=0.9)

    @property
    def scale(self) -> float:
        return 2.0 if self.alpha is None else self.alpha / self.rank


@dataclass(frozen=True)
class AdapterData:
    """The pairs of a memory, tokenised as the memory has them."""

    train: EncodedPairs
    held_out: EncodedPairs
    #: Hashes of the ids of the pairs that are held out.
    held_out_ids: frozenset[int]
    #: Those of the memory.
    pairs: int

    @classmethod
    def encoded(cls, pairs: Iterable[Pair], model: TrainableModel, marks: str) -> AdapterData:
        everything = list(with_ids(pairs))
        train, held_out = split(everything)
        learned, left_out = (
            encode_pairs(some, model.translation, purpose, marks)
            for some, purpose in ((train, "train on"), (held_out, "hold out"))
        )
        return cls(learned, left_out, frozenset(digest_of(pair.id) for pair in held_out), len(everything))


@dataclass(frozen=True)
class AdapterResult:
    """A finished training."""

    #: None if the loss on held-out pairs did not fall.
    adapter: Adapter | None
    outcome: Outcome
    base_loss: float
    loss: float
    seconds: float


def check_enough(pairs: int) -> None:
    """Refuse a memory that is too small."""
    if pairs < FEWEST_PAIRS:
        raise InputError(
            f"{pairs} pairs are too few for an adapter, which would learn them by heart: it takes at least "
            f"{FEWEST_PAIRS}; the memory itself helps with any number"
        )


def split(pairs: Sequence[Pair]) -> tuple[list[Pair], list[Pair]]:
    """Pairs to train on, and pairs evenly spread over the memory that are held out; no pair is in both."""
    check_enough(len(pairs))
    every = max(min(_HOLD_OUT_EVERY, len(pairs) // _LEAST_HELD_OUT), -(-len(pairs) // _MOST_HELD_OUT))
    held_out = list(pairs[::every])
    known = {(pair.source, pair.target) for pair in held_out}
    return [pair for pair in pairs if (pair.source, pair.target) not in known], held_out


def train_adapter(
    model: TrainableModel,
    data: AdapterData,
    config: AdaptConfig,
    folder: Path | None = None,
    *,
    progress: Progress | None = None,
    on_epoch: OnEpoch | None = None,
) -> AdapterResult:
    """Train an adapter of a model, whose own weights stay as they are.

    `folder` keeps checkpoints: the same training is continued there.
    """
    layers = add_low_rank(model, config.rank, config.scale, config.seed)
    checkpoint = None if folder is None else Checkpoint(folder, _key(model, data, config))
    with explain_out_of_memory(config, model):
        outcome = train(model, data.train, data.held_out, config, progress, on_epoch, checkpoint)
    base_loss, loss = outcome.history[0].dev_loss, outcome.best_loss
    assert base_loss is not None  # training refuses such a model
    seconds = round(sum(epoch.seconds for epoch in outcome.history), 2)
    adapter = None
    if loss < (1 - _LEAST_GAIN) * base_loss:
        notes = _notes(model, data, config, outcome, seconds)
        adapter = adapter_of(model, layers, config.scale, notes, data.held_out_ids, data.pairs)
    return AdapterResult(adapter, outcome, base_loss, loss, seconds)


def _key(model: TrainableModel, data: AdapterData, config: AdaptConfig) -> str:
    """Everything that the result depends on."""
    text = f"{model.translation.fingerprint} {data.train.digest()} {data.held_out.digest()} {config.signature()}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _notes(
    model: TrainableModel, data: AdapterData, config: AdaptConfig, outcome: Outcome, seconds: float
) -> dict[str, Any]:
    return {
        "nearmt": __version__,
        "model": model.translation.name,
        "settings": config.public_values(),
        "pairs": len(data.train),
        "held_out": len(data.held_out),
        "epochs": outcome.best.number,
        "base_loss": outcome.history[0].dev_loss,
        "loss": outcome.best_loss,
        "device": device_name(model.translation.seq2seq.device),
        "seconds": seconds,
        "created": outcome.ended,
    }
