"""Several indexes asked as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from nearmt.engines.base import Index
from nearmt.index.faiss import as_queries
from nearmt.index.shared import Assignment, SharedIndex
from nearmt.index.subset import SubsetIndex


def nominate_together(
    indexes: Sequence[Index], offsets: Sequence[int], query_BD: Tensor, count: int, allowed_N: Tensor | None
) -> Tensor:
    """Candidates of indexes that stand one behind the other, under one numbering, [B, at least count].

    Index i holds the entries from `offsets[i]` up to `offsets[i + 1]`. Those that share a quantiser assign the
    queries once and nominate together as many as one index of all their entries would.
    """
    candidates: list[Tensor] = []
    groups: dict[int, list[_Part]] = {}
    for index, (start, end) in zip(indexes, pairwise(offsets), strict=True):
        if start == end:
            continue
        part = _Part(index, start, None if allowed_N is None else allowed_N[start:end])
        shared = shared_index(index)
        if shared is not None:
            groups.setdefault(id(shared.quantiser), []).append(part)
        else:
            candidates.append(part.renumber(index.nominate(query_BD, count, part.allowed_X)))
    candidates += [_nominate_group(parts, query_BD, count) for parts in groups.values()]
    if not candidates:
        return torch.full((len(query_BD), count), -1, device=query_BD.device)
    return candidates[0] if len(candidates) == 1 else torch.cat(candidates, dim=1)


def shared_index(index: Index) -> SharedIndex | None:
    """The index in shared cells, if it is one, behind the numbers of a subset or not."""
    inner = index.inner if isinstance(index, SubsetIndex) else index
    return inner if isinstance(inner, SharedIndex) else None


@dataclass(frozen=True)
class _Part:
    """An index among others: where its entries begin, and which of them are allowed."""

    index: Index
    start: int
    allowed_X: Tensor | None

    def renumber(self, local_BX: Tensor) -> Tensor:
        return torch.where(local_BX >= 0, local_BX + self.start, -1) if self.start else local_BX

    def nominate_in(self, shared: SharedIndex, assigned: Assignment, wanted: int) -> tuple[Tensor, Tensor]:
        if not isinstance(self.index, SubsetIndex):
            local_BX, distance_BX = shared.nominate_in(assigned, wanted, self.allowed_X)
            return self.renumber(local_BX), distance_BX
        inner_BX, distance_BX = shared.nominate_in(assigned, wanted, self.index.inside(self.allowed_X))
        return self.renumber(self.index.outside(inner_BX)), distance_BX


def _nominate_group(parts: list[_Part], query_BD: Tensor, count: int) -> Tensor:
    """Candidates of indexes in the same cells: their codes are alike, so their distances can be compared."""
    indexes = [shared for part in parts if (shared := shared_index(part.index)) is not None]
    wanted = max(index.width(count) for index in indexes)
    assigned = indexes[0].quantiser.assign(as_queries(query_BD), max(index.effort for index in indexes))
    found = [part.nominate_in(index, assigned, wanted) for part, index in zip(parts, indexes, strict=True)]
    entry_BX, _ = found[0]
    if len(found) > 1:
        entry_BX = torch.cat([entry for entry, _ in found], dim=1)
        distance_BX = torch.cat([distance for _, distance in found], dim=1)
        entry_BX = entry_BX.gather(1, distance_BX.topk(wanted, dim=1, largest=False, sorted=False).indices)
    return entry_BX.to(query_BD.device)
