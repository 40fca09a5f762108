"""A file layer that forgets what was not synced: at every step of a change, the disk that a power cut would leave.

Real files are written; `os.fsync` tells which content of a file, and which names of a folder, are safe. A power cut may
keep no name that was not synced, or all of them: file systems write names and contents in any order.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

#: What changes names; a power cut is tried before each of them, and before every sync.
_CHANGES = ("rename", "replace", "unlink", "rmdir", "mkdir", "link")


class ForgetfulDisk:
    """Knows what of a folder is safe; writes what a power cut would leave of it elsewhere."""

    def __init__(self, root: Path, cuts: Path) -> None:
        self.root, self._cuts = root, cuts
        self._names: dict[int, dict[str, int]] = {}
        self._contents: dict[int, bytes] = {}
        #: An open file keeps its number: no other file can get it.
        self._kept_open: list[int] = []
        self.states: list[Path] = []
        self._writing = False
        for path in (root, *root.rglob("*")):
            self._keep(os.open(path, os.O_RDONLY))

    def _keep(self, handle: int) -> None:
        found = os.fstat(handle)
        if stat.S_ISDIR(found.st_mode):
            with os.scandir(handle) as entries:
                self._names[found.st_ino] = {entry.name: entry.inode() for entry in entries}
        else:
            self._contents[found.st_ino] = os.pread(handle, found.st_size, 0)
        self._kept_open.append(handle)

    def sync(self, handle: int) -> None:
        if os.fstat(handle).st_dev == self.root.stat().st_dev:
            self._keep(os.open(f"/dev/fd/{handle}", os.O_RDONLY))

    def cut(self) -> None:
        """Note both kinds of disk that a power cut at this moment may leave."""
        if self._writing:
            return
        self._writing = True
        for all_names in (False, True):
            target = self._cuts / f"{len(self.states):04d}"
            self._write(self.root if all_names else None, self.root.stat().st_ino, target)
            self.states.append(target)
        self._writing = False

    def _write(self, real: Path | None, number: int, target: Path) -> None:
        target.mkdir(parents=True)
        if real is None:
            names = self._names.get(number, {})
        else:
            names = {path.name: path.lstat().st_ino for path in real.iterdir()}
        for name, inner in names.items():
            is_folder = (real / name).is_dir() if real is not None else inner not in self._contents
            if is_folder and (real is not None or inner in self._names):
                self._write(None if real is None else real / name, inner, target / name)
            else:
                (target / name).write_bytes(self._contents.get(inner, b""))

    def close(self) -> None:
        for handle in self._kept_open:
            os.close(handle)


@contextmanager
def forgetful(root: Path, cuts: Path) -> Iterator[ForgetfulDisk]:
    """Watch what is done to files below `root`."""
    disk = ForgetfulDisk(root, cuts)
    real_sync = os.fsync

    def fsync(handle: int) -> None:
        disk.cut()
        real_sync(handle)
        disk.sync(handle)

    def watched(change: Callable[..., object]) -> Callable[..., object]:
        def changing(*args: object, **options: object) -> object:
            disk.cut()
            return change(*args, **options)

        return changing

    try:
        with pytest.MonkeyPatch.context() as patch:
            for name in _CHANGES:
                patch.setattr(os, name, watched(getattr(os, name)))
            patch.setattr(os, "fsync", fsync)
            yield disk
        disk.cut()
    finally:
        disk.close()
