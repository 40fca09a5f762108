"""Fine-tuning of a model on the pairs of a domain, the paper's alternative to retrieval.

At most 20 epochs by default; the epoch with the lowest dev loss is kept. The base model is not changed; the result is
a new model folder.
"""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from nearmt import __version__
from nearmt.contracts import Pair, Progress
from nearmt.datastore.disk.files import write_json
from nearmt.errors import ConfigError, OutputError, writing
from nearmt.models import ModelConfig, TrainableModel, TranslationModel, load_trainable
from nearmt.research.training.batches import EncodedPairs, encode_pairs
from nearmt.research.training.loop import Epoch, FinetuneConfig, OnEpoch, Outcome, TrainingConfig, train
from nearmt.translator import Translator

#: The file in the model folder that records the training.
RECORD = "finetune.json"
#: Batch size for translating the dev set, by device.
_BATCH_SIZE = {"cpu": 8, "cuda": 64}


@dataclass(frozen=True)
class FinetuneResult:
    """The inputs, history and outcome of a training."""

    version: str
    #: The base model.
    model: str
    fingerprint: str
    settings: dict[str, Any]
    device: str
    #: Precision of matrix products; the weights are fp32.
    precision: str
    pairs: int
    target_tokens: int
    too_long: int
    dev_pairs: int
    dev_too_long: int
    updates_per_epoch: int
    updates: int
    #: Epoch 0 is the base model.
    best_epoch: int
    dev_loss: float
    #: BLEU of the best epoch on the first sentences of the dev set; None if not requested.
    dev_bleu: float | None
    dev_bleu_sentences: int
    bleu_signature: str | None
    #: Why training stopped: epochs, patience or diverged.
    stopped: str
    seconds: float
    history: list[Epoch]

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> FinetuneResult:
        return cls(**{**values, "history": [Epoch(**epoch) for epoch in values["history"]]})


@dataclass(frozen=True)
class TrainingData:
    """Training and dev pairs, tokenised for a model."""

    train: EncodedPairs
    dev: EncodedPairs
    dev_pairs: list[Pair]

    @classmethod
    def encoded(cls, pairs: Iterable[Pair], dev: Iterable[Pair], model: TranslationModel) -> TrainingData:
        dev_pairs = list(dev)
        # Dev first: it is small, so an empty one is reported early.
        encoded_dev = encode_pairs(dev_pairs, model, "measure the dev loss on")
        return cls(encode_pairs(pairs, model, "train on"), encoded_dev, dev_pairs)


def finetune(
    model: ModelConfig | TrainableModel,
    pairs: Iterable[Pair],
    dev: Iterable[Pair],
    out: Path,
    config: FinetuneConfig | None = None,
    *,
    progress: Progress | None = None,
    on_epoch: OnEpoch | None = None,
) -> FinetuneResult:
    """Train a model on pairs and write the epoch with the lowest dev loss as the model folder `out`.

    A loaded model is changed in place. `progress` is called for updates, `on_epoch` at the end of every epoch.
    """
    with new_folder(out) as folder:
        trainable = load_trainable(model) if isinstance(model, ModelConfig) else model
        data = TrainingData.encoded(pairs, dev, trainable.translation)
        return train_into(folder, trainable, data, config or FinetuneConfig(), progress, on_epoch)


def train_into(
    folder: Path,
    model: TrainableModel,
    data: TrainingData,
    config: FinetuneConfig,
    progress: Progress | None = None,
    on_epoch: OnEpoch | None = None,
) -> FinetuneResult:
    """Train, measure BLEU, and write model and record into an existing folder."""
    start = time.perf_counter()
    with explain_out_of_memory(config, model):
        outcome = train(model, data.train, data.dev, config, progress, on_epoch)
        model.translation.seq2seq.follow_weights()
        seconds = time.perf_counter() - start
        scored = data.dev_pairs[: config.dev_limit]
        bleu, bleu_signature = dev_bleu(model.translation, scored) if scored else (None, None)
    result = FinetuneResult(
        version=__version__,
        model=model.translation.name,
        fingerprint=model.translation.fingerprint,
        settings=config.public_values(),
        device=device_name(model.translation.seq2seq.device),
        dev_bleu=bleu,
        dev_bleu_sentences=len(scored),
        bleu_signature=bleu_signature,
        seconds=round(seconds, 2),
        **_counts(data),
        **_course(outcome),
    )
    with writing(folder):
        model.save(folder)
        write_json(folder / RECORD, dataclasses.asdict(result))
    return result


def _counts(data: TrainingData) -> dict[str, Any]:
    return {
        "pairs": len(data.train),
        "target_tokens": data.train.target_tokens,
        "too_long": data.train.too_long,
        "dev_pairs": len(data.dev),
        "dev_too_long": data.dev.too_long,
    }


def _course(outcome: Outcome) -> dict[str, Any]:
    return {
        "precision": outcome.precision,
        "updates_per_epoch": outcome.updates_per_epoch,
        "updates": outcome.updates,
        "best_epoch": outcome.best.number,
        "dev_loss": outcome.best_loss,
        "stopped": outcome.stopped,
        "history": outcome.history,
    }


def dev_bleu(model: TranslationModel, pairs: list[Pair]) -> tuple[float, str]:
    """BLEU of the model with nearmt's beam search, and sacrebleu's signature."""
    from sacrebleu.metrics import BLEU

    batch_size = _BATCH_SIZE.get(model.seq2seq.device.type, _BATCH_SIZE["cpu"])
    translations = Translator(model, method="plain", batch_size=batch_size).translate([pair.source for pair in pairs])
    bleu = BLEU()
    score = bleu.corpus_score([found.text for found in translations], [[pair.target for pair in pairs]])
    return round(score.score, 2), str(bleu.get_signature())


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to `out` if the block succeeds."""
    check_free(out)
    partial = out.with_name(out.name + ".partial")
    with writing(out):
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    try:
        yield partial
        with writing(out):
            partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_free(out: Path) -> None:
    """Raise an error if a path is taken, before any work is done."""
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise OutputError(f"{out}: exists and is not an empty folder; name a new folder")


@contextmanager
def explain_out_of_memory(config: TrainingConfig, model: TrainableModel) -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError as error:
        device = model.translation.seq2seq.device
        raise ConfigError(
            f"batch-tokens = {config.batch_tokens}: does not fit the memory of {device}; give a smaller --batch-tokens"
        ) from error


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
