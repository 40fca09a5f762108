"""How a folder is mounted: on NFS, options may keep locks on the machine that takes them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_LOCAL = {"nolock", "local_lock=flock", "local_lock=all"}


def has_local_locks(handle: int) -> bool:
    """Whether other machines do not see the locks of an open file."""
    device = os.fstat(handle).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    return any(found == wanted and kind.startswith("nfs") and options & _LOCAL for found, kind, options in _mounts())


def _mounts() -> Iterator[tuple[str, str, set[str]]]:
    """Device, kind and options of each mount; none where the system does not tell."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        # 36 35 98:0 /root /mnt rw,noatime shared:1 - nfs server:/root rw,vers=3,nolock
        mount, _, file_system = line.partition(" - ")
        if len(mount.split()) > 2 and len(file_system.split()) > 2:
            yield mount.split()[2], file_system.split()[0], set(file_system.split()[2].split(","))
