"""Row numbers of slots, and their way from Python to a device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def on_device(numbers: Sequence[int], device: torch.device) -> Tensor:
    """A tensor of numbers; the copy to a GPU does not block."""
    # By way of numpy, which reads lists several times as fast.
    return torch.from_numpy(np.array(numbers, dtype=np.int64)).to(device, non_blocking=True)


def rows_of(slots: Sequence[int], each: int, wanted: int, count: int, device: torch.device) -> Tensor | slice:
    """The first `wanted` of the `each` rows of some of `count` slots; all rows in order are a slice, without a copy."""
    if wanted == each and list(slots) == list(range(count)):
        return slice(None)
    return on_device([slot * each + row for slot in slots for row in range(wanted)], device)
