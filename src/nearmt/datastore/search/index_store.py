"""Giving the segments of a store their index: in files, or on a server (`remote.py`)."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from nearmt.datastore.disk import Manifest, Segment, SegmentRecord
from nearmt.datastore.search.indexing import (
    check_factory,
    index_segment,
    index_segments,
    pruning,
    tuned,
    without_index,
)
from nearmt.datastore.search.remote import is_remote, number_of
from nearmt.errors import IndexServerError, NearmtWarning
from nearmt.index.milvus import BUILDING_PATIENCE, PATIENCE, Collection, MilvusIndex, RemoteUse, Tell, connect
from nearmt.index.vector_server import SCHEME, Address


def _silent(_: str) -> None:
    """Ignore the message."""


@dataclass(frozen=True)
class Indexing:
    """Which index the segments of a store get; `auto` keeps them on the server where they are on one."""

    factory: str = "auto"
    #: Seconds without an answer or progress of a server after which it is given up.
    timeout: float = BUILDING_PATIENCE
    #: Told what a server is doing: it can take minutes.
    tell: Tell = _silent

    @property
    def use(self) -> RemoteUse:
        return RemoteUse(self.timeout)

    def address(self, before: Sequence[SegmentRecord]) -> Address | None:
        """The server that segments go to, if they do; `before` are those that the store has."""
        if self.factory.startswith(SCHEME):
            return Address.parse(self.factory)
        known = next((record.index["factory"] for record in before if is_remote(record)), None)
        return Address.parse(known) if known is not None and self.factory == "auto" else None


def check_index(indexing: Indexing, columns: int) -> None:
    """Refuse an index that cannot be made, and a server that does not answer, before hours are spent."""
    if not indexing.factory.startswith(SCHEME):
        check_factory(indexing.factory, columns)
        return
    connect(Address.parse(indexing.factory)).connect(min(PATIENCE, indexing.timeout))


def index_store(
    folder: Path,
    manifest: Manifest,
    records: Sequence[SegmentRecord],
    indexing: Indexing,
    before: Sequence[SegmentRecord] | None = None,
) -> list[SegmentRecord]:
    """Index all segments of a store anew; `before` (default: those of the manifest) are the segments that it had."""
    address = indexing.address(manifest.segments if before is None else before)
    if address is None:
        return index_segments(folder, records, manifest.columns, indexing.factory)
    segments = [Segment(folder / record.name, record, manifest.columns) for record in records if record.kept]
    if not segments:
        return [without_index(record) for record in records]
    collection = Collection(address, collection_name(manifest, address), indexing.use)
    collection.prepare(manifest.columns)
    memory = number_of(folder)
    built: dict[str, MilvusIndex] = {}
    try:
        for segment in segments:
            index = MilvusIndex(collection, collection.new_part(), segment.record.kept)
            built[segment.record.name] = index
            collection.insert(memory, index.part, segment.searched_key_MD, indexing.tell)
        collection.settle({index.part: index.rows for index in built.values()}, indexing.tell)
        recall = tuned(segments, built)
    except BaseException:
        _take_back(collection, built)
        raise
    return [
        _described(record, built[record.name], memory, recall) if record.name in built else without_index(record)
        for record in records
    ]


def index_new(folder: Path, manifest: Manifest, record: SegmentRecord, indexing: Indexing) -> SegmentRecord:
    """Index one more segment of a store. Rows are found at once; the server indexes them by and by.

    Where the server does not answer, the segment is searched exactly: what was acknowledged does not wait for it.
    """
    address, known = indexing.address(manifest.segments), next(filter(is_remote, manifest.segments), None)
    if address is None or known is None or not record.kept:
        return index_segment(folder, record, manifest.columns, indexing.factory, existing=manifest.segments)
    collection = Collection(address, collection_name(manifest, address), indexing.use)
    segment, memory = Segment(folder / record.name, record, manifest.columns), number_of(folder)
    built: dict[str, MilvusIndex] = {}
    try:
        collection.prepare(manifest.columns)
        index = MilvusIndex(collection, collection.new_part(), record.kept, known.index["effort"])
        built[record.name] = index
        collection.insert(memory, index.part, segment.searched_key_MD, indexing.tell)
        collection.wait_for({index.part: index.rows})
    except IndexServerError as error:
        _take_back(collection, built)
        told = f"{folder}: {record.entries:,} entries are searched exactly until `nearmt reindex {folder}`: {error}"
        warnings.warn(told, NearmtWarning, stacklevel=2)
        return without_index(record)
    return _described(record, index, memory, known.index["recall"])


def _take_back(collection: Collection, built: dict[str, MilvusIndex]) -> None:
    """Delete rows that no manifest will name; where that fails, the next build of the memory does it."""
    with suppress(IndexServerError):
        for index in built.values():
            collection.drop(index.part)


def _described(record: SegmentRecord, index: MilvusIndex, memory: int, recall: float) -> SegmentRecord:
    bare = without_index(record)
    return replace(bare, index={**index.describe(memory), "recall": round(recall, 4), **pruning(record)})


def collection_name(manifest: Manifest, address: Address) -> str:
    """Keys can be compared if they are of one model, reduction and direction; an index is of one kind."""
    parts = manifest.fingerprint, manifest.reduction, manifest.source_lang, manifest.target_lang, manifest.key_layer
    readable = "_".join(re.sub(r"\W+", "_", part, flags=re.ASCII)[:24] for part in parts)
    digest = hashlib.sha256("|".join(parts).encode()).hexdigest()[:8]
    return f"nearmt_{readable}_{digest}_{address.kind}"


def release_rows(folder: Path, before: Sequence[SegmentRecord], after: Sequence[SegmentRecord]) -> None:
    """Delete the rows of this memory that its manifest no longer names. Rows of another memory stay."""
    memory = number_of(folder)
    mine = [record.index for record in [*before, *after] if is_remote(record) and record.index["memory"] == memory]
    for factory, name in {(index["factory"], index["collection"]) for index in mine}:
        kept = [record.index["part"] for record in after if is_remote(record) and record.index["collection"] == name]
        try:
            Collection(Address.parse(factory), name).keep_only(memory, kept)
        except IndexServerError as error:
            told = f"{folder}: rows that are no longer needed stay on the server until the next reindex: {error}"
            warnings.warn(told, NearmtWarning, stacklevel=2)
