"""Several indexes asked as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nearmt.engines.base import Index, KeyScan, RowSearch
from nearmt.engines.cpu.lists import InvertedLists
from nearmt.engines.reference.exact_index import nominate_by_scans
from nearmt.index.faiss import as_queries
from nearmt.index.milvus import MilvusIndex, Rows, nominate_rows
from nearmt.index.shared import Assignment, Quantiser, SharedIndex
from nearmt.index.subset import SubsetIndex


def nominate_together(
    indexes: Sequence[Index], offsets: Sequence[int], query_BD: Tensor, count: int, allowed_N: Tensor | None
) -> Tensor:
    """Candidates of indexes that stand one behind the other, under one numbering, [B, at least count].

    Index i holds the entries from `offsets[i]` up to `offsets[i + 1]`. Those that share a quantiser, those that are in
    one collection of a server, and those that compare with every key, nominate together what one index of all their
    entries would.
    """
    candidates: list[Tensor] = []
    remote: dict[int, list[Rows]] = {}
    groups: dict[int, list[_Part]] = {}
    scans: list[tuple[KeyScan, int, Tensor | None]] = []
    for index, (start, end) in zip(indexes, pairwise(offsets), strict=True):
        if start == end:
            continue
        part = _Part(index, start, None if allowed_N is None else allowed_N[start:end])
        shared, rows = shared_index(index), part.rows()
        if shared is not None:
            groups.setdefault(id(shared.quantiser), []).append(part)
        elif rows is not None:
            remote.setdefault(id(rows.index.collection), []).append(rows)
        elif index.scan is not None:
            scans.append((index.scan, start, part.allowed_X))
        else:
            candidates.append(part.renumber(index.nominate(query_BD, count, part.allowed_X)))
    if scans:
        candidates.append(nominate_by_scans(scans, query_BD, count))
    candidates += [_nominate_group(parts, query_BD, count) for parts in groups.values()]
    candidates += [nominate_rows(rows, query_BD, count) for rows in remote.values()]
    if not candidates:
        return torch.full((len(query_BD), count), -1, device=query_BD.device)
    return candidates[0] if len(candidates) == 1 else torch.cat(candidates, dim=1)


def shared_index(index: Index) -> SharedIndex | None:
    """The index in shared cells, if it is one, behind the numbers of a subset or not."""
    inner = index.inner if isinstance(index, SubsetIndex) else index
    return inner if isinstance(inner, SharedIndex) else None


def remote_index(index: Index) -> MilvusIndex | None:
    """The index on a server, if it is one, behind the numbers of a subset or not."""
    inner = index.inner if isinstance(index, SubsetIndex) else index
    return inner if isinstance(inner, MilvusIndex) else None


@dataclass(frozen=True)
class JoinedIndexes:
    """Indexes of whole segments in the same clusters, searched as one index of all their entries would be."""

    quantiser: Quantiser
    lists: InvertedLists
    effort: int
    oversampling: int

    @classmethod
    def of(cls, indexes: Sequence[Index], starts: Sequence[int]) -> JoinedIndexes | None:
        """None if they do not share clusters, or no kernel scans these."""
        shared = [index for index in indexes if isinstance(index, SharedIndex)]
        if not shared or len(shared) < len(indexes) or len({id(index.quantiser) for index in shared}) > 1:
            return None
        lists = shared[0].quantiser.joined(shared, starts)
        if lists is None:
            return None
        effort, width = max(index.effort for index in shared), max(index.width(1) for index in shared)
        return cls(shared[0].quantiser, lists, effort, width)

    def nominate(self, query_BD: Tensor, count: int) -> Tensor:
        assigned = self.quantiser.assign(as_queries(query_BD), self.effort)
        code_BD, cluster_BP = torch.from_numpy(assigned.query_BD), torch.from_numpy(assigned.cluster_BP)
        return self.lists.nearest(code_BD, cluster_BP, count * self.oversampling)[0]

    def row_search(self, keys: Any, k: int) -> RowSearch:
        """A search for k neighbours, measured by the engine's own form of the stored keys."""
        return partial(self._search_rows, keys, k)

    def _search_rows(
        self, keys: Any, k: int, query_BD: Tensor, row_R: np.ndarray | None, entry_BX: Tensor, distance_BX: Tensor, /
    ) -> int:
        rows = slice(None) if row_R is None else torch.from_numpy(row_R)
        query_RD = query_BD[rows]
        entry_RK, distance_RK = keys.nearest(query_RD, self.nominate(query_RD, k), k)
        entry_BX[rows], distance_BX[rows] = -1, torch.inf
        entry_BX[rows, :k], distance_BX[rows, :k] = entry_RK, distance_RK
        return int((entry_RK[:, -1] < 0).sum())


@dataclass(frozen=True)
class _Part:
    """An index among others: where its entries begin, and which of them are allowed."""

    index: Index
    start: int
    allowed_X: Tensor | None

    def renumber(self, local_BX: Tensor) -> Tensor:
        return torch.where(local_BX >= 0, local_BX + self.start, -1) if self.start else local_BX

    def rows(self) -> Rows | None:
        """The rows on a server, if the index is there."""
        found = remote_index(self.index)
        kept_M = self.index.kept_M if isinstance(self.index, SubsetIndex) else None
        return None if found is None else Rows(found, self.start, self.allowed_X, kept_M)

    def nominate_in(self, shared: SharedIndex, assigned: Assignment, wanted: int) -> tuple[Tensor, Tensor]:
        if not isinstance(self.index, SubsetIndex):
            local_BX, distance_BX = shared.nominate_in(assigned, wanted, self.allowed_X)
            return self.renumber(local_BX), distance_BX
        inner_BX, distance_BX = shared.nominate_in(assigned, wanted, self.index.inside(self.allowed_X))
        return self.renumber(self.index.outside(inner_BX)), distance_BX


def _nominate_group(parts: list[_Part], query_BD: Tensor, count: int) -> Tensor:
    """Candidates of indexes in the same cells: their codes are alike, so their distances can be compared."""
    joined = None
    if len(parts) > 1 and all(part.allowed_X is None for part in parts):
        joined = JoinedIndexes.of([part.index for part in parts], [part.start for part in parts])
    if joined is not None:
        return joined.nominate(query_BD, count).to(query_BD.device)
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
