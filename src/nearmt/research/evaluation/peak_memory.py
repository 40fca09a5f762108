"""Peak memory of a run."""

from __future__ import annotations

import contextlib
import re
import sys
from pathlib import Path

import torch

_STATUS = Path("/proc/self/status")
#: Writing 5 here resets Linux's peak.
_CLEAR = Path("/proc/self/clear_refs")
_MIB = 1 << 20


class PeakMemory:
    """Peak memory of this process since the object was made, or since the process began where it cannot be reset."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        with contextlib.suppress(OSError):
            _CLEAR.write_text("5", encoding="ascii")
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)

    def resident_mib(self) -> float | None:
        """Peak resident memory, including mapped files that were read; None if the system does not report it."""
        try:
            kib = re.search(r"^VmHWM:\s*(\d+) kB", _STATUS.read_text(encoding="ascii"), re.MULTILINE)
        except OSError:
            kib = None
        if kib is not None:
            return round(int(kib.group(1)) / 1024, 1)
        try:
            import resource
        except ImportError:  # Windows
            return None
        unit = 1 if sys.platform == "darwin" else 1024
        return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / _MIB, 1)

    def device_mib(self) -> float | None:
        """Peak memory of tensors on the GPU; None on the CPU."""
        if self._device.type != "cuda":
            return None
        return round(torch.cuda.max_memory_allocated(self._device) / _MIB, 1)
