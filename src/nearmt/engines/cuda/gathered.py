"""Nearest neighbours on a GPU, from keys that stay where they are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nearmt.contracts import Neighbours

#: Columns that a kernel reads at a time.
COLUMNS = 64


class GatheredKeys(NamedTuple):
    """The keys of all entries as kernels read them: most of them, and those that came later. Rows are contiguous."""

    key_ND: Tensor
    more_MD: Tensor

    @classmethod
    def of(cls, keys: list[Tensor]) -> GatheredKeys | None:
        """Those of a store's segments; None where kernels cannot run."""
        if not keys or not has_kernels(keys[0].device):
            return None
        return cls(keys[0], torch.cat(keys[1:]) if len(keys) > 1 else keys[0][:0])

    def arguments(self) -> tuple[Any, ...]:
        """As all kernels take them."""
        return self.key_ND, self.more_MD, len(self.key_ND), self.key_ND.stride(0)

    @property
    def more(self) -> bool:
        """Whether any came later."""
        return len(self.more_MD) > 0


@dataclass(frozen=True, eq=False)
class GatheredEntries:
    """What kernels read of entries: keys, target tokens, and how much each counts, if not all count alike."""

    keys: GatheredKeys
    token_N: Tensor
    weight_N: Tensor | None
    #: Whether a search does the same on a device whatever is asked, and waits for nothing.
    steady: bool


@cache
def has_kernels(device: torch.device) -> bool:
    """Whether kernels can run there. Triton comes with PyTorch for Nvidia's GPUs."""
    return device.type == "cuda" and find_spec("triton") is not None


def nearest_of(query_BD: Tensor, keys: GatheredKeys, candidate_BX: Tensor, k: int) -> Neighbours:
    """The k nearest of each row's candidates (-1: none) by squared distance, measured on the query's columns."""
    from nearmt.engines.cuda.search_kernels import nearest

    (rows, columns), width = query_BD.shape, candidate_BX.shape[1]
    entry_BK = torch.empty(rows, k, dtype=torch.long, device=query_BD.device)
    distance_BK = torch.empty(rows, k, device=query_BD.device)
    nearest[(rows,)](
        query_BD, *keys.arguments(), candidate_BX.contiguous(), width, entry_BK, distance_BK, k, columns,
        query_BD.stride(0), PLACES=power_of_two(max(width, k)), COLUMNS=COLUMNS, MORE=keys.more,
    )  # fmt: skip
    return Neighbours(entry_BK, distance_BK)


def power_of_two(number: int) -> int:
    """The smallest that is no smaller; kernels take no other sizes."""
    return 1 << max(0, number - 1).bit_length()
