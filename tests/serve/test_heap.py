"""Freed memory is given back."""

from __future__ import annotations

import asyncio

import pytest

from nearmt.serve import heap


def test_trimming_does_no_harm() -> None:
    assert heap.trim() in (True, False)


def test_a_library_without_it_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearmt.serve.heap.ctypes.CDLL", lambda name: object())
    assert heap.trim() is False


def test_it_happens_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[int] = []
    monkeypatch.setattr(heap, "trim", lambda: times.append(1))

    async def some_time() -> None:
        task = asyncio.ensure_future(heap.keep_trimmed(0.001))
        while len(times) < 3:
            await asyncio.sleep(0.001)
        task.cancel()

    asyncio.run(asyncio.wait_for(some_time(), 30))
