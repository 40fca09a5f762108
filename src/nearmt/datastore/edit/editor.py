"""Changing a store that is in use: the log first, then what follows from it.

An operation is acknowledged when its record is on disk. Only then pairs are encoded and become visible, and only
a live segment that has grown is sealed. Whatever happens in between, the next one to open the store reads the same
log and goes on there.
"""

from __future__ import annotations

import dataclasses
import itertools
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import numpy as np

from nearmt.contracts import Pair
from nearmt.datastore.disk import AnySegment, FileRecord, SegmentRecord, SegmentWriter
from nearmt.datastore.disk.file_names import segment_name
from nearmt.datastore.disk.files import WriterLock, writer_lock
from nearmt.datastore.disk.live_segment import Block, mark_of
from nearmt.datastore.disk.log import Log, Operation, begin_log
from nearmt.datastore.disk.pairs import BLOCK
from nearmt.datastore.disk.records import RecordWriter
from nearmt.datastore.edit.build import mean_recall
from nearmt.datastore.edit.encode import encode_block
from nearmt.datastore.edit.open_store import Opened, size_of
from nearmt.datastore.search.calibrate import measured
from nearmt.datastore.search.indexing import index_segment, index_segments
from nearmt.datastore.search.weights import with_weights_of
from nearmt.errors import OutputError, writing
from nearmt.models import TranslationModel
from nearmt.opening import opened as opened_file
from nearmt.timing import timed

#: Entries from which the live segment, which is searched flat, is sealed.
LIVE_ENTRIES = 8192
#: So many sealed segments of one size become one: a store of n entries has some log n segments.
MERGED_TOGETHER = 4
#: A calibration holds until there are so many times the entries that it was measured on.
_GROWN = 2


