"""Which index a segment gets, and which one searches it.

The IVF indexes of a store's segments share a quantiser: a file quantiser-*.faiss next to the segments, named after
its content and described in each of their records.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from nearmt.datastore.disk import AnySegment, FileRecord, Segment, SegmentRecord
from nearmt.datastore.disk.files import sync
from nearmt.datastore.search.entries import open_entries
from nearmt.datastore.search.recall import tune_clusters, tune_recall
from nearmt.datastore.search.remote import open_remote
from nearmt.datastore.search.searcher import Searcher
from nearmt.engines.base import Index
from nearmt.engines.choose import exact_index, memory_index
from nearmt.engines.devices import device_of
from nearmt.errors import MissingPackageError, writing
from nearmt.index import ExactIndex, Quantiser, SharedIndex, SubsetIndex
from nearmt.index.faiss import FaissIndex, default_factory, import_faiss, make_index, training_size
from nearmt.index.milvus import RemoteUse
from nearmt.index.shared import has_clusters

#: With fewer entries, a segment next to indexed ones is searched exactly.
FLAT = 8192
#: Quantisers in use, so that segments opened one by one share them.
_OPENED: WeakValueDictionary[Path, Quantiser] = WeakValueDictionary()


def check_factory(factory: str, columns: int) -> None:
    """Refuse an index that cannot be made before hours are spent on what it would index."""
    if factory not in ("auto", "exact"):
        make_index(factory, columns)


def index_segments(
    folder: Path, records: Sequence[SegmentRecord], columns: int, factory: str = "auto"
) -> list[SegmentRecord]:
    """Index all segments of a store anew, in clusters that they share if the index has any, and measure the recall.

    `auto` chooses by the size of the whole.
    """
    wanted = chosen_factory(factory, sum(record.kept for record in records))
    if wanted == "exact" or not has_clusters(wanted, columns):
        return [index_segment(folder, record, columns, wanted) for record in records]
    segments = [Segment(folder / record.name, record, columns) for record in records]
    trained_on = [segment.searched_key_MD for segment in segments if segment.record.kept]
    quantiser = Quantiser.train(_sample(trained_on, training_size(wanted, columns)), wanted)
    shared = {"file": _save_quantiser(folder, quantiser), "entries": sum(map(len, trained_on))}
    flat = _flat_ones(records) if factory == "auto" else set()
    built: dict[str, SharedIndex] = {}
    for segment in segments:
        if segment.record.kept and segment.record.name not in flat:
            built[segment.record.name] = quantiser.index(segment.searched_key_MD)
    recall = tuned(segments, built)
    return [
        _indexed(segment, built[segment.record.name], recall, {"quantiser": shared})
        if segment.record.name in built
        else without_index(segment.record)
        for segment in segments
    ]


def index_segment(
    folder: Path, record: SegmentRecord, columns: int, factory: str, existing: Sequence[SegmentRecord] = ()
) -> SegmentRecord:
    """Build the index of one sealed segment (of its kept entries, if it is pruned).

    `auto` uses the clusters of the `existing` segments, if these have any, and chooses by size otherwise.
    """
    segment = Segment(folder / record.name, record, columns)
    known = next((other.index for other in existing if "quantiser" in other.index), None)
    if factory == "auto" and known is not None and _has_faiss():
        if record.kept < FLAT:
            return without_index(record)
        quantiser = _open_quantiser(folder, known, columns)
        shared = quantiser.index(segment.searched_key_MD)
        # Alone it might need more effort; searched together with the others it needs as much as they do.
        shared.effort = known["effort"]
        return _indexed(segment, shared, known["recall"], {"quantiser": known["quantiser"]})
    wanted = chosen_factory(factory, record.kept)
    if wanted == "exact" or not record.kept:
        return without_index(record)
    index = FaissIndex.build(segment.searched_key_MD, wanted)
    return _indexed(segment, index, tuned([segment], {record.name: index}))


def trained_entries(records: Iterable[SegmentRecord]) -> int | None:
    """How many entries there were when the quantiser was trained; None where there is none."""
    return next((record.index["quantiser"]["entries"] for record in records if "quantiser" in record.index), None)


def chosen_factory(factory: str, entries: int) -> str:
    """The factory string; `auto` chooses by the number of entries."""
    if factory != "auto":
        return factory
    return default_factory(entries) if _has_faiss() else "exact"


def _flat_ones(records: Sequence[SegmentRecord]) -> set[str]:
    """The smallest segments, as long as searching them all exactly costs next to nothing; never the largest."""
    flat, entries = set(), 0
    for record in sorted(records, key=lambda record: record.kept)[:-1]:
        entries += record.kept
        if entries >= FLAT:
            break
        flat.add(record.name)
    return flat


def _sample(keys: Sequence[np.ndarray], size: int) -> np.ndarray:
    """Evenly spaced keys, at least `size` if there are enough; the same however entries are divided into segments."""
    stride = max(1, sum(map(len, keys)) // size)
    starts = [0, *accumulate(map(len, keys))]
    return np.concatenate([key_ND[-start % stride :: stride] for key_ND, start in zip(keys, starts, strict=False)])


def tuned(segments: Sequence[Segment], built: Mapping[str, Any]) -> float:
    """Give the indexes their effort and return the recall of searching all segments with them."""
    entries = open_entries(segments, torch.device("cpu"))
    indexes: list[Index] = [
        _of_kept(segment, built.get(segment.record.name) or exact_index(torch.from_numpy(segment.searched_key_MD)))
        for segment in segments
    ]
    return tune_recall(Searcher(entries, indexes, segments[0].key_ND.shape[1]), list(built.values()))


def _of_kept(segment: Segment, index: Index) -> Index:
    """The index of a pruned segment under the numbers of all its entries."""
    return index if segment.kept_M is None else SubsetIndex(index, torch.from_numpy(segment.kept_M))


def without_index(record: SegmentRecord) -> SegmentRecord:
    """The record of a segment that is searched exactly."""
    return replace(record, files=_without_index(record), index={"kind": "exact", **pruning(record)})


def _indexed(segment: Segment, index: FaissIndex, recall: float, more: dict[str, Any] | None = None) -> SegmentRecord:
    """Save an index; the record of its segment with it."""
    # A name of its own: until the manifest changes, the old index must stay what it was.
    name = f"index-{secrets.token_hex(4)}.faiss"
    path = segment.folder / name
    index.save(path)
    with writing(path):
        sync(path)
    description = {**index.describe(), "recall": round(recall, 4), "file": name, **(more or {})}
    files = {**_without_index(segment.record), name: FileRecord.of(path)}
    return replace(segment.record, files=files, index={**description, **pruning(segment.record)})


def _without_index(record: SegmentRecord) -> dict[str, FileRecord]:
    return {name: file for name, file in record.files.items() if not name.startswith("index")}


def pruning(record: SegmentRecord) -> dict[str, Any]:
    """What the description of an index says of pruning."""
    return {"pruned": record.pruned} if record.pruned else {}


def _save_quantiser(folder: Path, quantiser: Quantiser) -> str:
    """Write the quantiser; its name tells its content."""
    path = folder / f"quantiser-{secrets.token_hex(4)}.faiss"
    quantiser.save(path)
    with writing(path):
        named = folder / f"quantiser-{FileRecord.of(path).sha256[:12]}.faiss"
        sync(path)
        path.rename(named)
        sync(folder)
    return named.name


def _open_quantiser(folder: Path, description: dict[str, Any], columns: int) -> Quantiser:
    """The quantiser of a segment whose index is described like this."""
    path = folder / description["quantiser"]["file"]
    found = _OPENED.get(path)
    if found is None:
        found = _OPENED[path] = Quantiser.load(path, description["factory"], columns, description.get("unit"))
    return found


def open_index(segment: AnySegment, key_ND: Tensor, nominate: str, remote: RemoteUse | None = None) -> Index:
    """The index that searches a segment.

    `auto`: on a GPU torch, in clusters where there are many entries; else the index that it has, in files or on a
    server, else torch.
    """
    kept_M, remote = segment.kept_M, remote or RemoteUse()
    if kept_M is None:
        return _open_index(segment, key_ND, nominate, remote)
    kept = torch.from_numpy(kept_M).to(key_ND.device)
    return SubsetIndex(_open_index(segment, key_ND, nominate, remote, kept), kept)


def _open_index(
    segment: AnySegment, key_ND: Tensor, nominate: str, remote: RemoteUse, kept_M: Tensor | None = None
) -> Index:
    """An index of all entries, or of the kept ones under numbers of their own; it copies keys only if it has to."""
    if nominate == "auto" and device_of(key_ND.device).index_files and segment.record.index["kind"] == "milvus":
        return open_remote(segment, remote)
    has_index = segment.record.index["kind"] == "faiss"
    if nominate == "exact":
        return ExactIndex(segment.searched_key_MD)
    from_files = device_of(key_ND.device).index_files and has_index and _has_faiss()
    if nominate == "torch" or (nominate == "auto" and not from_files):
        searched_MD = key_ND if kept_M is None else key_ND[kept_M]
        return exact_index(searched_MD) if nominate == "torch" else memory_index(searched_MD, tune_clusters)
    if isinstance(segment, Segment) and has_index:
        return _load_index(segment)
    return FaissIndex.build(segment.searched_key_MD, "Flat")


def _load_index(segment: Segment) -> FaissIndex:
    description = segment.record.index
    path = segment.folder / description["file"]
    columns, entries = segment.key_ND.shape[1], segment.record.kept
    if "quantiser" not in description:
        return FaissIndex.load(path, description, columns, entries)
    quantiser = _open_quantiser(segment.folder.parent, description, columns)
    return SharedIndex.load_with(path, quantiser, description["effort"], columns, entries)


def _has_faiss() -> bool:
    try:
        import_faiss()
    except MissingPackageError:
        return False
    return True
