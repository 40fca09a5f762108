"""The score of settings on a dev set, which trials maximise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nearmt.contracts import Pair, Progress
from nearmt.research.tuning.record import Record, Settings
from nearmt.research.tuning.slices import Slices

#: Translates sources with settings (None: the model alone).
Translate = Callable[[Settings, Sequence[str], Progress | None], list[str]]


class DevObjective:
    """Translates slices of a dev set, each once for the same settings, and scores them."""

    def __init__(
        self,
        dev: Sequence[Pair],
        slices: Slices,
        translate: Translate,
        metric: Any,
        record: Record,
        progress: Callable[[int], None],
    ) -> None:
        """`progress` receives the number of translated sentences, including those of an earlier run."""
        self._dev, self._slices, self._translate, self._metric = dev, slices, translate, metric
        self._record, self._progress = record, progress
        self._done = 0

    def __call__(self, settings: Mapping[str, Any] | None, slice_number: int) -> float:
        """Score the dev set up to a slice; earlier slices must have been scored."""
        texts = self._record.texts(settings, slice_number)
        is_new = texts is None
        if texts is None:
            texts = self._translate_slice(settings, slice_number)
        self._done += len(texts)
        self._progress(self._done)
        earlier = [self._record.texts(settings, number) or [] for number in range(slice_number)]
        outputs = [text for part in [*earlier, texts] for text in part]
        score = self._score(outputs, slice_number)
        if is_new:
            self._record.keep(settings, slice_number, texts, sentences=len(outputs), score=score)
        return score

    def _translate_slice(self, settings: Settings, slice_number: int) -> list[str]:
        sources = [self._dev[number].source for number in self._slices.parts[slice_number]]

        def progress(done: int, of: int) -> None:
            # Overlong sentences are split into segments, so progress is scaled to the number of sentences.
            self._progress(self._done + len(sources) * done // max(1, of))

        return self._translate(settings, sources, progress)

    def _score(self, outputs: list[str], slice_number: int) -> float:
        numbers = [number for part in self._slices.parts[: slice_number + 1] for number in part]
        references = [self._dev[number].target for number in numbers]
        return round(float(self._metric.corpus_score(outputs, [references]).score), 2)
