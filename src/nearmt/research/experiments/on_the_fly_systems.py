"""Systems that translate a stream: a growing datastore, a retrained model, or the base model.

A system receives sources to translate, and pairs only after they have been translated.

OUT/streams/<domain>.<row>/store          the datastore
OUT/streams/<domain>.<row>/learned.json   its number of pairs; present only while the datastore is complete
OUT/streams/<domain>.<row>/model-N        the base model trained on the first N pairs
"""

from __future__ import annotations

import dataclasses
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearmt.contracts import Pair, Progress, Translation
from nearmt.datastore import Datastore
from nearmt.datastore.disk.files import write_json
from nearmt.errors import NearmtError, writing
from nearmt.models import ModelConfig, TrainableModel, TranslationModel, load_model, load_trainable
from nearmt.research.experiments.files import read_object
from nearmt.research.training.finetune import finetune
from nearmt.research.training.loop import FinetuneConfig
from nearmt.translator import Translator

if TYPE_CHECKING:
    from nearmt.datastore import StoreConfig
    from nearmt.decoding import BeamConfig

#: Fine-tuning holds out one of HELD_OUT_SHARE known pairs as a dev set, at most MOST_HELD_OUT.
HELD_OUT_SHARE, MOST_HELD_OUT = 20, 200


@dataclasses.dataclass(frozen=True)
class SystemParts:
    """What every system needs; `model` is the loaded base model."""

    model: TranslationModel
    config: ModelConfig
    beam: BeamConfig
    batch_size: int
    folder: Path


class System(ABC):
    """A translator that may learn."""

    def __init__(self, parts: SystemParts) -> None:
        self.parts = parts
        self.translator = self._plain(parts.model)

    def _plain(self, model: TranslationModel) -> Translator:
        return Translator(model, None, "plain", None, self.parts.beam, self.parts.batch_size)

    def translate(self, sources: Sequence[str], progress: Progress | None = None) -> list[Translation]:
        return self.translator.translate(list(sources), progress=progress)

    def prepare(self) -> None:  # noqa: B027  # optional
        """Get ready to learn, outside the timed part: for example, load the base model."""

    def commit(self, pairs: int) -> None:  # noqa: B027  # optional
        """Record, outside the timed part, that `pairs` pairs have been learned."""

    @abstractmethod
    def learn(self, known: Sequence[Pair], old: int) -> dict[str, Any]:
        """Learn `known[old:]`; `known[:old]` has been learned. Return details for the report."""

    @abstractmethod
    def restore(self, known: Sequence[Pair], ends: Sequence[int]) -> None:
        """Restore the state after calls of `learn` with `known[:end]` for each of `ends`."""


class Frozen(System):
    """The base model."""

    def learn(self, known: Sequence[Pair], old: int) -> dict[str, Any]:
        raise AssertionError("the base model learns nothing")

    def restore(self, known: Sequence[Pair], ends: Sequence[int]) -> None:
        assert not ends


class GrowingDatastore(System):
    """Retrieval from a datastore to which known pairs are added."""

    def __init__(self, parts: SystemParts, config: StoreConfig, method: str, settings: dict[str, Any]) -> None:
        super().__init__(parts)
        self._config, self._method, self._settings = config, method, settings
        self._path, self._marker = parts.folder / "store", parts.folder / "learned.json"
        self._store: Datastore | None = None

    def prepare(self) -> None:
        with writing(self._marker):
            self._marker.unlink(missing_ok=True)

    def commit(self, pairs: int) -> None:
        write_json(self._marker, {"pairs": pairs})

    def learn(self, known: Sequence[Pair], old: int) -> dict[str, Any]:
        if self._store is None:
            with writing(self._path):
                shutil.rmtree(self._path, ignore_errors=True)
            Datastore.build(self._path, known, self.parts.model)
            self._open()
        else:
            self._store.add(known[old:], self.parts.model)
            self._use(self._store)
        assert self._store is not None
        return {"pairs": len(known), "entries": len(self._store)}

    def restore(self, known: Sequence[Pair], ends: Sequence[int]) -> None:
        if not ends:
            return
        if (read_object(self._marker) or {}).get("pairs") == ends[-1]:
            try:
                self._open()
            except NearmtError:
                self._store = None
            else:
                return
        # Learning was interrupted, or the datastore is gone: repeat all learning steps.
        for old, end in zip([0, *ends], ends, strict=False):
            self.prepare()
            self.learn(known[:end], old)
            self.commit(end)

    def _open(self) -> None:
        device = self._config.store_device or "model"
        device = str(self.parts.model.seq2seq.device) if device == "model" else device
        self._use(Datastore.open(self._path, nominate=self._config.nominate, device=device))

    def _use(self, store: Datastore) -> None:
        """Make a translator; default settings follow the store's calibration, which changes as it grows."""
        parts, self._store = self.parts, store
        self.translator = Translator(parts.model, store, self._method, self._settings, parts.beam, parts.batch_size)


class Retrained(System):
    """The base model, fine-tuned from scratch on all known pairs each time."""

    def __init__(self, parts: SystemParts, config: FinetuneConfig) -> None:
        super().__init__(parts)
        self._config = config
        self._base = dataclasses.replace(parts.config, precision="fp32")
        self._fresh: TrainableModel | None = None

    def prepare(self) -> None:
        self._fresh = load_trainable(self._base)

    def commit(self, pairs: int) -> None:
        for path in self.parts.folder.glob("model-*"):
            if path != self._path(pairs):
                shutil.rmtree(path, ignore_errors=True)

    def learn(self, known: Sequence[Pair], old: int) -> dict[str, Any]:
        if not known:
            return {}
        assert self._fresh is not None, "call prepare first"
        path, model, self._fresh = self._path(len(known)), self._fresh, None
        with writing(path):
            shutil.rmtree(path, ignore_errors=True)
        train, dev = held_out(known)
        result = finetune(model, train, dev, path, self._config)
        self._load(path)
        names = ("pairs", "dev_pairs", "updates", "best_epoch", "dev_loss", "stopped", "precision")
        return {name: getattr(result, name) for name in names}

    def restore(self, known: Sequence[Pair], ends: Sequence[int]) -> None:
        if not ends or not ends[-1]:
            return
        path = self._path(ends[-1])
        if path.is_dir():
            self._load(path)
        else:
            self.prepare()
            self.learn(known[: ends[-1]], 0)

    def _load(self, path: Path) -> None:
        self.translator = self._plain(load_model(dataclasses.replace(self.parts.config, model=str(path))))

    def _path(self, pairs: int) -> Path:
        return self.parts.folder / f"model-{pairs}"


def held_out(known: Sequence[Pair]) -> tuple[list[Pair], list[Pair]]:
    """Split pairs into a training set and an evenly spread dev set; a single pair serves as both."""
    count = min(MOST_HELD_OUT, max(1, len(known) // HELD_OUT_SHARE))
    if len(known) <= count:
        return list(known), list(known)
    dev = {number * len(known) // count for number in range(count)}
    train = [pair for index, pair in enumerate(known) if index not in dev]
    return train, [known[index] for index in sorted(dev)]
