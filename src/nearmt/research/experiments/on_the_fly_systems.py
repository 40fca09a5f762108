"""Systems that learn while they translate: a memory that grows, a model that is trained anew, or neither.

A system is told sources to translate, and pairs once they may be known; it sees no others.

OUT/streams/<domain>.<row>/store     the memory, with `learned.json` beside it while it is whole
OUT/streams/<domain>.<row>/model-N   the base model trained on the first N pairs
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
from nearmt.research.experiments.artefacts import read_object
from nearmt.research.training.finetune import finetune
from nearmt.research.training.loop import FinetuneConfig
from nearmt.translator import Translator

if TYPE_CHECKING:
    from nearmt.datastore import StoreConfig
    from nearmt.decoding import BeamConfig

#: Of the pairs known, the training code wants some to stop by: one in so many, and no more than that.
HELD_OUT_SHARE, MOST_HELD_OUT = 20, 200


@dataclasses.dataclass(frozen=True)
class Parts:
    """What every system is made of; the base model is loaded."""

    model: TranslationModel
    config: ModelConfig
    search: BeamConfig
    batch_size: int
    folder: Path


class System(ABC):
    """A translator, and how it changes."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.translator = self._plain(parts.model)

    def _plain(self, model: TranslationModel) -> Translator:
        return Translator(model, None, "plain", None, self.parts.search, self.parts.batch_size)

    def translate(self, sources: Sequence[str], progress: Progress | None = None) -> list[Translation]:
        return self.translator.translate(list(sources), progress=progress)

    def prepare(self) -> None:  # noqa: B027  # some have nothing to prepare
        """Before learning, and no part of it: the base model is loaded, say."""

    def settle(self, pairs: int) -> None:  # noqa: B027  # or to keep
        """After so many pairs are learned, and no part of it: note that this is so."""

    @abstractmethod
    def learn(self, known: Sequence[Pair], old: int) -> dict[str, Any]:
        """Learn `known[old:]`, the rest being learned already; what there is to say of it."""

    @abstractmethod
    def restore(self, known: Sequence[Pair], ends: Sequence[int]) -> None:
        """Be as after `learn` was called for the first so many pairs, again and again."""


class Frozen(System):
    """The base model."""

    def learn(self, known: Sequence[Pair], old: int) -> dict[str, Any]:
        raise AssertionError("the base model learns nothing")

    def restore(self, known: Sequence[Pair], ends: Sequence[int]) -> None:
        assert not ends


class Remembering(System):
    """A memory that what is known is added to."""

    def __init__(self, parts: Parts, how: StoreConfig, method: str, settings: dict[str, Any]) -> None:
        super().__init__(parts)
        self._how, self._method, self._settings = how, method, settings
        self._path, self._whole = parts.folder / "store", parts.folder / "learned.json"
        self._store: Datastore | None = None

    def prepare(self) -> None:
        with writing(self._whole):
            self._whole.unlink(missing_ok=True)

    def settle(self, pairs: int) -> None:
        write_json(self._whole, {"pairs": pairs})

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
        if (read_object(self._whole) or {}).get("pairs") == ends[-1]:
            try:
                self._open()
            except NearmtError:
                self._store = None
            else:
                return
        # Stopped amid learning, or not there: everything is learned again, as it was the first time.
        for old, end in zip([0, *ends], ends, strict=False):
            self.prepare()
            self.learn(known[:end], old)
            self.settle(end)

    def _open(self) -> None:
        device = self._how.store_device or "model"
        place = str(self.parts.model.seq2seq.device) if device == "model" else device
        self._use(Datastore.open(self._path, search=self._how.nominate, device=place))

    def _use(self, store: Datastore) -> None:
        """Defaults come from what the store knows of itself, which changes as it grows."""
        parts, self._store = self.parts, store
        self.translator = Translator(parts.model, store, self._method, self._settings, parts.search, parts.batch_size)


class Trained(System):
    """The base model, trained each time anew on all that is known."""

    def __init__(self, parts: Parts, how: FinetuneConfig) -> None:
        super().__init__(parts)
        self._how = how
        self._base = dataclasses.replace(parts.config, precision="fp32")
        self._fresh: TrainableModel | None = None

    def prepare(self) -> None:
        self._fresh = load_trainable(self._base)

    def settle(self, pairs: int) -> None:
        for path in self.parts.folder.glob("model-*"):
            if path != self._path(pairs):
                shutil.rmtree(path, ignore_errors=True)

    def learn(self, known: Sequence[Pair], old: int) -> dict[str, Any]:
        if not known:
            return {}
        assert self._fresh is not None, "prepare first"
        path, model, self._fresh = self._path(len(known)), self._fresh, None
        with writing(path):
            shutil.rmtree(path, ignore_errors=True)
        train, dev = held_out(known)
        result = finetune(model, train, dev, path, self._how)
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
    """Pairs to train on, and a few from all over to choose the epoch by; a single pair is both."""
    count = min(MOST_HELD_OUT, max(1, len(known) // HELD_OUT_SHARE))
    if len(known) <= count:
        return list(known), list(known)
    places = {number * len(known) // count for number in range(count)}
    train = [pair for place, pair in enumerate(known) if place not in places]
    return train, [known[place] for place in sorted(places)]
