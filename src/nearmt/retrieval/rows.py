"""Numbers of rows, and their way from Python to where the tensors are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def on_device(numbers: Sequence[int], device: torch.device) -> Tensor:
    """A tensor of them; on a GPU the program does not wait for the copy."""
    # By way of numpy, which reads lists several times as fast.
    return torch.from_numpy(np.array(numbers, dtype=np.int64)).to(device, non_blocking=True)


def chosen(numbers: Sequence[int], count: int, device: torch.device) -> Tensor | slice:
    """What selects some of `count` rows: all of them, in their order, are selected without a copy."""
    return slice(None) if list(numbers) == list(range(count)) else on_device(numbers, device)


def ranks_of(owners: Sequence[int]) -> list[int]:
    """How many rows before each belong to the same owner."""
    seen = Counter[int]()
    ranks = []
    for owner in owners:
        ranks.append(seen[owner])
        seen[owner] += 1
    return ranks
