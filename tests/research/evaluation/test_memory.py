"""The peak of memory is that of the run, not of what was before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from nearmt.research.evaluation import memory
from nearmt.research.evaluation.memory import PeakMemory

CPU = torch.device("cpu")


_MEASURE = """
import torch
from nearmt.research.evaluation.memory import PeakMemory
before = PeakMemory(torch.device("cpu"))
start = before.resident_mib()
block = torch.ones(64 << 18)  # 64 MiB
peak = before.resident_mib()
del block
print(start, peak, PeakMemory(torch.device("cpu")).resident_mib(), before.device_mib())
"""


def test_a_peak_is_seen_and_forgotten() -> None:
    """In a process of its own: one that has run many tests holds memory that the system may take back meanwhile."""
    command = [sys.executable, "-c", _MEASURE]
    words = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    start, peak, after = (float(word) for word in words[:3])
    assert start > 10 and peak > start + 50
    assert after < peak - 50 or not memory._CLEAR.exists()
    assert words[3] == "None"


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
