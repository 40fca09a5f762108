"""Keeping replaced files for a while: processes on other machines may still read them.

Where a folder is shared over a network, removing a file takes it away from readers on other machines, even from those
that have it open or mapped. So a manifest lists what it has replaced, and since when. Readers follow the manifest, and
a change after the grace period removes the files. A replaced segment is marked by an empty file as well, so that it is
not taken for a part of the store when the manifest is lost.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from nearmt.datastore.disk.file_names import is_ours
from nearmt.opening import exists_inside, open_inside

_MARK = "replaced"


def still_kept(
    replaced: Mapping[str, float], before: Collection[str], after: Collection[str], seconds: float
) -> dict[str, float]:
    """What a new manifest keeps, and since when each name is replaced: the names of the manifest before it that it does
    not use itself, and those that were `replaced` earlier and for less than some seconds."""
    now = time.time()
    # A time in the future is that of another clock.
    since = {**dict.fromkeys(before, now), **{name: min(then, now) for name, then in replaced.items()}}
    gone = {name: then for name, then in sorted(since.items()) if name not in after and now - then < seconds}
    # A segment stays as a whole.
    return {name: then for name, then in gone.items() if name.rpartition("/")[0] not in gone}


def mark(folder: Path, kept: Collection[str]) -> None:
    """Mark the segments that are kept and no longer part of the store."""
    for name in kept:
        if (folder / name).is_dir() and not is_marked(folder / name):
            os.close(open_inside(folder / name / _MARK, os.O_WRONLY | os.O_CREAT))


def is_marked(segment: Path) -> bool:
    """Whether a segment is no longer part of the store."""
    return exists_inside(segment / _MARK)


def remove_unnamed(folder: Path, named: Collection[str], kept: Collection[str]) -> None:
    """Remove files of nearmt that are neither named nor kept; links are removed, never followed."""
    for path in filter(is_ours, folder.iterdir()):
        if path.name in kept:
            continue
        if path.is_symlink() or not path.is_dir():
            if path.name not in named:
                path.unlink()
        elif path.name not in named:
            shutil.rmtree(path)
        else:
            for file in path.iterdir():
                name = f"{path.name}/{file.name}"
                if name not in named and name not in kept:
                    file.unlink()
