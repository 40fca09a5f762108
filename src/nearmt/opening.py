"""Opening files of a datastore without following symbolic links.

A store may come from an untrusted source. Its own path may be a link, since the user typed it; everything inside is
opened relative to the opened folder, component by component, and must be a folder or a regular file.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import IO, Any

from nearmt.errors import DatastoreError

#: Folders inside a store: segments, and the work folders of a build, of a repair and of the training of an adapter.
SEGMENT, BUILDING, REPAIRING, ADAPTING = r"segment-\d{6,}(-reduced)*", "building", "repairing", "adapting"
#: A path is inside the store from the first of these on.
_INNER = re.compile(f"{SEGMENT}|{BUILDING}|{REPAIRING}|{ADAPTING}")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def open_inside(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a file in a store and return its descriptor; anything but a regular file is refused."""
    names = [path.name]
    root = path.parent
    while _INNER.fullmatch(root.name):
        names.insert(0, root.name)
        root = root.parent
    folder = os.open(root, _FOLDER)
    try:
        for name in names[:-1]:
            inner = _opened(name, _FOLDER, folder, path)
            os.close(folder)
            folder = inner
        # Non-blocking, because opening a pipe waits for its other end.
        handle = _opened(names[-1], flags | os.O_CLOEXEC | os.O_NONBLOCK, folder, path)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise DatastoreError(f"{path}: not an ordinary file; a datastore has no others")
    return handle


def opened(path: Path, mode: str = "rb") -> IO[Any]:
    """Open a file in a store as a file object."""
    encoding = None if "b" in mode else "utf-8"
    return open(path, mode, encoding=encoding, opener=lambda _, flags: open_inside(path, flags))


def exists_inside(path: Path) -> bool:
    """Whether a regular file exists in a store; a link is refused, not followed."""
    try:
        os.close(open_inside(path))
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _opened(name: str, flags: int, folder: int, path: Path) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW, 0o666, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(name, folder):
            raise DatastoreError(
                f"{path}: '{name}' is a symbolic link; nearmt follows none inside a datastore: put the file there"
            ) from error
        raise OSError(error.errno, error.strerror, str(path)) from error


def _is_link(name: str, folder: int) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
