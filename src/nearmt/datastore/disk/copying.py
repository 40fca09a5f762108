"""Copies of a store's files: sealed files are hard-linked, since they are never written to; others are copied."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from nearmt.datastore.disk.files import LOCK, sync
from nearmt.errors import writing
from nearmt.opening import BUILDING, REPAIRING, opened


def set_aside(folder: Path) -> Path:
    """Copy a store to DIR.damaged (or DIR.damaged-2, ...) and return the copy's path."""
    kept_as, number = folder.with_name(folder.name + ".damaged"), 1
    while kept_as.exists():
        number += 1
        kept_as = folder.with_name(f"{folder.name}.damaged-{number}")
    partial = kept_as.with_name(kept_as.name + ".partial")
    with writing(partial):
        shutil.rmtree(partial, ignore_errors=True)
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            if name.parts[0] not in (LOCK, BUILDING, REPAIRING):
                _keep(path, partial / name, sealed=len(name.parts) > 1)
        sync(partial)
        partial.rename(kept_as)
        sync(kept_as.absolute().parent)
    return kept_as


def _keep(path: Path, target: Path, sealed: bool) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        target.symlink_to(path.readlink())
    elif path.is_file():
        (link if sealed else copy)(path, target)


def link(source: Path, target: Path) -> None:
    """Hard-link a sealed file; copy it where the file system has no hard links."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        copy(source, target)


def copy(source: Path, target: Path) -> None:
    with writing(target):
        with opened(source) as file, opened(target, "wb") as new:
            shutil.copyfileobj(file, new)
        sync(target)
