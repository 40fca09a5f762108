"""Which index a segment gets, and which one searches it."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nearmt.contracts import Index
from nearmt.datastore import FileRecord, Segment, SegmentRecord
from nearmt.datastore.files import sync
from nearmt.errors import MissingPackageError, writing
from nearmt.index import ExactIndex, SubsetIndex, TorchIndex
from nearmt.index.faiss import FaissIndex, default_factory, import_faiss, make_index
from nearmt.store.recall import tune_recall

SEARCHES = ("auto", "faiss", "torch", "exact")


def check_factory(factory: str, columns: int) -> None:
    """Refuse an index that cannot be made before hours are spent on what it would index."""
    if factory not in ("auto", "exact"):
        make_index(factory, columns)


def index_segment(folder: Path, record: SegmentRecord, columns: int, factory: str) -> SegmentRecord:
    """Build the index of a sealed segment (of its kept entries, if it is pruned) and measure its recall.

    `auto` chooses by size.
    """
    segment = Segment(folder / record.name, record, columns)
    files = {name: file for name, file in record.files.items() if not name.startswith("index")}
    pruned = {"pruned": record.pruned} if record.pruned else {}
    wanted = default_factory(record.kept) if factory == "auto" else factory
    if factory == "auto" and not _has_faiss():
        wanted = "exact"
    if wanted == "exact" or not record.kept:
        return replace(record, files=files, index={"kind": "exact", **pruned})
    key_MD = segment.searched_key_MD
    index = FaissIndex.build(key_MD, wanted)
    recall = tune_recall(index, torch.from_numpy(key_MD))
    # A name of its own: until the manifest changes, the old index must stay what it was.
    name = f"index-{secrets.token_hex(4)}.faiss"
    index.save(segment.folder / name)
    with writing(segment.folder / name):
        sync(segment.folder / name)
    description: dict[str, Any] = {**index.describe(), "recall": round(recall, 4), "file": name, **pruned}
    return replace(record, files={**files, name: FileRecord.of(segment.folder / name)}, index=description)


def open_index(segment: Segment, key_ND: Tensor, search: str) -> Index:
    """The index that searches a segment. `auto`: torch on a GPU, else FAISS where there is an index, else torch."""
    kept_M = segment.kept_M
    if kept_M is None:
        return _open_index(segment, key_ND, search)
    kept = torch.from_numpy(kept_M).to(key_ND.device)
    return SubsetIndex(_open_index(segment, key_ND, search, kept), kept)


def _open_index(segment: Segment, key_ND: Tensor, search: str, kept_M: Tensor | None = None) -> Index:
    """An index of all entries, or of the kept ones under numbers of their own; it copies keys only if it has to."""
    has_index = segment.record.index["kind"] == "faiss"
    if search == "exact":
        return ExactIndex(segment.searched_key_MD)
    if search == "torch" or (search == "auto" and (key_ND.is_cuda or not has_index or not _has_faiss())):
        return TorchIndex(key_ND if kept_M is None else key_ND[kept_M])
    if has_index:
        return FaissIndex.load(segment.folder / segment.record.index["file"], segment.record.index)
    return FaissIndex.build(segment.searched_key_MD, "Flat")


def _has_faiss() -> bool:
    try:
        import_faiss()
    except MissingPackageError:
        return False
    return True
