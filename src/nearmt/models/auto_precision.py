"""The number format that `precision = auto` stands for."""

from __future__ import annotations

from typing import Any

import torch

from nearmt.engines.cpu import kernels

#: Model types and activations that the CPU kernels serve, encoder and decoder (engines/cpu/layouts.py).
KERNEL_TYPES = ("marian", "mbart", "m2m_100", "fsmt")
KERNEL_ACTIVATIONS = ("relu", "silu", "swish", "gelu")


def resolve_precision(wanted: str, device: str, config: Any) -> str:
    """`auto` as bf16 on a GPU, int8 on a CPU whose kernels serve the model, else fp32; other values as they are."""
    if wanted != "auto":
        return wanted
    kind = torch.device(device).type
    if kind == "cuda":
        return "bf16"
    served = config.model_type in KERNEL_TYPES and config.activation_function in KERNEL_ACTIVATIONS
    return "int8" if kind == "cpu" and served and kernels() is not None else "fp32"
