"""What `nearmt build` does: read ahead, then build all of a corpus or one part of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from nearmt.cli.console import Teller, counted, progress_bar
from nearmt.cli.given import pick
from nearmt.cli.reading import check_not_empty, read_ahead
from nearmt.config.building import BuildConfig
from nearmt.config.model import ModelConfig
from nearmt.config.ray import RayConfig
from nearmt.config.shard import Shard
from nearmt.corpus import CleaningConfig, LabelsConfig, LimitsConfig, PairStream, Report, Request
from nearmt.datastore.disk import Manifest
from nearmt.datastore.edit.build import build
from nearmt.datastore.edit.ray_build import build_with_ray, import_ray
from nearmt.datastore.edit.shards import Corpus, build_shard
from nearmt.models import TranslationModel

_PURPOSE = "build from"


#: Of the source and the target, as far as they are known.
Languages = tuple[str | None, str | None]


@dataclass(frozen=True)
class Reading:
    """Which pairs a command reads: files, settings, limit."""

    files: list[Path]
    settings: Mapping[str, Any]
    unconfirmed: bool
    limit: int | None
    strict: bool

    def __post_init__(self) -> None:
        self.of((None, None))  # settings are refused before files are looked at

    def of(self, languages: Languages) -> Callable[[], PairStream]:
        """A reader of the pairs, which can be sent to other processes."""
        limits, labels = pick(LimitsConfig, self.settings), pick(LabelsConfig, self.settings)
        request, cleaning = Request(*languages, self.unconfirmed, limits, labels), pick(CleaningConfig, self.settings)
        return partial(PairStream, self.files, request, cleaning, limit=self.limit, strict=self.strict)


class BuildRun(Protocol):
    """A build whose input was looked at: files that cannot be read are refused before a model is loaded."""

    #: What was read so far.
    report: Report

    def build(self, out: Path, model: TranslationModel, config: BuildConfig, overwrite: bool) -> Manifest: ...


class WholeRun:
    """Builds from all pairs; the first of them are read ahead."""

    def __init__(self, pairs: PairStream) -> None:
        self.report, self._cleaning = pairs.report, pairs.signature
        self._pairs, self._total = read_ahead(pairs, _PURPOSE)

    def build(self, out: Path, model: TranslationModel, config: BuildConfig, overwrite: bool) -> Manifest:
        with progress_bar("pairs", self._total) as progress:
            return build(
                out,
                self._pairs,
                model,
                config,
                overwrite=overwrite,
                cleaning=self._cleaning,
                progress=progress,
                tell=Teller(),
            )


class _MeasuredRun:
    """Builds from a corpus that is read ahead to its end."""

    def __init__(self, read: Callable[[], PairStream]) -> None:
        pairs = read()
        with progress_bar("reading") as progress:
            self._corpus = Corpus.of(counted(pairs, progress))
        check_not_empty(pairs.report, _PURPOSE)
        self.report, self._cleaning, self._read = pairs.report, pairs.signature, read


class ShardRun(_MeasuredRun):
    """Builds one part of a corpus."""

    def __init__(self, read: Callable[[], PairStream], shard: Shard) -> None:
        super().__init__(read)
        self._shard = shard

    def build(self, out: Path, model: TranslationModel, config: BuildConfig, overwrite: bool) -> Manifest:
        with progress_bar("pairs") as progress:
            return build_shard(
                out,
                self._read,
                model,
                self._shard,
                config,
                corpus=self._corpus,
                overwrite=overwrite,
                cleaning=self._cleaning,
                progress=progress,
            )


class RayRun(_MeasuredRun):
    """Builds all parts of a corpus on a Ray cluster."""

    def __init__(self, read: Callable[[], PairStream], model: ModelConfig, config: RayConfig) -> None:
        import_ray()
        super().__init__(read)
        self._model, self._config = model, config

    def build(self, out: Path, model: TranslationModel, config: BuildConfig, overwrite: bool) -> Manifest:
        with progress_bar("pairs", self._corpus.pairs) as progress:
            return build_with_ray(
                out,
                self._read,
                model,
                self._model,
                config,
                self._config,
                corpus=self._corpus,
                overwrite=overwrite,
                cleaning=self._cleaning,
                progress=progress,
            )
