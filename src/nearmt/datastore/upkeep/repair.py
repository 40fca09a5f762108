"""Repairing a damaged store: files that can be computed from the pairs are, and lost pairs are reported.

The repaired store is written to DIR/repairing and becomes the content of DIR when it is complete. The damaged store is
kept as DIR.damaged, a copy in which sealed files are hard links.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from nearmt.config.building import BuildConfig
from nearmt.contracts import Progress
from nearmt.datastore.disk import FileRecord, Manifest, Segment, SegmentRecord, SegmentWriter
from nearmt.datastore.disk.copying import copy, link, set_aside
from nearmt.datastore.disk.files import sync, writer_lock
from nearmt.datastore.disk.ids import digest_of
from nearmt.datastore.disk.log import Log
from nearmt.datastore.disk.manifest import FILE_NAME, live_names
from nearmt.datastore.disk.replacement import publish
from nearmt.datastore.disk.segment import END, ID, KEY, PAIR_START, PAIRS, SOURCE, SOURCE_END, TOKEN, WORD
from nearmt.datastore.edit.build import build, build_settings, write_pairs
from nearmt.datastore.edit.calibrating import calibrated
from nearmt.datastore.edit.merging import with_deleted
from nearmt.datastore.edit.pretrained import pretrained_reduction
from nearmt.datastore.search.indexing import index_segment, index_segments
from nearmt.datastore.store import Datastore, check_model
from nearmt.datastore.upkeep.damaged_store import DamagedStore, LoadModel
from nearmt.datastore.upkeep.verify import Finding, check_is_store, verify
from nearmt.errors import DatastoreError, writing
from nearmt.opening import REPAIRING, opened
from nearmt.reduction import Reduction

#: Files that only the model can compute again.
_ENCODED = (KEY, TOKEN, END, PAIRS, SOURCE, SOURCE_END, WORD)
#: The kind of an index that has to be built again.
_NONE = "none"
_PRUNING_LOST = "its pruning is lost; `nearmt prune` merges its entries again"


@dataclass(frozen=True)
class Repaired:
    """The result of a repair."""

    pairs: int
    #: The copy of the damaged store.
    kept_as: Path
    #: The steps of the repair, line by line.
    report: list[str]
    #: Lost pairs: their ids, or their positions where the ids are unknown.
    lost: list[str]


def repair(path: Path, found: Sequence[Finding], load: LoadModel, progress: Progress | None = None) -> Repaired:
    """Repair a store in which `verify` found damage. `load` is called if the model is needed."""
    check_is_store(path)
    work = path / REPAIRING
    with writer_lock(path) as lock:
        _make_folder(work)
        store = DamagedStore(path, {finding.file: finding.verdict for finding in found}, load)
        _Repair(store, work, progress).repair()
        pairs = _checked(work, store)
        kept_as = set_aside(path)
        publish(work, path, Manifest.load(work), lock)
    return Repaired(pairs, kept_as, store.report, store.lost)


class _Repair:
    """Writes a new store from the readable files of a damaged one."""

    def __init__(self, store: DamagedStore, work: Path, progress: Progress | None) -> None:
        self._store, self._path, self._work, self._progress = store, store.path, work, progress

    def repair(self) -> None:
        manifest = self._store.manifest
        if manifest is None:
            self._say(f"{FILE_NAME}: is damaged: all pairs are encoded again")
            self._rebuild()
        elif manifest.adapter_name is not None and not self._store.is_sound(manifest.adapter_name):
            self._say(f"{manifest.adapter_name}: is lost: all pairs are encoded again with the model alone")
            self._rebuild()
        elif (reduction := self._reduction(manifest)) is None:
            self._say(f"{manifest.reduction_name}: is lost: all pairs are encoded again")
            self._rebuild()
        else:
            self._repair_files(manifest, reduction)

    def _say(self, line: str) -> None:
        self._store.report.append(line)

    def _rebuild(self) -> None:
        store = self._store
        cleaning = store.claimed.cleaning if store.claimed else ""
        pairs = store.all_pairs()
        shutil.rmtree(self._work)
        build(
            self._work,
            pairs,
            store.model,
            BuildConfig(),
            cleaning=cleaning,
            allow_empty=True,
            progress=self._progress,
        )

    def _reduction(self, manifest: Manifest) -> Reduction | None:
        """The reduction of the store; if its file is damaged, the one that ships with the model."""
        name = manifest.reduction_name
        if self._store.is_sound(name):
            link(self._path / name, self._work / name)
            return Reduction.load(self._work / name)
        known = pretrained_reduction(self._store.model)
        if known is None or known.identity != manifest.reduction:
            return None
        with writing(self._work):
            known.save(self._work / name)
        self._say(f"{name}: taken from the model again")
        return known

    def _repair_files(self, manifest: Manifest, reduction: Reduction) -> None:
        """Keep undamaged files, and compute the others again."""
        store = self._store
        if manifest.adapter_name is not None:
            link(self._path / manifest.adapter_name, self._work / manifest.adapter_name)
        shared = all(store.is_sound(name) for name in manifest.quantisers)
        for name in manifest.quantisers if shared else ():
            link(self._path / name, self._work / name)
        repaired = [self._segment(number, manifest, reduction) for number in range(len(manifest.segments))]
        records = [record for record in repaired if record.pairs]
        if shared:
            records = self._with_missing_indexes(records, manifest.columns)
        else:
            self._say("the quantiser of the indexes is lost: all segments are indexed again")
            records = index_segments(self._work, [_without_index(record) for record in records], manifest.columns)
        name = manifest.reduction_name
        file = FileRecord.of(self._work / name)
        log = self._log(manifest)
        model = store.model if store.loaded else None
        manifest = replace(manifest, reduction_file=file, log=log)
        calibrated(self._work, manifest, reduction, records, model).save(self._work)

    def _with_missing_indexes(self, records: list[SegmentRecord], columns: int) -> list[SegmentRecord]:
        whole = [record for record in records if record.index["kind"] != _NONE]
        return [
            index_segment(self._work, _without_index(record), columns, "auto", whole)
            if record.index["kind"] == _NONE
            else record
            for record in records
        ]

    def _segment(self, number: int, manifest: Manifest, reduction: Reduction) -> SegmentRecord:
        """Repair a segment; its index may be left out."""
        record, later = manifest.segments[number], manifest.segments[number + 1 :]
        damaged = [name for name in record.files if not self._store.is_sound(f"{record.name}/{name}")]
        if any(name in _ENCODED for name in damaged):
            check_model(self._path, manifest, self._store.model)
            return self._encode_again(record, damaged, later, reduction)
        with writing(self._work):
            (self._work / record.name).mkdir()
        for name in record.files:
            if name not in damaged:
                link(self._path / record.name / name, self._work / record.name / name)
        for name in damaged:
            if not name.startswith("deleted"):
                record = self._compute_again(record, name)
        if any(name.startswith("deleted") for name in damaged):
            record = self._with_known_deleted(record, later, manifest.columns)
        return record

    def _compute_again(self, record: SegmentRecord, name: str) -> SegmentRecord:
        """Replace or drop one damaged file of a segment for which no model is needed."""
        files = {known: file for known, file in record.files.items() if known != name}
        if name in (PAIR_START, ID):
            self._say(f"{record.name}/{name}: computed again from the pairs")
            made = self._write(record, name, _from_lines(self._path / record.name / PAIRS, name))
            return replace(record, files={**files, name: made})
        index: dict[str, Any] = {"kind": _NONE}
        if record.pruned and name != record.pruned["file"]:
            index["pruned"] = record.pruned
        self._say(f"{record.name}/{name}: " + ("built again" if name.startswith("index") else _PRUNING_LOST))
        return replace(record, files=files, index=index)

    def _with_known_deleted(self, record: SegmentRecord, later: Sequence[SegmentRecord], columns: int) -> SegmentRecord:
        """Restore the deletions of a segment: those that are readable, and pairs that later segments replace."""
        assert record.deleted is not None
        file, count = record.deleted["file"], record.deleted["pairs"]
        known = self._store.still_deleted(self._path / record.name / file, record.files.get(file), count, record.pairs)
        files = {name: of for name, of in record.files.items() if name != file}
        record = replace(record, files=files, deleted=None)
        segment, replaced = Segment(self._work / record.name, record, columns), self._store.ids_of(later)
        known |= {number for number, pair in enumerate(segment.pairs()) if pair.id in replaced}
        return with_deleted(self._work, segment, np.asarray(sorted(known), dtype="<i8"))

    def _encode_again(
        self, record: SegmentRecord, damaged: list[str], later: Sequence[SegmentRecord], reduction: Reduction
    ) -> SegmentRecord:
        store = self._store
        replaced = store.ids_of(later)
        pairs = [pair for pair in store.pairs_of(record) if pair.id not in replaced]
        writer = SegmentWriter(self._work / record.name, build_settings(store.model, reduction))
        write_pairs(writer, iter(pairs), store.model, reduction, self._progress)
        self._say(f"{record.name}: {len(pairs)} pairs encoded again, because of {', '.join(damaged)}")
        if record.pruned:
            self._say(f"{record.name}: {_PRUNING_LOST}")
        return replace(writer.seal(), index={"kind": _NONE})

    def _write(self, record: SegmentRecord, name: str, data: bytes) -> FileRecord:
        path = self._work / record.name / name
        with writing(path):
            with opened(path, "wb") as file:
                file.write(data)
            sync(path)
        return FileRecord.of(path)

    def _log(self, manifest: Manifest) -> str | None:
        """Write the readable operations of the log, and copy the live blocks if they are undamaged."""
        if manifest.log is None:
            return None
        log, live = live_names(manifest.log)
        operations = self._store.operations_of(log)
        with Log(self._work / log) as file:
            file.append(operations)
        if self._store.is_whole(log) and self._store.is_sound(live):
            copy(self._path / live, self._work / live)  # not linked, because the file grows
        return log


def _make_folder(work: Path) -> None:
    """Create an empty work folder; remove the files of an interrupted repair."""
    with writing(work):
        if work.is_symlink():
            work.unlink()
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()


def _checked(work: Path, damaged: DamagedStore) -> int:
    """Verify the repaired store, encode its pending pairs if the model is loaded, and return its number of pairs."""
    if any(finding.damaged for finding in verify(work)):
        raise DatastoreError(f"{work}: is damaged itself; the disk may be failing: copy {damaged.path} to another one")
    store = Datastore.open(work)
    if damaged.loaded and store.pending:
        store.catch_up(damaged.model)
    if store.pending:
        damaged.report.append(f"{store.pending} pairs are logged only; they are encoded when a model is next loaded")
    return store.total_pairs


def _without_index(record: SegmentRecord) -> SegmentRecord:
    files = {name: file for name, file in record.files.items() if not name.startswith("index")}
    pruned = {"pruned": record.pruned} if record.pruned else {}
    return replace(record, files=files, index={"kind": "exact", **pruned})


def _from_lines(path: Path, name: str) -> bytes:
    """Compute the offsets of lines, or the digests of their ids."""
    with opened(path) as file:
        lines = file.read().splitlines(keepends=True)
    if name == PAIR_START:
        return np.cumsum([0, *map(len, lines[:-1])]).astype("<i8").tobytes() if lines else b""
    ids = [digest_of(json.loads(line)["id"]) for line in lines]
    return np.asarray(ids, dtype="<u8").tobytes()
