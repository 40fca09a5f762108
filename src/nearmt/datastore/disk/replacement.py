"""Replacing what a store holds: everything new is written beside it, and one rename of the manifest decides.

A build and a repair work in a folder inside the store. When that is complete, its parts get numbers that no part of
the store has, so that the manifest in force goes on naming what it named, and the new manifest takes its place.
Interrupted anywhere, the store is the old one or the new one.
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
    """The folder of a store; its name is on disk when this returns."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        sync(folder.absolute().parent)


def remove_unused(folder: Path) -> None:
    """Remove the folder of a build that came to nothing, if there is nothing else in it."""
    if {path.name for path in folder.iterdir()} <= {LOCK}:
        shutil.rmtree(folder)


def publish(work: Path, folder: Path, manifest: Manifest, lock: WriterLock) -> Manifest:
    """Make what was written in `work`, and what `manifest` says of it, the content of the store `folder`."""
    with writing(folder):
        lock.check()
        for name in (manifest.reduction_name, *manifest.quantisers):
            # Named after its content: where it is there already, the manifest in force may need it.
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
    manifest.save(folder)
    with writing(folder):
        shutil.rmtree(work)
    return manifest
