"""Changing an open store: append to the log, then encode, seal and merge.

A change is acknowledged when the log is synced. After a crash the next process that opens the store reads the same
log and continues from there.
"""

from __future__ import annotations

import dataclasses
import secrets
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np

from nearmt.contracts import Pair
from nearmt.datastore.disk import AnySegment, SegmentRecord, SegmentWriter
from nearmt.datastore.disk.adapter_record import AdapterRecord
from nearmt.datastore.disk.changes import ChangeWriter
from nearmt.datastore.disk.file_names import next_number, segment_name
from nearmt.datastore.disk.files import WriterLock, size_of, writer_lock
from nearmt.datastore.disk.live_segment import Block, mark_of
from nearmt.datastore.disk.log import begin_log
from nearmt.datastore.disk.pairs import BLOCK
from nearmt.datastore.disk.records import RecordWriter
from nearmt.datastore.edit.calibrating import mean_recall
from nearmt.datastore.edit.encode import encode_block
from nearmt.datastore.edit.merging import copy_pairs, merge_count, with_deleted
from nearmt.datastore.edit.open_store import OpenStore
from nearmt.datastore.search.calibrate import measured
from nearmt.datastore.search.index_store import Indexing, index_new, index_store, release_rows
from nearmt.datastore.search.remote import is_remote
from nearmt.datastore.search.weights import with_weights_of
from nearmt.errors import IndexServerError, NearmtWarning, OutputError
from nearmt.models import TranslationModel
from nearmt.opening import opened
from nearmt.timing import timed

#: Entries from which the live segment, which is searched exhaustively, is sealed.
LIVE_ENTRIES = 8192
#: The store is calibrated again when it has this many times the entries of the last calibration.
_GROWN = 2


@contextmanager
def editing(store: OpenStore) -> Iterator[Editor]:
    """Lock a store as its only writer, among threads and processes, and load the last writer's changes."""
    with store.changing, writer_lock(store.path) as lock, store.held():
        store.refresh()
        yield Editor(store, lock)


