"""Freed memory is given back."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from nearmt.serve import heap


def test_trimming_does_no_harm() -> None:
    assert heap.trim() in (True, False)


@pytest.mark.parametrize("change", [heap.trim, heap.share])
def test_a_library_without_it_is_left_alone(monkeypatch: pytest.MonkeyPatch, change: Callable[[], bool]) -> None:
    monkeypatch.setattr("nearmt.serve.heap.ctypes.CDLL", lambda name: object())
    assert change() is False


_THREADS = """
import ctypes, sys, threading
from nearmt.serve.heap import share
if not hasattr(ctypes.CDLL(None), "malloc_info") or (sys.argv[1] == "share" and not share()):
    sys.exit("skip")
together = threading.Barrier(33)
def work():
    kept = [bytes(1000) for _ in range(100)]
    together.wait()
    together.wait()
threads = [threading.Thread(target=work) for _ in range(32)]
for thread in threads:
    thread.start()
together.wait()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
out = ctypes.c_void_p(libc.fopen(b"/dev/stdout", b"w"))
libc.malloc_info(0, out)
libc.fflush(out)
together.wait()
"""


def test_threads_share_a_heap() -> None:
    """In a process of its own: the setting stays."""
    counts = {}
    for mode in ("own", "share"):
        done = subprocess.run([sys.executable, "-c", _THREADS, mode], capture_output=True, text=True, check=False)
        if done.stderr.strip() == "skip":
            pytest.skip("this C library has no such setting")
        assert done.returncode == 0, done.stderr
        counts[mode] = done.stdout.count("<heap nr=")
    assert counts["share"] == 1 < counts["own"]


@pytest.fixture
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_what_stays_is_not_collected_again(thawed: None) -> None:
    before = gc.get_freeze_count()
    heap.settle()
    assert gc.get_freeze_count() > before + 1000


def test_it_happens_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[int] = []
    monkeypatch.setattr(heap, "trim", lambda: times.append(1))

    async def some_time() -> None:
        task = asyncio.ensure_future(heap.keep_trimmed(0.001))
        while len(times) < 3:
            await asyncio.sleep(0.001)
        task.cancel()

    asyncio.run(asyncio.wait_for(some_time(), 30))
