"""Replacing the content of a store by one rename of its manifest.

A build and a repair write new segments in a folder inside the store. When these are complete, they are moved to the
store under new numbers, so that the present manifest stays valid, and then the manifest is replaced. Whenever this is
interrupted, the store is the old one or the new one.
"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

from nearmt.datastore.disk.file_names import log_name, next_number, segment_name
from nearmt.datastore.disk.files import LOCK, WriterLock, sha256, sync
from nearmt.datastore.disk.manifest import Manifest, live_names
from nearmt.errors import writing
from nearmt.opening import exists_inside


def make_folder(folder: Path) -> None:
    """Create the folder of a store and sync its name."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        sync(folder.absolute().parent)


def remove_unused(folder: Path) -> None:
    """Remove the folder of a build without pairs, if it contains nothing else."""
    if {path.name for path in folder.iterdir()} <= {LOCK}:
        shutil.rmtree(folder)


def publish(work: Path, folder: Path, manifest: Manifest, lock: WriterLock) -> Manifest:
    """Replace the content of the store `folder` by the segments in `work` that `manifest` describes."""
    with writing(folder):
        lock.check()
        for name in manifest.shared_names:
            # Named after its content: an existing file is kept, the present manifest may name it.
            if not (exists_inside(folder / name) and sha256(folder / name) == sha256(work / name)):
                (work / name).replace(folder / name)
        first = next_number(folder, "segment")
        records = []
        for number, record in enumerate(manifest.segments, first):
            (work / record.name).rename(folder / segment_name(number))
            records.append(dataclasses.replace(record, name=segment_name(number)))
        log = manifest.log and log_name(next_number(folder, "log"))
        for old, new in zip(live_names(manifest.log), live_names(log), strict=True):
            if (work / old).exists():
                (work / old).rename(folder / new)
        manifest = dataclasses.replace(manifest, segments=tuple(records), log=log)
        lock.check()
    manifest = manifest.save(folder)
    with writing(folder):
        shutil.rmtree(work)
    return manifest