class Editor:
    """Changes an open store that is locked for writing (see `editing`)."""

    def __init__(self, store: OpenStore, lock: WriterLock) -> None:
        self._store, self.lock = store, lock
        self.changes = ChangeWriter(store, lock)

    def encode_pending(self, model: TranslationModel, progress: Callable[[int], None] | None = None) -> None:
        """Encode the pending pairs and make them visible; seal the live segment when it is large."""
        store, done = self._store, 0
        while pending := store.content.unencoded[:BLOCK]:
            block = _encoded(model, store, pending, partial(_tell, progress, done))
            store.content.append_block(block)
            with timed("store/live"), suppress(OutputError, OSError):
                self._save_live()
            store.publish()
            done += len(pending)
            if store.content.live.entries >= LIVE_ENTRIES:
                self.seal()
        self._calibrate(model)

    def _save_live(self) -> None:
        """Save new entries of the live segment. If this fails, they are computed again at the next opening."""
        store = self._store
        if size_of(store.live_path) > store.live_end:
            with opened(store.live_path, "r+b") as file:
                file.truncate(store.live_end)  # blocks that do not match the log
        block = _block_from(store.content.live.frozen(), store.live_pairs)
        with RecordWriter(store.live_path, durable=False) as file:
            store.live_end = file.append([block.to_bytes()])
        store.live_pairs = store.content.encoded

    def seal(self) -> None:
        """Turn the live segment into a sealed one, merged with sealed segments of its size if there are enough."""
        content = self._store.content
        sizes = [content.live.entries]
        for part in reversed(content.parts):
            if part.segment.record.pruned:
                break  # pruned segments are not merged
            sizes.insert(0, part.segment.record.entries)
        self.merge(len(content.parts) + 1 - merge_count(sizes), "auto", waits=False)

    def merge(self, first: int, factory: str, *, waits: bool = True) -> None:
        """Replace the segments from number `first` on, and the live one, by one segment of their visible pairs.

        `waits`: until the server of an index has indexed them; else they are searched, and indexed there later.
        """
        store = self._store
        content = store.content
        folder = store.path / segment_name(next_number(store.path, "segment"))
        adapter = self._adapter_after_merging(first)
        with timed("store/seal"):
            writer = SegmentWriter(folder, {"merging": secrets.token_hex(8)})
            numbers = range(first, len(content.parts))
            merged = [(content.parts[number].segment, content.visible_in(number)) for number in numbers]
            merged.append((content.live.frozen(), content.visible_live()))
            for segment, wanted_P in merged:
                copy_pairs(writer, segment, wanted_P)
            kept = [self._with_deleted(number) for number in range(first)]
            new = with_weights_of(store.path, writer.seal(), merged)
            records = self._indexed(kept, new, factory, waits) if new.pairs else kept
        self._replace_manifest(records, adapter)

    def _adapter_after_merging(self, first: int) -> AdapterRecord | None:
        """The record of the adapter when the segments from number `first` on have lost their deleted pairs."""
        adapter, content = self._store.manifest.adapter, self._store.content
        if adapter is None:
            return None
        start = sum(part.segment.record.pairs for part in content.parts[:first])
        older = int(content.visible()[start : adapter.known].sum())
        return dataclasses.replace(adapter, known=min(adapter.known, start + older))

    def _indexed(self, kept: list[SegmentRecord], new: SegmentRecord, factory: str, waits: bool) -> list[SegmentRecord]:
        """Index the new segment as the others are; where they have no index, index all segments."""
        path, manifest, indexing = self._store.path, self._store.manifest, Indexing(factory)
        before = manifest.segments
        has_index = any(record.index["kind"] != "exact" for record in before)
        alone = not kept and (waits or not any(map(is_remote, before)))
        if alone or not (has_index or factory != "auto"):
            return index_store(path, manifest, [*kept, new], indexing)
        return [*kept, index_new(path, manifest, new, indexing)]

    def _with_deleted(self, number: int) -> SegmentRecord:
        """The record of a sealed segment with its present deletions."""
        content = self._store.content
        segment, visible_P = content.parts[number].segment, content.visible_in(number)
        deleted_X = np.flatnonzero(~visible_P)
        if len(deleted_X) == len(segment.deleted_X):
            return segment.record
        return with_deleted(self._store.path, segment, deleted_X)

    def _replace_manifest(self, records: list[SegmentRecord], adapter: AdapterRecord | None) -> None:
        """Switch to other segments and a new log that holds the pending pairs, by one rename."""
        store = self._store
        log = begin_log(store.path, store.content.pending())
        calibration = dataclasses.replace(store.manifest.calibration, recall=mean_recall(records))
        before = store.manifest.segments
        changes: dict[str, Any] = {"segments": tuple(records), "log": log, "calibration": calibration}
        manifest = dataclasses.replace(store.manifest, **changes, adapter=adapter)
        self.lock.check()
        manifest.save(store.path)
        store.refresh()
        release_rows(store.path, before, records)

    def _calibrate(self, model: TranslationModel | None, always: bool = False) -> None:
        """Calibrate the store again, if it has grown enough since the last time or `always`."""
        store = self._store
        snapshot, manifest = store.current, store.manifest
        findable = snapshot.findable()
        if not always and findable < _GROWN * max(1, manifest.calibration.entries):
            return
        try:
            with timed("store/calibrate"):
                recall = None if mean_recall(manifest.segments) is None else round(snapshot.recall(), 4)
                found = measured(snapshot, manifest.calibration, manifest.cache_columns, recall, model)
        except IndexServerError as error:  # what was added is there; the next change tries again
            warnings.warn(f"{store.path}: was not calibrated: {error}", NearmtWarning, stacklevel=2)
            return
        self.lock.check()
        dataclasses.replace(manifest, calibration=found).save(store.path)
        store.refresh()

    def compact(
        self, factory: str = "auto", model: TranslationModel | None = None, keep_replaced: int | None = None
    ) -> None:
        """Merge all segments into one without deleted pairs, and calibrate it like a new store.

        `keep_replaced`: for how many seconds replaced files stay from now on; None: as before.
        """
        if keep_replaced is not None:
            self._store.manifest = dataclasses.replace(self._store.manifest, keep_replaced=keep_replaced)
        self.merge(0, factory)
        self._calibrate(model, always=True)


def _tell(progress: Callable[[int], None] | None, before: int, done: int) -> None:
    if progress:
        progress(before + done)


def _encoded(model: TranslationModel, store: OpenStore, pairs: list[Pair], progress: Callable[[int], None]) -> Block:
    """Encode the next unencoded pairs as a block of the live segment; deleted pairs get no entries."""
    reduction, first = store.reduction.to(model.seq2seq.device), store.content.encoded
    wanted = [number for number in range(len(pairs)) if not store.content.is_deleted(first + number)]
    keys, words = [np.zeros((0, reduction.columns), dtype=np.float16)], [np.zeros(0, dtype="<u2")]
    tokens: list[list[int]] = [[] for _ in pairs]
    sources: list[list[int]] = [[] for _ in pairs]
    with timed("store/encode"):
        chosen = [pairs[number] for number in wanted]
        units = encode_block(model, chosen, reduction, progress, store.manifest.marks)
        for number, unit in zip(wanted, units, strict=True):
            tokens[number], sources[number] = unit.tokens, unit.source
            words.append(unit.word_T)
            if unit.key_TD is not None:
                keys.append(unit.key_TD.numpy())
    return Block(first, tokens, sources, np.concatenate(keys), np.concatenate(words), mark_of(pairs))


def _block_from(segment: AnySegment, first: int) -> Block:
    """The pairs of a live segment from number `first` on, as one block."""
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
        segment.word_N[start:],
        mark_of(map(segment.pair, numbers)),
    )
