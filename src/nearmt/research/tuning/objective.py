"""The score of settings on a dev set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nearmt.config.tuning import METRICS
from nearmt.contracts import Pair, Progress
from nearmt.errors import ConfigError
from nearmt.research.tuning.record import Record, Settings
from nearmt.research.tuning.slices import Slices

#: Settings (None: the model alone) and sources in, translations out.
Translate = Callable[[Settings, Sequence[str], Progress | None], list[str]]


def make_metric(name: str) -> Any:
    """sacrebleu's metric, as `evaluate` uses it."""
    from sacrebleu.metrics import BLEU, CHRF

    if name not in METRICS:
        raise ConfigError(f"metric = {name!r}: must be one of {', '.join(METRICS)}")
    return BLEU() if name == "bleu" else CHRF()


class DevObjective:
    """Translates the slices of a dev set, each once for the same settings, and scores them."""

    def __init__(
        self,
        dev: Sequence[Pair],
        slices: Slices,
        translate: Translate,
        metric: Any,
        record: Record,
        progress: Callable[[int], None],
    ) -> None:
        """`progress` is told how many sentences have been translated, those of an earlier run included."""
        self._dev, self._slices, self._translate, self._metric = dev, slices, translate, metric
        self._record, self._progress = record, progress
        self._done = 0

    def __call__(self, settings: Mapping[str, Any] | None, slice_number: int) -> float:
        """The score up to a slice; slices are asked for in their order."""
        texts = self._record.texts(settings, slice_number)
        fresh = texts is None
        if texts is None:
            texts = self._translated(settings, slice_number)
        self._done += len(texts)
        self._progress(self._done)
        earlier = [self._record.texts(settings, number) or [] for number in range(slice_number)]
        outputs = [text for part in [*earlier, texts] for text in part]
        score = self._score(outputs, slice_number)
        if fresh:
            self._record.keep(settings, slice_number, texts, sentences=len(outputs), score=score)
        return score

    def _translated(self, settings: Settings, slice_number: int) -> list[str]:
        sources = [self._dev[number].source for number in self._slices.parts[slice_number]]

        def progress(done: int, of: int) -> None:
            # Long sentences are several pieces.
            self._progress(self._done + len(sources) * done // max(1, of))

        return self._translate(settings, sources, progress)

    def _score(self, outputs: list[str], slice_number: int) -> float:
        numbers = [number for part in self._slices.parts[: slice_number + 1] for number in part]
        references = [self._dev[number].target for number in numbers]
        return round(float(self._metric.corpus_score(outputs, [references]).score), 2)
