"""Tuning: choose the settings of a method by trials on a dev set."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nearmt.config import Config
from nearmt.config.tuning import TuneConfig
from nearmt.contracts import Pair, Progress
from nearmt.datastore import LiveStore
from nearmt.decoding import BeamConfig
from nearmt.errors import ConfigError, InputError
from nearmt.methods import make_method
from nearmt.models import TranslationModel
from nearmt.research.evaluation.metrics import make_metric
from nearmt.research.tuning.holdout import hold_out
from nearmt.research.tuning.memo import with_memo
from nearmt.research.tuning.objective import DevObjective
from nearmt.research.tuning.record import Record, Settings
from nearmt.research.tuning.result import Tuned
from nearmt.research.tuning.slices import SMALLEST, Slices, make_slices
from nearmt.research.tuning.space import Point, Value, make_axes, names_to_tune, significant
from nearmt.research.tuning.trials import Study, run_trials
from nearmt.translator import Translator


def tune(
    model: TranslationModel,
    datastore: LiveStore,
    method: str = "chunk",
    dev: Sequence[Pair] | None = None,
    config: TuneConfig | None = None,
    settings: Mapping[str, Any] | None = None,
    record: Path | None = None,
    progress: Progress | None = None,
    batch_size: int = 8,
    beam: BeamConfig | None = None,
    *,
    overwrite: bool = False,
    smallest_slice: int = SMALLEST,
) -> Tuned:
    """Find the best settings of a method on a dev set, or on pairs held out of the datastore.

    `settings` are fixed. With `record`, every trial is kept on disk, and an interrupted run resumes from there.
    """
    config = config or TuneConfig()
    held_out = dev is None
    if dev is None:
        datastore, dev = hold_out(datastore, config.held_out)
    if not dev:
        raise InputError("the dev set has no pairs: nothing to tune on")
    tuner = _Tuner(model, datastore, method, dict(settings or {}), beam or BeamConfig(), batch_size)
    axes = make_axes(tuner.names(config), config.ranges, datastore.snapshot(), tuner.defaults())
    slices = make_slices(len(dev), batch_size if tuner.shares_batch else 1, smallest_slice)
    metric = make_metric(config.metric)
    total = (config.budget + 1 + config.base) * len(dev)
    with Record(tuner.signature(dev, slices), record, overwrite=overwrite) as trials:
        objective = DevObjective(dev, slices, tuner.translate, metric, trials, _reporting(progress, total))
        names = [axis.name for axis in axes]
        study = Study(objective, axes, config.budget, slices.shares, lambda point: tuner.complete(point, names))
        best = run_trials(config.strategy, study, config.ranges == "store", config.margin)
        base_score = _base_score(objective, study.last) if config.base else None
    facts = {"base_score": base_score, "sentences": len(dev), "held_out": held_out}
    return _result(tuner, config.metric, str(metric.get_signature()), study, best, **facts)


def _result(tuner: _Tuner, metric: str, metric_signature: str, study: Study, best: Point, **facts: Any) -> Tuned:
    return Tuned(
        method=tuner.method,
        settings={**tuner.fixed, **best},
        metric=metric,
        score=study.score(best, study.last),
        default_score=study.score({}, study.last),
        spent=study.spent,
        signature=tuner.translator(best).signature(),
        metric_signature=metric_signature,
        trials=tuple(study.trials),
        **facts,
    )


def _base_score(objective: DevObjective, last: int) -> float:
    return [objective(None, number) for number in range(last + 1)][-1]


def _reporting(progress: Progress | None, total: int) -> Callable[[int], None]:
    def report(done: int) -> None:
        if progress:
            progress(done, max(done, total))

    return report


def _rounded(value: Value) -> Value:
    return significant(value) if isinstance(value, float) else value


class _Tuner:
    """Makes translators of one method with different settings; model, datastore and beam are fixed."""

    def __init__(
        self,
        model: TranslationModel,
        datastore: LiveStore,
        method: str,
        fixed: dict[str, Any],
        beam: BeamConfig,
        batch_size: int,
    ) -> None:
        self._model, self._datastore, self.method = with_memo(model), datastore, method
        self.fixed, self._beam, self._batch_size = fixed, beam, batch_size
        self._complete: dict[tuple[object, ...], Point] = {}
        self.shares_batch = self.translator({}).method.shares_batch

    def translator(self, settings: Settings) -> Translator:
        if settings is None:
            return Translator(self._model, None, "plain", None, self._beam, self._batch_size)
        chosen = {**self.fixed, **settings}
        return Translator(self._model, self._datastore, self.method, chosen, self._beam, self._batch_size)

    def translate(self, settings: Settings, sources: Sequence[str], progress: Progress | None) -> list[str]:
        return [found.text for found in self.translator(settings).translate(sources, progress=progress)]

    def defaults(self, point: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return all settings of the method; those that are not given are calibrated from the datastore."""
        config = getattr(make_method(self.method, self._datastore, {**self.fixed, **(point or {})}), "config", None)
        if not isinstance(config, Config):
            raise ConfigError(f"method '{self.method}' has nothing to tune; use one that retrieves")
        return config.public_values()

    def complete(self, point: Point, names: Sequence[str]) -> Point:
        """Fill in the tuned settings that a point lacks, some of which depend on others."""
        key = (*sorted(point.items()), *names)
        if key not in self._complete:
            values = point if all(name in point for name in names) else self.defaults(point)
            self._complete[key] = {name: _rounded(values[name]) for name in names}
        return self._complete[key]

    def names(self, config: TuneConfig) -> list[str]:
        return names_to_tune(config.tune, self.defaults(), self.fixed, config.ranges)

    def signature(self, dev: Sequence[Pair], slices: Slices) -> str:
        """Identify everything but the tuned settings that a translation of a slice depends on."""
        digest = hashlib.sha256()
        for pair in dev:
            digest.update(f"{pair.source}\0{pair.target}\0".encode())
        counts = "-".join(map(str, slices.counts))
        return f"{self.translator({}).signature()}|dev:{digest.hexdigest()[:16]}|slices:{counts}"
