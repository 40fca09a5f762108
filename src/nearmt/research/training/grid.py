"""The paper's grid of fine-tunings: every point trained, the best on the dev set kept.

Points are recorded in the folder `OUT.grid`, one file each, written when the point is finished: a grid that was
interrupted goes on behind its last point, and several processes can share the work. Of the weights only the best
of each process stay on disk, and of those only the best of all become the model folder `OUT`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from nearmt.config import Config, option
from nearmt.contracts import Pair, Progress
from nearmt.datastore.disk.files import write_json
from nearmt.errors import ConfigError, writing
from nearmt.models import ModelConfig, load_model, load_trainable
from nearmt.research.training.finetune import FinetuneResult, TrainingData, check_free, new_folder, train_into
from nearmt.research.training.loop import FinetuneConfig
from nearmt.research.training.schedules import SCHEDULES

#: The rates of the paper's grid.
PAPER_RATES = (5e-6, 1e-5, 5e-5, 1e-4)
GRIDS = ("paper",)
SELECTIONS = ("bleu", "loss")

OnPoint = Callable[[FinetuneResult], None]


@dataclass(frozen=True)
class GridConfig(Config):
    """Which fine-tunings are tried."""

    grid: str | None = option(None, "try several settings: the paper's 16 of rate, schedule and warm-up", choices=GRIDS)
    select: str = option("bleu", "what the best of a grid is best in, on the dev set", choices=SELECTIONS)
    shard: str | None = option(None, "train only part I of N of the grid, as I/N; the last call goes without it")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shard is not None:
            self.part()

    def part(self) -> tuple[int, int]:
        """(I, N) of the shard."""
        found = re.fullmatch(r"(\d+)/(\d+)", "1/1" if self.shard is None else self.shard, re.ASCII)
        part, parts = (int(number) for number in found.groups()) if found else (0, 0)
        if not 1 <= part <= parts:
            raise ConfigError(f"shard = {self.shard!r}: must be I/N with I from 1 to N, such as 1/4")
        return part, parts


@dataclass(frozen=True)
class GridResult:
    """All points that are finished, in the order of the grid, and the best one once all are."""

    points: list[FinetuneResult]
    total: int
    best: FinetuneResult | None


def paper_grid(config: FinetuneConfig) -> list[FinetuneConfig]:
    """The paper's 16 points: four rates, two schedules, with and without warm-up."""
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
    """Train the points that are not finished yet; without a shard, write the best as the model folder `out`."""
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
        part, parts = self._config.part()
        mine = range(part - 1, len(self._points), parts)
        for place, number in enumerate(mine):
            if self._finished(number) is None:
                result = self._train(number, _share(progress, place, len(mine)))
                self._drop_losers(mine)
                if on_point:
                    on_point(result)
        best = None if self._config.shard else self._put_best_in_place(progress)
        found = (self._finished(number) for number in range(len(self._points)))
        return GridResult([result for result in found if result], len(self._points), best)

    def _train(self, number: int, progress: Progress | None) -> FinetuneResult:
        """One point: its weights first, its record last, so that a record means a finished point."""
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
            return None  # not ours, or damaged: the point is trained again
        if key != self._key(number):
            raise ConfigError(
                f"{self._folder}: has points of another model, other pairs or other settings; "
                "remove it or give another --out"
            )
        return result

    def _drop_losers(self, numbers: Iterable[int]) -> None:
        """Keep the weights of the best of these points only."""
        finished = {number: result for number in numbers if (result := self._finished(number))}
        best = min(finished, key=lambda number: self._rank(finished[number]))
        for number in finished:
            if number != best:
                shutil.rmtree(self._weights(number), ignore_errors=True)

    def _put_best_in_place(self, progress: Progress | None) -> FinetuneResult:
        everything = range(len(self._points))
        results = [result for number in everything if (result := self._finished(number))]
        best = min(everything, key=lambda number: self._rank(results[number]))
        weights = self._weights(best)
        if not weights.is_dir():  # they lost by another measure in an earlier call, or were moved
            results[best] = self._train(best, progress)
        write_json(weights / "grid.json", [dataclasses.asdict(result) for result in results])
        with writing(self._out):
            weights.rename(self._out)
        self._drop_weights(everything)
        return results[best]

    def _drop_weights(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            shutil.rmtree(self._weights(number), ignore_errors=True)

    def _rank(self, result: FinetuneResult) -> tuple[float, float]:
        """Lowest is best; equal BLEU is decided by the loss."""
        bleu = result.dev_bleu if self._config.select == "bleu" else None
        return -(bleu or 0.0), result.dev_loss

    def _key(self, number: int) -> str:
        """Names everything that can change a point's result."""
        text = f"{self._identity} {self._points[number].signature()}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _weights(self, number: int) -> Path:
        point = self._points[number]
        warmup = "warmup" if point.warmup else "no-warmup"
        return self._folder / f"{number + 1:02d}-{point.learning_rate:g}-{point.schedule}-{warmup}"

    def _record(self, number: int) -> Path:
        weights = self._weights(number)
        return weights.with_name(weights.name + ".json")


def _share(progress: Progress | None, place: int, parts: int) -> Progress | None:
    """Progress of one point as progress of all, each counted with its full number of updates."""
    return (lambda done, of: progress(place * of + done, parts * of)) if progress else None
