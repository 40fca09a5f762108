"""What other programs do on the machine while something is timed."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def others_seconds() -> float | None:
    """CPU time that others than this process and its children took since the machine began; None where nobody tells.

    Time in which the machine itself was not given its CPUs counts: it goes to others, too.
    """
    try:
        # user, nice, system, idle, waiting for disks, interrupts (twice), taken away by the host
        user, nice, system, _, _, *rest = _numbers((_PROC / "stat").read_text(encoding="ascii").splitlines()[0])
        mine = sum(_cpu_ticks(pid) for pid in _own_processes())
    except (OSError, ValueError, IndexError):
        return None
    return (user + nice + system + sum(rest[:3]) - mine) / _TICKS


def _own_processes() -> list[int]:
    return [os.getpid(), *(child.pid for child in multiprocessing.active_children() if child.pid)]


def _cpu_ticks(pid: int) -> int:
    """User and system time; the name before them may hold blanks, but the last parenthesis is its own."""
    fields = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _numbers(line: str) -> list[int]:
    return [int(part) for part in line.split()[1:]]
