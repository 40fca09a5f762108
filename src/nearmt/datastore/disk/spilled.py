"""Large derived arrays in temporary files, so that the system may drop their pages instead of keeping them in memory.

The files have no names: nothing of a text is left on disk when a process ends, however it does.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np

#: Smaller arrays stay in memory.
_LEAST = 1 << 20
#: On a disk; `/tmp` often is in memory.
_ON_DISK = Path("/var/tmp")


def spilled(array: np.ndarray) -> np.ndarray:
    """The same array, mapped from a file if it is large and a file can be written."""
    if array.nbytes < _LEAST:
        return array
    for folder in _folders():
        with suppress(OSError), tempfile.TemporaryFile(dir=folder) as file:
            file.write(np.ascontiguousarray(array).data)
            file.flush()
            # Private: tensors want memory that could be written.
            return np.memmap(file, array.dtype, mode="c", shape=array.shape)
    return array


def _folders() -> list[str]:
    """TMPDIR, if it is set, comes first."""
    stated = [os.environ["TMPDIR"]] if os.environ.get("TMPDIR") else []
    return [*stated, str(_ON_DISK), tempfile.gettempdir()]
