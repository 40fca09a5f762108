"""Memory of a server that runs for long.

glibc gives threads heaps of their own, and keeps what they free for later use in the same heap. Batches take and free
tensors of many megabytes, now in this thread, then in that one: every heap grows to the most that it ever held, and
their sum goes on growing while the memory in use does not. So all threads share one heap (few compute at a time, and
small blocks have caches of their own in each thread), and freed memory goes back to the system now and then.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import gc
from contextlib import suppress

#: Seconds between two times. What was freed spreads over the heap again while batches run.
INTERVAL = 5.0
#: The number of the setting in malloc.h.
_M_ARENA_MAX = -8


def share() -> bool:
    """Let all threads share one heap; False where the C library cannot.

    To be called before any thread is started: a heap that a thread was given stays in use.
    """
    with suppress(OSError, AttributeError):
        return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1))
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
