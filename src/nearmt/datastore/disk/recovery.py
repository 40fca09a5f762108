"""Recovery of stores whose replacement by nearmt 0.4, which took two renames, was interrupted.

A rebuild moved DIR to DIR.old and then DIR.building to DIR; a repair moved DIR to DIR.damaged and then DIR.repaired
to DIR. If it was killed in between, DIR is missing: the complete folder is renamed to DIR, and nothing is deleted.
"""

from __future__ import annotations

import warnings
from pathlib import Path

from nearmt.datastore.disk.files import sync, writer_lock
from nearmt.errors import NearmtWarning, writing

#: Folders that such a replacement leaves, in order of preference. One with a manifest is complete.
_LEFT = (".building", ".old", ".repaired")
_MANIFEST = "manifest.json"


def recover(folder: Path) -> None:
    """Restore the folder of a store after an interrupted replacement."""
    if folder.exists() or folder.is_symlink():
        return
    left = [folder.with_name(folder.name + suffix) for suffix in _LEFT]
    complete = next((path for path in left if (path / _MANIFEST).is_file()), None)
    if complete is None:
        return
    with writing(folder), writer_lock(complete):
        if folder.exists():  # another process was faster
            return
        complete.rename(folder)
        sync(folder.absolute().parent)
    told = f"{folder}: its replacement had been interrupted; {complete.name} is now {folder.name}"
    warnings.warn(told, NearmtWarning, stacklevel=3)
