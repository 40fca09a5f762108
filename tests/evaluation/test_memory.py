"""The peak of memory is that of the run, not of what was before."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nearmt.evaluation import memory
from nearmt.evaluation.memory import PeakMemory

CPU = torch.device("cpu")


def test_a_peak_is_seen_and_forgotten() -> None:
    before = PeakMemory(CPU)
    start = before.resident_mib()
    assert start is not None and start > 10
    block = torch.ones(64 << 18)  # 64 MiB
    peak = before.resident_mib()
    assert peak is not None and peak > start + 50
    del block
    after = PeakMemory(CPU).resident_mib()
    if memory._CLEAR.exists():
        assert after is not None and after < peak - 50
    assert before.device_mib() is None


def test_a_system_without_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = PeakMemory(CPU).resident_mib()
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "none")
    monkeypatch.setattr(memory, "_CLEAR", tmp_path / "none" / "none")
    otherwise = PeakMemory(CPU).resident_mib()
    assert told is not None and otherwise is not None and otherwise > 0.5 * told


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_device_memory() -> None:
    device = torch.device("cuda")
    peak = PeakMemory(device)
    start = peak.device_mib()
    block = torch.ones(64 << 18, device=device)
    del block
    found = peak.device_mib()
    assert start is not None and found is not None and found >= start + 64
