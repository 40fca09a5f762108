"""The peak is that of the run, not of earlier work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from nearmt.research.evaluation import peak_memory
from nearmt.research.evaluation.peak_memory import PeakMemory

CPU = torch.device("cpu")


_MEASURE = """
import torch
from nearmt.research.evaluation.peak_memory import PeakMemory
before = PeakMemory(torch.device("cpu"))
start = before.resident_mib()
block = torch.ones(64 << 18)  # 64 MiB
peak = before.resident_mib()
del block
print(start, peak, PeakMemory(torch.device("cpu")).resident_mib(), before.device_mib())
"""


def test_peak_is_measured_and_reset() -> None:
    """In a separate process: the memory of this one may shrink during the test."""
    command = [sys.executable, "-c", _MEASURE]
    words = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    start, peak, after = (float(word) for word in words[:3])
    assert start > 10 and peak > start + 50
    assert after < peak - 50 or not peak_memory._CLEAR.exists()
    assert words[3] == "None"


def test_peak_without_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_proc = PeakMemory(CPU).resident_mib()
    monkeypatch.setattr(peak_memory, "_STATUS", tmp_path / "none")
    monkeypatch.setattr(peak_memory, "_CLEAR", tmp_path / "none" / "none")
    without_proc = PeakMemory(CPU).resident_mib()
    assert with_proc is not None and without_proc is not None and without_proc > 0.5 * with_proc


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_peak_on_a_gpu() -> None:
    device = torch.device("cuda")
    peak = PeakMemory(device)
    start = peak.device_mib()
    block = torch.ones(64 << 18, device=device)
    del block
    found = peak.device_mib()
    assert start is not None and found is not None and found >= start + 64
