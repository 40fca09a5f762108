"""The CPU load of other programs while a system is timed."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def other_cpu_seconds() -> float | None:
    """CPU time since boot used by processes other than this one and its children; None where /proc has no answer.

    Time stolen by the host of a virtual machine is included.
    """
    try:
        # user, nice, system, idle, iowait, irq, softirq, steal
        user, nice, system, _, _, *rest = _numbers((_PROC / "stat").read_text(encoding="ascii").splitlines()[0])
        own = sum(_cpu_ticks(pid) for pid in _own_processes())
    except (OSError, ValueError, IndexError):
        return None
    return (user + nice + system + sum(rest[:3]) - own) / _TICKS


def _own_processes() -> list[int]:
    return [os.getpid(), *(child.pid for child in multiprocessing.active_children() if child.pid)]


def _cpu_ticks(pid: int) -> int:
    """User and system time; fields are counted from the last parenthesis, because the name may contain blanks."""
    fields = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _numbers(line: str) -> list[int]:
    return [int(part) for part in line.split()[1:]]
