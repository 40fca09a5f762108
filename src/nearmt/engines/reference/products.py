"""Products that need not be exact."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def fast_products(device: torch.device) -> Iterator[None]:
    """TF32 on a GPU: keys are fp16 and survive it unchanged, queries lose what the stored keys lost before."""
    if device.type != "cuda":
        yield
        return
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
