"""Memory of a server that runs for long.

glibc gives threads heaps of their own, and keeps what they free for later use in the same heap. In a server with many
threads, whose memories are opened and compacted again and again, that grows to a multiple of what is in use. So threads
share a few heaps, and freed memory goes back to the system now and then.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import gc
from contextlib import suppress

#: Seconds between two times.
INTERVAL = 30.0
#: Heaps of all threads: few threads compute at a time. The number stands for the setting in malloc.h.
_HEAPS, _M_ARENA_MAX = 4, -8


def share() -> bool:
    """Let threads that begin later share a few heaps; False where the C library cannot."""
    with suppress(OSError, AttributeError):
        return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _HEAPS))
    return False


def settle() -> None:
    """What the server has made until now stays: the garbage collector does not look through it again.

    Programs and models are most of all objects, so that full collections become short, and frequent enough to free
    what later requests leave in cycles.
    """
    gc.collect()
    gc.freeze()
    # Extension modules complain about objects that the last collection does not see.
    atexit.register(gc.unfreeze)


def trim() -> bool:
    """Give freed memory back; False where the C library cannot."""
    with suppress(OSError, AttributeError):
        return bool(ctypes.CDLL(None).malloc_trim(0))
    return False


async def keep_trimmed(interval: float = INTERVAL) -> None:
    """Trim now and then, in a thread."""
    while True:
        await asyncio.sleep(interval)
        await asyncio.to_thread(trim)
