"""The machine and the code behind a measurement, as recorded with every result."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

from nearmt.engines.cpu import kernels
from nearmt.models import ModelConfig, resolve_device


def describe_machine(model: ModelConfig) -> dict[str, Any]:
    """Describe the machine as far as it can change a number."""
    device = torch.device(resolve_device(model.device))
    return {
        "cpu": _cpu_name(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "precision": model.precision,
        "python": platform.python_version(),
        "torch": torch.__version__,
        # Whether nearmt's C kernels are available.
        "kernels": kernels() is not None,
    }


def describe_commit() -> str:
    """Return the commit of this checkout, or "unknown" outside a checkout."""
    folder = Path(__file__).parent
    try:
        command = ["git", "-C", str(folder), "describe", "--always", "--dirty"]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return found.stdout.strip() or "unknown"


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()
