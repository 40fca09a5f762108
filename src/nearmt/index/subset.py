"""An index of some of the entries, seen as one of all."""

from __future__ import annotations

import torch
from torch import Tensor

from nearmt.engines.base import Index


class SubsetIndex:
    """Translates between the numbers of all entries and those of an index that holds only some of them."""

    def __init__(self, inner: Index, kept_M: Tensor) -> None:
        """`inner` holds the entries `kept_M`, in this order."""
        self.inner, self.kept_M = inner, kept_M
        #: The lists and keys of the inner index have other numbers.
        self.complete, self.lists, self.scan = inner.complete, None, None

    def nominate(self, query_BD: Tensor, count: int, allowed_N: Tensor | None) -> Tensor:
        if not len(self.kept_M):
            return torch.full((len(query_BD), count), -1, device=query_BD.device)
        return self.outside(self.inner.nominate(query_BD, count, self.inside(allowed_N)))

    def inside(self, allowed_N: Tensor | None) -> Tensor | None:
        """The mask as the inner index has to see it."""
        return None if allowed_N is None else allowed_N[self.kept_M.to(allowed_N.device)]

    def outside(self, inner_BX: Tensor) -> Tensor:
        """Entries of the inner index under the numbers of all."""
        kept_M = self.kept_M.to(inner_BX.device)
        return torch.where(inner_BX >= 0, kept_M[inner_BX.clamp(min=0)], -1)
