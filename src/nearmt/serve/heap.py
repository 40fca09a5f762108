"""Freed memory goes back to the system.

glibc keeps what threads free for later use by the same thread. In a server with many threads, whose memories are opened
and compacted again and again, that grows to a multiple of what is in use.
"""

from __future__ import annotations

import asyncio
import ctypes
from contextlib import suppress

#: Seconds between two times.
INTERVAL = 30.0


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
