"""The paper's grid of fine-tuning settings: every point is trained, and the best on the dev set is kept.

Each finished point is recorded in a file of the folder `OUT.grid`, so an interrupted grid resumes after its last
point, and several processes can share the work. Each process keeps only its best weights on disk; the best of all
become the model folder `OUT`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from nearmt.config import Config, option
from nearmt.config.shard import Shard
from nearmt.contracts import Pair, Progress
from nearmt.datastore.disk.files import write_json
from nearmt.errors import ConfigError, writing
from nearmt.models import ModelConfig, load_model, load_trainable
from nearmt.research.training.finetune import FinetuneResult, TrainingData, check_free, new_folder, train_into
from nearmt.research.training.loop import FinetuneConfig
from nearmt.research.training.schedules import SCHEDULES

#: The learning rates of the paper's grid.
PAPER_RATES = (5e-6, 1e-5, 5e-5, 1e-4)
GRIDS = ("paper",)
SELECTIONS = ("bleu", "loss")

OnPoint = Callable[[FinetuneResult], None]


@dataclass(frozen=True)
class GridConfig(Config):
    """The grid of fine-tuning settings."""

    grid: str | None = option(None, "train with each of the paper's 16 settings and keep the best", choices=GRIDS)
    select: str = option("bleu", "criterion on the dev set that selects the best of a grid", choices=SELECTIONS)
    shard: str | None = option(None, "train only part I of N of the grid, as I/N; omit it in the last call")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shard is not None:
            Shard.parse(self.shard)

    def part(self) -> Shard:
        """The points to train: all of them without a shard."""
        return Shard(1, 1) if self.shard is None else Shard.parse(self.shard)


@dataclass(frozen=True)
class GridResult:
    """The finished points in grid order; the best one, once all are finished."""

    points: list[FinetuneResult]
    total: int
    best: FinetuneResult | None


def paper_grid(config: FinetuneConfig) -> list[FinetuneConfig]:
    """Return the paper's 16 points: four learning rates, two schedules, with and without warm-up."""
    return [
        dataclasses.replace(config, learning_rate=rate, schedule=schedule, warmup=warmup)
        for rate in PAPER_RATES
        for schedule in SCHEDULES
        for warmup in (False, True)
    ]


def finetune_grid(
    model: ModelConfig,
    pairs: Iterable[Pair],
    dev: Iterable[Pair],
    out: Path,
    config: FinetuneConfig,
    grid: GridConfig,
    *,
    progress: Progress | None = None,
    on_point: OnPoint | None = None,
) -> GridResult:
    """Train the unfinished points; without a shard, write the best as the model folder `out`."""
    if grid.select == "bleu" and not config.dev_limit:
        raise ConfigError("dev-limit = 0: the grid selects by BLEU; translate some dev sentences or give --select loss")
    check_free(out)
    return _Grid(model, pairs, dev, out, paper_grid(config), grid).run(progress, on_point)


class _Grid:
    def __init__(
        self,
        model: ModelConfig,
        pairs: Iterable[Pair],
        dev: Iterable[Pair],
        out: Path,
        points: list[FinetuneConfig],
        config: GridConfig,
    ) -> None:
        self._model, self._out, self._points, self._config = model, out, points, config
        base = load_model(dataclasses.replace(model, precision="fp32"))
        self._data = TrainingData.encoded(pairs, dev, base)
        self._identity = f"{base.fingerprint} {self._data.train.digest()} {self._data.dev.digest()}"
        self._folder = out.with_name(out.name + ".grid")
        with writing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)

    def run(self, progress: Progress | None, on_point: OnPoint | None) -> GridResult:
        part = self._config.part()
        numbers = range(part.number - 1, len(self._points), part.count)
        for done, number in enumerate(numbers):
            if self._finished(number) is None:
                result = self._train(number, _share(progress, done, len(numbers)))
                self._keep_best_weights(numbers)
                if on_point:
                    on_point(result)
        best = None if self._config.shard else self._publish_best(progress)
        found = (self._finished(number) for number in range(len(self._points)))
        return GridResult([result for result in found if result], len(self._points), best)

    def _train(self, number: int, progress: Progress | None) -> FinetuneResult:
        """Train a point; write its weights, then its record, so that a record marks a finished point."""
        weights, record = self._weights(number), self._record(number)
        shutil.rmtree(weights, ignore_errors=True)
        with new_folder(weights) as folder:
            result = train_into(folder, load_trainable(self._model), self._data, self._points[number], progress)
        write_json(record, {"key": self._key(number), "result": dataclasses.asdict(result)})
        return result

    def _finished(self, number: int) -> FinetuneResult | None:
        record = self._record(number)
        if not record.exists():
            return None
        try:
            stored = json.loads(record.read_text(encoding="utf-8"))
            key, result = stored["key"], FinetuneResult.from_dict(stored["result"])
        except (ValueError, KeyError, TypeError):
            return None  # damaged: the point is trained again
        if key != self._key(number):
            raise ConfigError(
                f"{self._folder}: has points of another model, other pairs or other settings; "
                "remove it or give another --out"
            )
        return result

    def _keep_best_weights(self, numbers: Iterable[int]) -> None:
        """Delete the weights of all but the best of these points."""
        finished = {number: result for number in numbers if (result := self._finished(number))}
        best = min(finished, key=lambda number: self._rank(finished[number]))
        for number in finished:
            if number != best:
                shutil.rmtree(self._weights(number), ignore_errors=True)

    def _publish_best(self, progress: Progress | None) -> FinetuneResult:
        """Rename the best weights to the model folder and delete the others."""
        numbers = range(len(self._points))
        results = [result for number in numbers if (result := self._finished(number))]
        best = min(numbers, key=lambda number: self._rank(results[number]))
        weights = self._weights(best)
        if not weights.is_dir():  # deleted in an earlier call with another criterion, or moved
            results[best] = self._train(best, progress)
        write_json(weights / "grid.json", [dataclasses.asdict(result) for result in results])
        with writing(self._out):
            weights.rename(self._out)
        for number in numbers:
            shutil.rmtree(self._weights(number), ignore_errors=True)
        return results[best]

    def _rank(self, result: FinetuneResult) -> tuple[float, float]:
        """Return a sort key, lowest first: BLEU if selected, then the loss."""
        bleu = result.dev_bleu if self._config.select == "bleu" else None
        return -(bleu or 0.0), result.dev_loss

    def _key(self, number: int) -> str:
        """Identify everything that can change a point's result."""
        text = f"{self._identity} {self._points[number].signature()}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _weights(self, number: int) -> Path:
        point = self._points[number]
        warmup = "warmup" if point.warmup else "no-warmup"
        return self._folder / f"{number + 1:02d}-{point.learning_rate:g}-{point.schedule}-{warmup}"

    def _record(self, number: int) -> Path:
        weights = self._weights(number)
        return weights.with_name(weights.name + ".json")


def _share(progress: Progress | None, finished: int, points: int) -> Progress | None:
    """Scale the progress of one point to that of all points."""
    return (lambda done, of: progress(finished * of + done, points * of)) if progress else None
