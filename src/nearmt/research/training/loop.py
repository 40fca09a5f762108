"""The training loop, with early stopping on the dev loss."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from nearmt.config import Config, option
from nearmt.contracts import Progress
from nearmt.errors import ModelError
from nearmt.models import TrainableModel
from nearmt.research.training.batches import Batches, EncodedPairs
from nearmt.research.training.checkpoint import (
    Checkpoint,
    Saved,
    copy_into,
    optimizer_state,
    random_state,
    restore_optimizer,
    restore_random_state,
)
from nearmt.research.training.schedules import SCHEDULES, learning_rate
from nearmt.research.training.teacher import Teacher, set_dropout

#: Betas of AdamW, as usual for translation.
BETAS = (0.9, 0.98)


@dataclass(frozen=True)
class TrainingConfig(Config):
    """How a model is trained."""

    learning_rate: float = option(5e-5, "highest learning rate", low=1e-9, high=1)
    schedule: str = option("inverse-sqrt", "schedule of the learning rate", choices=SCHEDULES)
    warmup: bool = option(False, "raise the learning rate linearly over the first epoch")
    epochs: int = option(20, "maximum number of epochs", low=1)
    patience: int = option(3, "epochs in a row without a lower dev loss before stopping", low=1)
    batch_tokens: int = option(8192, "source and target tokens of a batch, padding included", low=1)
    label_smoothing: float = option(
        0.1, "share of the target's probability spread over the vocabulary", low=0, high=0.9
    )
    dropout: float | None = option(None, "dropout while training (default: the model's own)", low=0, high=0.9)
    weight_decay: float = option(0.0, "weight decay of AdamW", low=0, high=1)
    clip_norm: float = option(1.0, "maximum norm of gradients; 0 turns clipping off", low=0)
    mixed_precision: bool = option(True, "use bf16 for matrix products on a GPU; weights stay fp32")
    seed: int = option(1, "random seed of batch order and dropout", low=0)


@dataclass(frozen=True)
class FinetuneConfig(TrainingConfig):
    """How a model is fine-tuned."""

    dev_limit: int = option(500, "dev sentences translated at the end for BLEU; 0 for none", low=0)


@dataclass(frozen=True)
class Epoch:
    """The losses of one epoch in nats per target token; None if they are not finite."""

    number: int
    #: With label smoothing and dropout; None for epoch 0.
    train_loss: float | None
    #: Without either.
    dev_loss: float | None
    #: Learning rate of the last update.
    learning_rate: float
    seconds: float


OnEpoch = Callable[[Epoch], None]


@dataclass
class Outcome:
    """The course of a training; the model has the weights of the best epoch."""

    precision: str
    updates_per_epoch: int
    stopped: str = "epochs"
    updates: int = 0
    history: list[Epoch] = field(default_factory=list)
    #: When it ended.
    ended: str = ""

    @property
    def best(self) -> Epoch:
        """The first epoch with the lowest dev loss."""
        return min(self.history, key=_dev_loss)

    @property
    def best_loss(self) -> float:
        return _dev_loss(self.best)

    def worse_in_a_row(self) -> int:
        """Epochs since the best one."""
        return self.history[-1].number - self.best.number


def train(
    model: TrainableModel,
    pairs: EncodedPairs,
    dev: EncodedPairs,
    config: TrainingConfig,
    progress: Progress | None = None,
    on_epoch: OnEpoch | None = None,
    checkpoint: Checkpoint | None = None,
) -> Outcome:
    """Train until the last epoch or until patience runs out, then restore the best epoch's weights.

    With a checkpoint, an earlier training that was interrupted is continued.
    """
    device = model.translation.seq2seq.device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(config.seed)
        try:
            return _Training(model, pairs, dev, config, progress, checkpoint).run(on_epoch)
        finally:
            model.weights.eval()
            model.weights.zero_grad(set_to_none=True)


class _Training:
    def __init__(
        self,
        model: TrainableModel,
        pairs: EncodedPairs,
        dev: EncodedPairs,
        config: TrainingConfig,
        progress: Progress | None,
        checkpoint: Checkpoint | None,
    ) -> None:
        self._config, self._progress, self._checkpoint = config, progress, checkpoint
        self._weights = model.weights
        if config.dropout is not None:
            set_dropout(model.weights, config.dropout)
        self._teacher = Teacher(model, config.mixed_precision)
        pad_id = model.translation.seq2seq.pad_id
        self._batches, self._dev_batches = (Batches(each, config.batch_tokens, pad_id) for each in (pairs, dev))
        self._tokens, self._dev_tokens = pairs.target_tokens, dev.target_tokens
        self._trainable = {name: weight for name, weight in model.weights.named_parameters() if weight.requires_grad}
        self._optimizer = torch.optim.AdamW(
            self._trainable.values(),
            lr=config.learning_rate,
            betas=BETAS,
            weight_decay=config.weight_decay,
            fused=self._teacher.device.type == "cuda",
        )
        self._halvings = 0
        self._outcome = Outcome("bf16" if self._teacher.mixed else "fp32", len(self._batches))
        self._best: dict[str, Tensor] = {}
        #: Of the present epoch: batches that are done, the sum of their losses, and seconds of earlier sittings.
        self._done, self._elapsed = 0, 0.0
        self._total = torch.zeros((), dtype=torch.float64, device=self._teacher.device)
        self._finished = False

    def run(self, on_epoch: OnEpoch | None) -> Outcome:
        self._restore()
        history = self._outcome.history
        while not self._finished:
            history.append(self._epoch(len(history)))
            self._done, self._elapsed = 0, 0.0
            self._total.zero_()
            if on_epoch:
                on_epoch(history[-1])
            self._finished = self._is_last(history[-1])
            if self._finished:
                self._outcome.ended = datetime.now(UTC).isoformat(timespec="seconds")
            self._save()
        copy_into(self._trainable, self._best)
        return self._outcome

    def _is_last(self, epoch: Epoch) -> bool:
        """Keep the weights of an epoch if they are the best so far; returns whether training ends with it."""
        outcome = self._outcome
        if not math.isfinite(_dev_loss(epoch)):
            if epoch.number == 0:
                raise ModelError("the model's loss on the dev set is not a number before any training")
            outcome.stopped = "diverged"
            return True
        if outcome.best.number == epoch.number:
            self._best = {name: weight.detach().to("cpu", copy=True) for name, weight in self._trainable.items()}
        elif outcome.worse_in_a_row() >= self._config.patience:
            outcome.stopped = "patience"
            return True
        else:
            self._halvings += 1
        return epoch.number >= self._config.epochs

    def _epoch(self, number: int) -> Epoch:
        """Train one epoch (number 0 trains nothing) and measure the dev loss."""
        start = time.perf_counter() - self._elapsed
        train_loss = self._train_epoch(number, start) if number else None
        dev_loss = self._teacher.loss_per_token(self._dev_batches, self._dev_tokens)
        rate = self._rate(self._outcome.updates) if number else 0.0
        return Epoch(number, _number(train_loss), _number(dev_loss), rate, round(time.perf_counter() - start, 2))

    def _train_epoch(self, number: int, start: float) -> float:
        """Run one pass over the pairs; the loss is summed on the device and read once, at the end."""
        self._weights.train()
        batches = self._batches.epoch(np.random.default_rng([self._config.seed, number]))
        for batch in islice(batches, self._done, None):
            loss = self._teacher.loss_sum(batch, self._config.label_smoothing)
            self._total += loss.detach()
            self._update(loss / batch.target_mask_BT.sum())
            self._done += 1
            if self._checkpoint is not None and self._checkpoint.due:
                self._elapsed = time.perf_counter() - start
                self._save()
        return float(self._total) / self._tokens

    def _save(self) -> None:
        if self._checkpoint is None:
            return
        outcome, device = self._outcome, self._teacher.device
        tensors = {
            **{f"weight {name}": weight for name, weight in self._trainable.items()},
            **{f"best {name}": weight for name, weight in self._best.items()},
            **optimizer_state(self._optimizer),
            **random_state(device),
            "total": self._total,
        }
        values = {
            "outcome": dataclasses.asdict(outcome),
            "done": self._done,
            "elapsed": self._elapsed,
            "halvings": self._halvings,
            "finished": self._finished,
        }
        self._checkpoint.save(Saved(tensors, values))

    def _restore(self) -> None:
        """Continue where a training was interrupted."""
        saved = None if self._checkpoint is None else self._checkpoint.load()
        if saved is None:
            return
        assert self._checkpoint is not None
        with self._checkpoint.readable():
            values, device = saved.values, self._teacher.device
            history = [Epoch(**epoch) for epoch in values["outcome"]["history"]]
            self._outcome = Outcome(**{**values["outcome"], "history": history})
            self._done, self._elapsed = int(values["done"]), float(values["elapsed"])
            self._halvings, self._finished = int(values["halvings"]), bool(values["finished"])
            copy_into(self._trainable, saved.named("weight"))
            self._best = saved.named("best")
            restore_optimizer(self._optimizer, saved)
            restore_random_state(saved, device)
            self._total = saved.tensors["total"].to(device)

    def _update(self, loss: Tensor) -> None:
        """Run one optimiser step on the mean loss of a batch."""
        self._outcome.updates += 1
        updates = self._outcome.updates
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate(updates)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if self._config.clip_norm:
            torch.nn.utils.clip_grad_norm_(self._trainable.values(), self._config.clip_norm)
        self._optimizer.step()
        if self._progress:
            self._progress(updates, len(self._batches) * self._config.epochs)

    def _rate(self, update: int) -> float:
        config = self._config
        return learning_rate(
            config.learning_rate,
            config.schedule,
            config.warmup,
            update=update,
            updates_per_epoch=len(self._batches),
            halvings=self._halvings,
        )


def _dev_loss(epoch: Epoch) -> float:
    return math.inf if epoch.dev_loss is None else epoch.dev_loss


def _number(loss: float | None) -> float | None:
    """Convert a loss for JSON, which has no infinities."""
    return None if loss is None or not math.isfinite(loss) else loss
