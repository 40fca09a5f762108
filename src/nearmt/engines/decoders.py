"""Which engine runs a model."""

from __future__ import annotations

import torch

from nearmt.engines.cpu import kernels


def kernels_serve(precision: str, device: str) -> bool:
    """Whether the C kernels run a model of a known family in this precision on this device."""
    return torch.device(device).type == "cpu" and precision in ("fp32", "int8") and kernels() is not None
