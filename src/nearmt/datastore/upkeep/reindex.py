"""Reindexing a store, fitting a reduction to unreduced keys, and encoding all pairs with another model."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from nearmt.config.building import BuildConfig
from nearmt.contracts import Progress
from nearmt.datastore.disk import Manifest, Segment, SegmentRecord, stored_pairs
from nearmt.datastore.disk.file_checks import FileRecord
from nearmt.datastore.disk.files import WriterLock, writer_lock
from nearmt.datastore.disk.manifest import reduction_name
from nearmt.datastore.disk.replay import replayed
from nearmt.datastore.disk.segment import KEY
from nearmt.datastore.edit.build import build_locked, indexing_of
from nearmt.datastore.edit.calibrating import cache_columns_of, calibrated
from nearmt.datastore.edit.editor import editing
from nearmt.datastore.edit.open_store import OpenStore
from nearmt.datastore.search.index_store import Indexing, check_index, index_store, release_rows
from nearmt.datastore.search.remote import is_remote
from nearmt.errors import writing
from nearmt.models import TranslationModel
from nearmt.opening import opened
from nearmt.reduction import FittingSample, Reduction

_BLOCK = 65_536


def reindex(path: Path, indexing: Indexing | str = "auto") -> Manifest:
    """Build new indexes for all segments: on the same server, if the store has its index on one. Needs no model."""
    indexing = Indexing(indexing) if isinstance(indexing, str) else indexing
    before = Manifest.load(path)
    indexing = replace(indexing, factory=_same_server(before, indexing.factory))
    check_index(indexing, before.columns)
    with sealed_alone(path) as lock:
        manifest = _reindex(path, indexing)
        lock.check()
        manifest = manifest.save(path)
        release_rows(path, before.segments, manifest.segments)
    return manifest


def _same_server(manifest: Manifest, factory: str) -> str:
    """The server that a store has its index on, where no other index is asked for."""
    known = next((str(record.index["factory"]) for record in manifest.segments if is_remote(record)), factory)
    return known if factory == "auto" else factory


def rebuild(
    path: Path,
    model: TranslationModel,
    config: BuildConfig,
    progress: Progress | None = None,
    tell: Callable[[str], None] | None = None,
) -> Manifest:
    """Encode all pairs of a store again with another model. The old store stays until the new one is complete."""
    before = Manifest.load(path)  # a folder that is not a datastore gets no lock file
    config = replace(config, index=_same_server(before, config.index))
    check_index(indexing_of(config), model.seq2seq.hidden_size)
    with writer_lock(path) as lock:
        manifest = Manifest.load(path)
        config = replace(config, keep_replaced=manifest.keep_replaced)
        pairs, known = stored_pairs(path, manifest), _known_pairs(path, manifest, model)
        built = build_locked(lock, pairs, model, config, manifest.cleaning, progress, tell=tell, known=known)
        assert built is not None
        return built


def _known_pairs(path: Path, manifest: Manifest, model: TranslationModel) -> int | None:
    """How many pairs of a store are older than the adapter of a model, without deleted ones."""
    if model.adapter is None:
        return None
    if manifest.adapter is None or manifest.adapter.identity != model.adapter.identity:
        return model.adapter.pairs
    return int(replayed(path, manifest).content.visible()[: manifest.adapter.known].sum())


@contextmanager
def sealed_alone(path: Path, *, without_deleted: bool = False) -> Iterator[WriterLock]:
    """Lock a store for writing and seal its live segment; with `without_deleted`, remove deleted pairs."""
    Manifest.load(path)  # a folder that is not a datastore gets no lock file
    store = OpenStore(path, "exact", torch.device("cpu"))
    with editing(store) as editor:
        if without_deleted and store.current.seen_P is not None:
            editor.merge(0, "exact")
        elif store.content.encoded:
            editor.merge(len(store.content.parts), "exact")
        yield editor.lock


def _reindex(path: Path, indexing: Indexing) -> Manifest:
    manifest = Manifest.load(path)
    manifest.check_files(path)
    reduction = Reduction.load(path / manifest.reduction_name)
    records = list(manifest.segments)
    if not reduction.fitted:
        manifest, reduction, records = _reduce_keys(path, manifest, reduction)
    records = index_store(path, manifest, records, indexing)
    return calibrated(path, manifest, reduction, records)


def _reduce_keys(
    path: Path, manifest: Manifest, reduction: Reduction
) -> tuple[Manifest, Reduction, list[SegmentRecord]]:
    """Fit a PCA on stored unreduced states, if there are enough, and reduce them."""
    records = list(manifest.segments)
    segments = [Segment(path / record.name, record, reduction.columns) for record in records]
    sample = FittingSample(reduction.columns)
    for segment in segments:
        for start in range(0, segment.record.entries, _BLOCK):
            sample.add(torch.from_numpy(segment.key_ND[start : start + _BLOCK]).float())
    if not sample.enough:
        return manifest, reduction, records
    fitted = Reduction.fit(sample)
    new_records = []
    for segment in segments:
        # A new folder: until the manifest is replaced, the old one must stay as it is.
        name = segment.record.name + "-reduced"
        new_records.append(_reduced_copy(path / name, segment, fitted))
    with writing(path):
        fitted.save(path / reduction_name(fitted.identity))
    manifest = replace(
        manifest,
        columns=fitted.columns,
        cache_columns=cache_columns_of(fitted),
        reduction=fitted.identity,
        reduction_file=FileRecord.of(path / reduction_name(fitted.identity)),
    )
    return manifest, fitted, new_records


def _reduced_copy(folder: Path, segment: Segment, reduction: Reduction) -> SegmentRecord:
    with writing(folder):
        folder.mkdir(exist_ok=True)
        for name in segment.record.files:
            if name != KEY and not name.startswith("index"):
                with opened(segment.folder / name) as source, opened(folder / name, "wb") as copy:
                    shutil.copyfileobj(source, copy)
        with opened(folder / KEY, "wb") as file:
            for start in range(0, segment.record.entries, _BLOCK):
                block = torch.from_numpy(segment.key_ND[start : start + _BLOCK]).float()
                file.write(reduction.apply(block).numpy().astype(np.float16).tobytes())
    files = {name: file for name, file in segment.record.files.items() if not name.startswith("index")}
    return replace(segment.record, name=folder.name, files={**files, KEY: FileRecord.of(folder / KEY)})
