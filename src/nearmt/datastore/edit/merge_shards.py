"""Joining the parts of a corpus (`shards`) to the datastore that a single build of the whole corpus would give.

Files of the parts are hard-linked where the file system has hard links, so that no keys are copied; each part becomes
a segment. Only the index, which covers all of them, and the calibration are new.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nearmt import __version__
from nearmt.datastore.disk import Manifest, SegmentRecord
from nearmt.datastore.disk.copying import link
from nearmt.datastore.disk.file_names import segment_name
from nearmt.datastore.disk.files import writer_lock
from nearmt.datastore.disk.replacement import make_folder
from nearmt.datastore.edit.build import check_free, now, replace_content
from nearmt.datastore.edit.calibrating import calibrated
from nearmt.datastore.edit.shards import shard_of
from nearmt.datastore.search.index_store import Indexing, check_index, index_store
from nearmt.datastore.search.indexing import chosen_factory, without_index
from nearmt.errors import ConfigError, DatastoreError, writing
from nearmt.models import TranslationModel
from nearmt.opening import BUILDING
from nearmt.reduction import Reduction

#: What the parts of a corpus must have in common, and how it is called.
_COMMON = {
    "fingerprint": "model",
    "source_lang": "source language",
    "target_lang": "target language",
    "key_layer": "key layer",
    "precision": "precision",
    "reduction": "reduction",
    "marks": "way of marking protected spans",
    "cleaning": "cleaning rules",
}


def merge_shards(
    path: Path,
    shards: Sequence[Path],
    model: TranslationModel,
    indexing: Indexing | str = "auto",
    *,
    overwrite: bool = False,
) -> Manifest:
    """Join all parts of a corpus, given in any order, to the datastore `path`. The parts stay as they are."""
    check_free(path, overwrite)
    indexing = Indexing(indexing) if isinstance(indexing, str) else indexing
    parts = ordered_parts(shards)
    first = parts[0][1]
    check_index(indexing, first.columns)
    make_folder(path)
    with writer_lock(path) as lock:
        check_free(path, overwrite)
        work = path / BUILDING
        manifest = _linked(work, parts)
        # The index is that of the whole, however small some of the parts are.
        indexing = dataclasses.replace(indexing, factory=chosen_factory(indexing.factory, manifest.kept))
        records = index_store(work, manifest, manifest.segments, indexing)
        reduction = Reduction.load(work / manifest.reduction_name, manifest.columns)
        return replace_content(work, lock, calibrated(work, manifest, reduction, records, model))


def ordered_parts(shards: Sequence[Path]) -> list[tuple[Path, Manifest]]:
    """The parts in corpus order; an error if one is missing, given twice, or of another corpus or model."""
    if not shards:
        raise ConfigError("no parts to merge; `nearmt build --shard I/N` makes them")
    found = [(path, manifest, shard_of(path, manifest)) for path in shards if (manifest := Manifest.load(path))]
    found.sort(key=lambda part: part[2]["number"])
    path, manifest, mark = found[0]
    for other, its_manifest, its_mark in found[1:]:
        _check_alike(path, manifest, mark, other, its_manifest, its_mark)
    _check_complete([(path, mark["number"]) for path, _, mark in found], mark["count"])
    position = 0
    for path, manifest, mark in found:
        if manifest.pairs and mark["first"] != position:
            raise DatastoreError(f"{path}: begins at pair {mark['first']:,} of the corpus instead of {position:,}")
        position += manifest.pairs
    if position != mark["pairs"]:
        raise DatastoreError(f"the parts have {position:,} pairs, the corpus has {mark['pairs']:,}: build them again")
    return [(path, manifest) for path, manifest, _ in found]


def _check_alike(
    path: Path, mine: Manifest, mark: dict[str, Any], other: Path, its: Manifest, its_mark: dict[str, Any]
) -> None:
    both = f"{path} and {other}: cannot be merged"
    if mark["count"] != its_mark["count"]:
        raise DatastoreError(f"{both}: one of {mark['count']} parts, one of {its_mark['count']}")
    if any(mark[name] != its_mark[name] for name in ("pairs", "characters", "digest")):
        raise DatastoreError(f"{both}: parts of different corpora, or of a corpus that has changed in between")
    for name, what in _COMMON.items():
        if getattr(mine, name) != getattr(its, name):
            raise DatastoreError(f"{both}: another {what} ({getattr(mine, name)!r}, {getattr(its, name)!r})")


def _check_complete(numbered: Sequence[tuple[Path, int]], count: int) -> None:
    by_number: dict[int, Path] = {}
    for path, number in numbered:
        if number in by_number:
            raise DatastoreError(f"{by_number[number]} and {path}: both are part {number} of {count}")
        by_number[number] = path
    if missing := [str(number) for number in range(1, count + 1) if number not in by_number]:
        more = ", ..." if len(missing) > 8 else ""
        raise DatastoreError(f"of {count} parts these are missing: {', '.join(missing[:8])}{more}")


def _linked(work: Path, parts: Sequence[tuple[Path, Manifest]]) -> Manifest:
    """Link the files of all parts into a folder, compare them with their records, and describe them together."""
    first_path, first = parts[0]
    with writing(work):
        # What an unfinished build left.
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        link(first_path / first.reduction_name, work / first.reduction_name)
    records: list[SegmentRecord] = []
    for path, manifest in parts:
        for record in manifest.segments:
            name = segment_name(1 + len(records))
            bare = dataclasses.replace(without_index(record), name=name)
            with writing(work / name):
                (work / name).mkdir()
                for file in bare.files:
                    link(path / record.name / file, work / name / file)
            records.append(bare)
    merged = dataclasses.replace(first, segments=tuple(records), shard=None, nearmt=__version__, created=now())
    merged.check_files(work)
    return merged
