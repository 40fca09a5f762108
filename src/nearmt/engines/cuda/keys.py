"""Keys on a GPU as kernels read them, and the nearest of given candidates."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from nearmt.contracts import Neighbours
from nearmt.engines.cuda.sizes import power_of_two

#: Columns that a kernel reads at a time.
COLUMNS = 64


class SegmentedKeys(NamedTuple):
    """The keys of all entries: those of the first segment in place, those of later segments copied. Rows are
    contiguous."""

    key_ND: Tensor
    more_MD: Tensor

    @classmethod
    def of(cls, keys: list[Tensor]) -> SegmentedKeys:
        """The keys of the segments of a store."""
        return cls(keys[0], torch.cat(keys[1:]) if len(keys) > 1 else keys[0][:0])

    def arguments(self) -> tuple[Any, ...]:
        """The arguments of all kernels."""
        return self.key_ND, self.more_MD, len(self.key_ND), self.key_ND.stride(0)

    @property
    def more(self) -> bool:
        """Whether there are later segments."""
        return len(self.more_MD) > 0


def nearest_of(query_BD: Tensor, keys: SegmentedKeys, candidate_BX: Tensor, k: int) -> Neighbours:
    """The k nearest of each row's candidates (-1: none) by squared distance on the query's columns."""
    from nearmt.engines.cuda.search_kernels import nearest

    (rows, columns), width = query_BD.shape, candidate_BX.shape[1]
    entry_BK = torch.empty(rows, k, dtype=torch.long, device=query_BD.device)
    distance_BK = torch.empty(rows, k, device=query_BD.device)
    nearest[(rows,)](
        query_BD, *keys.arguments(), candidate_BX.contiguous(), width, entry_BK, distance_BK, k, columns,
        query_BD.stride(0), POSITIONS=power_of_two(max(width, k)), COLUMNS=COLUMNS, MORE=keys.more,
    )  # fmt: skip
    return Neighbours(entry_BK, distance_BK)