class Editor:
    """One change after the other to a store that is open."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._lock: WriterLock | None = None

    @contextmanager
    def changing(self) -> Iterator[WriterLock]:
        """Be the only writer, among threads and processes, and see what the last one did."""
        with self._opened.changing, writer_lock(self._opened.path) as lock:
            self._lock = lock
            self._opened.refresh()
            yield lock

    def _check_lock(self) -> None:
        """Refuse to go on in a folder that is not the one that was locked."""
        assert self._lock is not None
        self._lock.check()

    def log(self, operations: Sequence[Operation]) -> None:
        """Acknowledge operations: they are on disk when this returns, and nothing more is known to be."""
        opened = self._opened
        self._check_lock()
        if opened.log_path is None:
            dataclasses.replace(opened.manifest, log=begin_log(opened.path)).save(opened.path)
            opened.refresh()
        assert opened.log_path is not None
        with timed("store/log"), Log(opened.log_path) as log:
            end = log.append(operations)
        self._check_lock()
        opened.apply(operations, end)

    def take_in(self, model: TranslationModel, progress: Callable[[int], None] | None = None) -> None:
        """Encode the pairs that wait for a model, and make them visible."""
        opened, done = self._opened, 0
        while pending := opened.content.pending[:BLOCK]:
            block = _encoded(model, opened, pending, partial(_tell, progress, done))
            opened.content.take_in(block)
            with timed("store/live"), suppress(OutputError, OSError):
                self._keep()
            opened.publish()
            done += len(pending)
            if opened.content.live.entries >= LIVE_ENTRIES:
                self.seal()
        self._calibrate(model)

    def _keep(self) -> None:
        """Spare the next one to open the store the computing. Where this fails, that is all that is lost."""
        opened = self._opened
        if size_of(opened.live_path) > opened.live_end:
            with opened_file(opened.live_path, "r+b") as left:
                left.truncate(opened.live_end)  # what does not fit
        block = _since(opened.content.live.frozen(), opened.live_pairs)
        with RecordWriter(opened.live_path, durable=False) as file:
            opened.live_end = file.append([block.to_bytes()])
        opened.live_pairs = opened.content.encoded

    def seal(self) -> None:
        """Turn the live segment into a sealed one, together with those of its size if there are enough."""
        content = self._opened.content
        sizes = [content.live.entries]
        for part in reversed(content.parts):
            if part.segment.record.pruned:
                break  # what was pruned stays as it is
            sizes.insert(0, part.segment.record.entries)
        self.merge(len(content.parts) + 1 - merge_count(sizes), "auto")

    def merge(self, first: int, factory: str) -> None:
        """Replace all segments from one on, and the live one, by a single segment without what is gone."""
        opened = self._opened
        content, manifest = opened.content, opened.manifest
        folder = opened.path / _next_name(manifest.segments)
        with timed("store/seal"):
            writer = SegmentWriter(folder, {"merging": secrets.token_hex(8)})
            numbers = range(first, len(content.parts))
            merged = [(content.parts[number].segment, content.seen_in(number)) for number in numbers]
            merged.append((content.live.frozen(), content.seen_live()))
            for segment, wanted_P in merged:
                copy_pairs(writer, segment, wanted_P)
            kept = [self._with_deleted(number) for number in range(first)]
            new = with_weights_of(opened.path, writer.seal(), merged)
            records = self._indexed(kept, new, factory) if new.pairs else kept
        self._replace_manifest(records)

    def _indexed(self, kept: list[SegmentRecord], new: SegmentRecord, factory: str) -> list[SegmentRecord]:
        """All segments with an index for the new one: in the cells that there are, or in those that all get now."""
        opened = self._opened
        path, columns, before = opened.path, opened.manifest.columns, opened.manifest.segments
        has_index = any(record.index["kind"] == "faiss" for record in before)
        if not kept or not (has_index or factory != "auto"):
            return index_segments(path, [*kept, new], columns, factory)
        return [*kept, index_segment(path, new, columns, factory, beside=before)]

    def _with_deleted(self, number: int) -> SegmentRecord:
        """The record of a sealed segment with what is gone of it now."""
        segment, seen_P = self._opened.content.parts[number].segment, self._opened.content.seen_in(number)
        gone_X = np.flatnonzero(~seen_P)
        if len(gone_X) == len(segment.deleted_X):
            return segment.record
        return with_deleted(self._opened.path, segment, gone_X)

    def _replace_manifest(self, records: list[SegmentRecord]) -> None:
        """Other segments, another log: one step from the old store to the new."""
        opened = self._opened
        log = begin_log(opened.path, opened.content.waiting())
        calibration = dataclasses.replace(opened.manifest.calibration, recall=mean_recall(records))
        manifest = dataclasses.replace(opened.manifest, segments=tuple(records), log=log, calibration=calibration)
        self._check_lock()
        manifest.save(opened.path)
        opened.refresh()

    def _calibrate(self, model: TranslationModel | None, always: bool = False) -> None:
        """Measure distances anew when the store has outgrown the last measuring."""
        opened = self._opened
        store, manifest = opened.now, opened.manifest
        findable = store.findable()
        if not always and findable < _GROWN * max(1, manifest.calibration.entries):
            return
        with timed("store/calibrate"):
            recall = None if mean_recall(manifest.segments) is None else round(store.recall(), 4)
            found = measured(store, manifest.calibration, manifest.cache_columns, recall, model)
        self._check_lock()
        dataclasses.replace(manifest, calibration=found).save(opened.path)
        opened.refresh()

    def compact(self, factory: str = "auto", model: TranslationModel | None = None) -> None:
        """One segment of all that is there, and nothing of what is gone, measured as a new store would be."""
        self.merge(0, factory)
        self._calibrate(model, always=True)


def with_deleted(folder: Path, segment: AnySegment, gone_X: np.ndarray) -> SegmentRecord:
    """The record of a segment of which these pairs are deleted; their numbers are written beside its other files."""
    record = segment.record
    files = {known: file for known, file in record.files.items() if not known.startswith("deleted")}
    if not len(gone_X):
        return dataclasses.replace(record, files=files, deleted=None)
    # A name of its own: until the manifest changes, the old file must stay what it was.
    name = f"deleted-{secrets.token_hex(4)}.i64"
    path = folder / record.name / name
    with writing(path):
        path.write_bytes(gone_X.astype("<i8").tobytes())
    entries = int(np.diff(segment.end_P, prepend=0)[gone_X].sum())
    return dataclasses.replace(
        record,
        files={**files, name: FileRecord.of(path)},
        deleted={"file": name, "pairs": len(gone_X), "entries": entries},
    )


def merge_count(sizes: Sequence[int]) -> int:
    """How many of the last segments are to become one, given the entries of all.

    Segments of about one size are merged when there are enough of them; what comes out of it counts in turn.
    """
    count, total = 1, sizes[-1]
    while True:
        before = sizes[: len(sizes) - count]
        limit = MERGED_TOGETHER * total
        alike = list(itertools.takewhile(limit.__gt__, reversed(before)))
        if len(alike) < MERGED_TOGETHER - 1:
            return count
        count, total = count + len(alike), total + sum(alike)


def copy_pairs(writer: SegmentWriter, segment: AnySegment, wanted_P: np.ndarray) -> None:
    """Append the wanted pairs of a segment to another that is being written."""
    end_P, source_end_P = segment.end_P, segment.source_end_P
    for number_B in np.array_split(np.flatnonzero(wanted_P), max(1, -(-int(wanted_P.sum()) // BLOCK))):
        spans = [(int(end_P[n - 1]) if n else 0, int(end_P[n])) for n in number_B]
        source_spans = [(int(source_end_P[n - 1]) if n else 0, int(source_end_P[n])) for n in number_B]
        tokens = [segment.token_N[start:end].tolist() for start, end in spans]
        if len(number_B):
            writer.append(
                [segment.pair(int(n)) for n in number_B],
                [segment.key_ND[start:end] for start, end in spans],
                tokens,
                [segment.source_S[start:end].tolist() for start, end in source_spans],
                sum(not part for part in tokens),
            )


def _tell(progress: Callable[[int], None] | None, before: int, done: int) -> None:
    if progress:
        progress(before + done)


def _encoded(model: TranslationModel, opened: Opened, pairs: list[Pair], progress: Callable[[int], None]) -> Block:
    """The forced states of the next pending pairs as a block of the live segment; those that are gone have none."""
    reduction, first = opened.reduction.to(model.seq2seq.device), opened.content.encoded
    wanted = [place for place in range(len(pairs)) if not opened.content.is_gone(first + place)]
    keys = [np.zeros((0, reduction.columns), dtype=np.float16)]
    tokens: list[list[int]] = [[] for _ in pairs]
    sources: list[list[int]] = [[] for _ in pairs]
    with timed("store/encode"):
        units = encode_block(model, [pairs[place] for place in wanted], reduction, progress)
        for place, unit in zip(wanted, units, strict=True):
            tokens[place], sources[place] = unit.tokens, unit.source
            if unit.key_TD is not None:
                keys.append(unit.key_TD.numpy())
    return Block(first, tokens, sources, np.concatenate(keys), mark_of(pairs))


def _since(segment: AnySegment, first: int) -> Block:
    """The pairs of a live segment from one on, as one block."""
    numbers = range(first, segment.record.pairs)
    token_ends, source_ends = segment.end_P[first:], segment.source_end_P[first:]
    start, source_start = (int(end_P[first - 1]) if first else 0 for end_P in (segment.end_P, segment.source_end_P))
    tokens = np.split(segment.token_N[start:], token_ends[:-1] - start)
    sources = np.split(segment.source_S[source_start:], source_ends[:-1] - source_start)
    return Block(
        first,
        [part.tolist() for part in tokens],
        [part.tolist() for part in sources],
        segment.key_ND[start:],
        mark_of(map(segment.pair, numbers)),
    )


def _next_name(records: Sequence[SegmentRecord]) -> str:
    return segment_name(1 + max((int(record.name.split("-")[1]) for record in records), default=0))
