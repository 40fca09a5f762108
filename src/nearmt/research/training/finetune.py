"""Fine-tuning: the same pairs, learned into the weights instead of looked up.

What the paper compares retrieval with: at most 20 epochs on a domain's pairs, the epoch with the lowest dev
loss kept. The model that is started from is not touched; the result is a model folder of its own.
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
from nearmt.research.training.loop import Epoch, FinetuneConfig, OnEpoch, train
from nearmt.translator import Translator

#: The record of a training, within the folder of its model.
RECORD = "finetune.json"
#: Dev sentences translated together, by device.
_TRANSLATED_TOGETHER = {"cpu": 8, "cuda": 64}


@dataclass(frozen=True)
class FinetuneResult:
    """A finished training: what went in, how it went, what came out."""

    version: str
    #: The model that was started from.
    model: str
    fingerprint: str
    settings: dict[str, Any]
    device: str
    #: What matrices were multiplied in; the weights are fp32.
    precision: str
    pairs: int
    target_tokens: int
    too_long: int
    dev_pairs: int
    dev_too_long: int
    updates_per_epoch: int
    updates: int
    #: Epoch 0 is the model as it was.
    best_epoch: int
    dev_loss: float
    #: Of the kept epoch, over the first sentences of the dev set; None if it was not asked for.
    dev_bleu: float | None
    dev_bleu_sentences: int
    bleu_signature: str | None
    #: Why no further epoch was trained: epochs, patience or diverged.
    stopped: str
    seconds: float
    history: list[Epoch]

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> FinetuneResult:
        return cls(**{**values, "history": [Epoch(**epoch) for epoch in values["history"]]})


@dataclass(frozen=True)
class TrainingData:
    """Pairs to learn from and pairs to judge by, tokenised once for a model."""

    train: EncodedPairs
    dev: EncodedPairs
    dev_pairs: list[Pair]

    @classmethod
    def encoded(cls, pairs: Iterable[Pair], dev: Iterable[Pair], model: TranslationModel) -> TrainingData:
        dev_pairs = list(dev)
        # Dev first: it is the shorter one, and an empty one should not be noticed late.
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

    A model that is given loaded is changed in place. `progress` is told of updates, `on_epoch` of every epoch
    when it ends.
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
    with _memory_of(config, model):
        outcome = train(model, data.train, data.dev, config, progress, on_epoch)
        model.translation.seq2seq.follow_weights()
        seconds = time.perf_counter() - start
        judged = data.dev_pairs[: config.dev_limit]
        bleu, bleu_signature = dev_bleu(model.translation, judged) if judged else (None, None)
    result = FinetuneResult(
        version=__version__,
        model=model.translation.name,
        fingerprint=model.translation.fingerprint,
        settings=config.public_values(),
        device=_device_name(model.translation.seq2seq.device),
        precision=outcome.precision,
        pairs=len(data.train),
        target_tokens=data.train.target_tokens,
        too_long=data.train.too_long,
        dev_pairs=len(data.dev),
        dev_too_long=data.dev.too_long,
        updates_per_epoch=outcome.updates_per_epoch,
        updates=outcome.updates,
        best_epoch=outcome.best.number,
        dev_loss=outcome.best_loss,
        dev_bleu=bleu,
        dev_bleu_sentences=len(judged),
        bleu_signature=bleu_signature,
        stopped=outcome.stopped,
        seconds=round(seconds, 2),
        history=outcome.history,
    )
    with writing(folder):
        model.save(folder)
        write_json(folder / RECORD, dataclasses.asdict(result))
    return result


def dev_bleu(model: TranslationModel, pairs: list[Pair]) -> tuple[float, str]:
    """BLEU of the model alone with nearmt's own beam search, and sacrebleu's signature."""
    from sacrebleu.metrics import BLEU

    batch_size = _TRANSLATED_TOGETHER.get(model.seq2seq.device.type, _TRANSLATED_TOGETHER["cpu"])
    translations = Translator(model, method="plain", batch_size=batch_size).translate([pair.source for pair in pairs])
    bleu = BLEU()
    score = bleu.corpus_score([found.text for found in translations], [[pair.target for pair in pairs]])
    return round(score.score, 2), str(bleu.get_signature())


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder that takes its name `out` only when the block has ended well."""
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
    """Refuse a path that is taken, before any work is done."""
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise OutputError(f"{out}: exists and is not an empty folder; name a new folder")


@contextmanager
def _memory_of(config: FinetuneConfig, model: TrainableModel) -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError as error:
        device = model.translation.seq2seq.device
        raise ConfigError(
            f"batch-tokens = {config.batch_tokens}: does not fit the memory of {device}; give a smaller --batch-tokens"
        ) from error


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
