"""The datastore as methods and users see it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor

from nearmt.config import Config, option
from nearmt.contracts import Neighbours, Pair, Progress
from nearmt.corpus import Match
from nearmt.datastore import Manifest, Segment, SegmentWriter
from nearmt.datastore.files import writer_lock
from nearmt.datastore.ids import with_ids
from nearmt.errors import ConfigError, DatastoreError
from nearmt.models import TranslationModel
from nearmt.reduction import Reduction
from nearmt.store.build import BuildConfig, build, build_settings, update, write_pairs
from nearmt.store.entries import Entries
from nearmt.store.indexing import SEARCHES, index_segment, open_index
from nearmt.store.matches import SourceLookup
from nearmt.store.search import Searcher
from nearmt.store.similar import SimilarSources
from nearmt.timing import timed

#: A sentence that reaches no more than this share of the usual familiarity is none of the store's business.
STRANGE = 0.8
#: A source with this share of the score of the same source is as good as the same: one that is there is not strange.
SAME = 0.99


@dataclass(frozen=True)
class StoreConfig(Config):
    """How a datastore is searched."""

    search: str = option("auto", "which index nominates neighbours", choices=SEARCHES)
    search_device: str | None = option(None, "where the keys are searched (default: where the model runs)")


class Datastore:
    """A translation memory as decoder states: build or open it, add to it, search it."""

    def __init__(self, path: Path, manifest: Manifest, search: str, device: torch.device) -> None:
        self.path, self.manifest, self.device = path, manifest, device
        self._search = search
        self._reduction = Reduction.load(path / manifest.reduction_name).to(device)
        self._open_segments()

    def _open_segments(self) -> None:
        columns = self.manifest.columns
        self._segments = [Segment(self.path / r.name, r, columns) for r in self.manifest.segments]
        self._entries = Entries(self._segments, self.device)
        keys = self._entries.keys_by_segment
        indexes = [open_index(s, key, self._search) for s, key in zip(self._segments, keys, strict=True)]
        self._searcher = Searcher(self._entries, indexes, columns)
        # Made when somebody asks.
        self._lookup: SourceLookup | None = None
        self._similar: SimilarSources | None = None

    @classmethod
    def open(cls, path: str | Path, *, search: str = "auto", device: str = "cpu", verify: bool | None = None) -> Self:
        """Open a finished datastore; its files are checked, byte by byte unless they are large (or `verify`)."""
        StoreConfig(search=search)
        path = Path(path)
        with timed("store/open"):
            manifest = Manifest.load(path)
            manifest.check_files(path, thorough=verify)
            return cls(path, manifest, search, torch.device(device))

    @classmethod
    def build(
        cls,
        path: str | Path,
        pairs: Iterable[Pair],
        model: TranslationModel,
        config: BuildConfig | None = None,
        *,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> Self:
        """Encode pairs with a model and write them as a datastore. An empty iterable makes an empty store."""
        build(
            Path(path),
            pairs,
            model,
            config or BuildConfig(),
            overwrite=overwrite,
            allow_empty=True,
            progress=progress,
        )
        return cls.open(path, device=str(model.seq2seq.device))

    def add(self, pairs: Iterable[Pair], model: TranslationModel, progress: Progress | None = None) -> int:
        """Append pairs as a new segment and return how many; they are found by every search that follows."""
        with writer_lock(self.path):
            return self._add(pairs, model, progress)

    def _add(self, pairs: Iterable[Pair], model: TranslationModel, progress: Progress | None) -> int:
        self._catch_up()
        self.check_model(model)
        number = 1 + max((int(r.name.split("-")[1]) for r in self.manifest.segments), default=0)
        reduction = self._reduction.to(torch.device("cpu"))
        writer = SegmentWriter(self.path / f"segment-{number:06d}", build_settings(model, reduction))
        seen = _occurrences(self.pairs())
        write_pairs(writer, with_ids(pairs, seen), model, reduction, progress)
        if not writer.pairs:
            shutil.rmtree(writer.folder)
            return 0
        record = index_segment(self.path, writer.seal(), reduction.columns, "auto")
        # The weight is measured once there is enough to measure; single additions do not change it much.
        known = self.manifest.calibration.likely_weight is not None
        records = [*self.manifest.segments, record]
        self.manifest = update(self.path, self.manifest, reduction, records, None if known else model)
        self._open_segments()
        return record.pairs

    def _catch_up(self) -> None:
        """See what others have done to the store since it was opened."""
        manifest = Manifest.load(self.path)
        if manifest != self.manifest:
            self.manifest = manifest
            self._reduction = Reduction.load(self.path / manifest.reduction_name).to(self.device)
            self._open_segments()

    def check_model(self, model: TranslationModel) -> None:
        """Refuse a model whose states are not those of this store, naming both."""
        mine, store = self.manifest, f"{self.path}"
        if model.fingerprint != mine.fingerprint:
            raise DatastoreError(
                f"{store}: built with model '{mine.model}' ({mine.fingerprint}), not with '{model.name}' "
                f"({model.fingerprint}); use --model {mine.model} or build the store again"
            )
        if model.language_pair != (mine.source_lang, mine.target_lang):
            raise DatastoreError(
                f"{store}: translates {mine.source_lang} to {mine.target_lang}, "
                f"the model {model.language_pair[0]} to {model.language_pair[1]}"
            )
        if model.key_layer != mine.key_layer:
            raise DatastoreError(
                f"{store}: has keys of layer '{mine.key_layer}', the model gives '{model.key_layer}'; "
                f"use --key-layer {mine.key_layer}"
            )

    def __len__(self) -> int:
        """Entries: one for every target token, end of sentence included."""
        return len(self._entries)

    def pairs(self) -> Iterator[Pair]:
        """All pairs, in corpus order."""
        for segment in self._segments:
            yield from segment.pairs()

    def pair_lengths(self) -> Tensor:
        """How many entries each pair has, [P], in corpus order."""
        zero = torch.zeros(1, dtype=torch.long)
        lengths = [torch.diff(torch.from_numpy(segment.end_P), prepend=zero) for segment in self._segments]
        return torch.cat([zero[:0], *lengths])

    def pair_of(self, entry: int) -> Pair:
        """The pair that an entry comes from."""
        number = self._entries.pair_numbers(torch.tensor([entry], device=self.device))
        return self._entries.pair(int(number))

    def exact(self, source: str) -> Pair | None:
        """The latest pair with this very source."""
        return self._sources().exact(source)

    def matches(self, source: str, limit: int = 3, threshold: float = 0.5) -> list[Match]:
        """The pairs whose sources resemble this one most, best first."""
        return self._sources().fuzzy(source, limit, threshold)

    def _sources(self) -> SourceLookup:
        if self._lookup is None:
            with timed("store/lookup"):
                self._lookup = SourceLookup(self.pairs, self._entries.pair)
        return self._lookup

    def similar_pairs(self, source: Sequence[int], count: int) -> list[int]:
        """Numbers of the pairs whose source tokens have most in common with these, best first."""
        return [int(number) for number in self._similar_sources().best(source, count, self._allowed_pairs())]

    def _similar_sources(self) -> SimilarSources:
        if self._similar is None:
            with timed("store/similar"):
                self._similar = SimilarSources(self._segments)
        return self._similar

    def _allowed_pairs(self) -> np.ndarray | None:
        """Which pairs may be found, [P]; None stands for all."""
        return None

    # What retrieval needs (`retrieval.source.EntrySource`). Entries and keys live on this store's
    # device, queries come from the model's: each call takes them over and brings the result back.

    @property
    def identity(self) -> str:
        return self.manifest.identity

    @property
    def search_scale(self) -> float:
        return self.manifest.calibration.search_scale

    @property
    def cache_scale(self) -> float:
        return self.manifest.calibration.cache_scale

    def scale(self, columns: int) -> float:
        if columns == self.manifest.cache_columns:
            return self.cache_scale
        # What was not measured: squared distances spread over the columns as the variance does.
        variance_D = self._reduction.variance_D
        share = float(variance_D[:columns].sum() / variance_D.sum().clamp(min=1e-12))
        return float((self.search_scale * share) ** 0.5)

    @property
    def likely_weight(self) -> float | None:
        return self.manifest.calibration.likely_weight

    @property
    def columns(self) -> int:
        return self.manifest.columns

    def query(self, hidden_BH: Tensor) -> Tensor:
        return self._reduction.apply(hidden_BH.to(self.device)).to(hidden_BH.device)

    def search(self, query_BD: Tensor, k: int, allowed_N: Tensor | None = None) -> Neighbours:
        """The k nearest entries that are allowed (a mask over all entries), with their squared distances."""
        if allowed_N is not None and len(allowed_N) != len(self):
            raise ConfigError(f"the mask has {len(allowed_N)} places, the datastore {len(self)} entries")
        found = self._searcher.search(query_BD.to(self.device), k, allowed_N)
        return Neighbours(found.entry_BK.to(query_BD.device), found.distance_BK.to(query_BD.device))

    def tokens(self, entry: Tensor) -> Tensor:
        return self._entries.tokens(entry.to(self.device)).to(entry.device)

    def weights(self, entry: Tensor) -> Tensor | None:
        weight = self._entries.weights(entry.to(self.device))
        return None if weight is None else weight.to(entry.device)

    def keys(self, entry_M: Tensor, columns: int) -> Tensor:
        return self._entries.keys(entry_M.to(self.device), columns).to(entry_M.device)

    def trust(self, source: Sequence[int]) -> float:
        familiar = self.manifest.calibration.familiar
        if familiar is None:
            return 1.0
        allowed_P = self._allowed_pairs()
        hidden_P = None if allowed_P is None else ~allowed_P
        with timed("index/similar"):
            best = self._similar_sources().best_shares(source, hidden_P)
        if best[-1] > SAME:
            return 1.0
        reached = float(best.mean()) / max(familiar, 1e-6)
        return min(1.0, max(0.0, (reached - STRANGE) / (1.0 - STRANGE)))

    @property
    def knows_sources(self) -> bool:
        # An empty store will, once something is added to it.
        return not len(self) or any(len(segment.source_S) for segment in self._segments)

    def similar(self, source: Sequence[int], count: int) -> Tensor:
        with timed("index/similar"):
            pairs = self.similar_pairs(source, count)
            return torch.cat([torch.zeros(0, dtype=torch.long, device=self.device), *map(self._entries.of_pair, pairs)])

    def chunks(self, entry_BK: Tensor, size: int) -> Tensor:
        return self._entries.chunks(entry_BK.to(self.device), size).to(entry_BK.device)


def _occurrences(pairs: Iterable[Pair]) -> dict[str, int]:
    """How often each content hash has been given out as an id (`hash`, `hash-2`, ...)."""
    seen: dict[str, int] = {}
    for pair in pairs:
        key = pair.id.partition("-")[0]
        seen[key] = seen.get(key, 0) + 1
    return seen
