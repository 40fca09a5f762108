"""The nearest neighbours of all entries of a store among themselves.

Entries with equal keys are grouped first, and distinct keys are searched: otherwise a thousand repetitions of a
sentence would all have the same few neighbours. Few distinct keys are compared exhaustively; many are clustered, and
neighbours are searched in an entry's own cluster and the nearest other clusters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nearmt.datastore.search.recall import sample
from nearmt.engines.choose import exact_index
from nearmt.engines.reference.clusters import find_centres, nearest_centre
from nearmt.engines.reference.distances import squared_l2
from nearmt.engines.reference.entries import EntryTable
from nearmt.engines.reference.exact_index import TorchIndex

#: Up to this number of distinct keys, all are compared with all.
EXACT_UP_TO = 100_000
#: Keys sampled for clustering, for each cluster.
_SAMPLED_PER_CLUSTER = 64
#: Clusters searched for neighbours: an entry's own, and those with the nearest centres.
_PROBED = 8
#: Entries processed at a time.
_BLOCK = 65_536
#: Queries compared at a time with all keys of a cluster.
_QUERIES = 1024
# Additional candidates: distances by matrix products are imprecise, and are computed again from differences.
_SPARE = 6

#: Called with the number of entries done in a phase.
Done = Callable[[int], None]


@dataclass(frozen=True)
class KeyGroups:
    """Entries grouped by equal keys: the members of a group are contiguous, in corpus order."""

    member_N: Tensor
    #: Where each group begins in `member_N`, and the end of the last one, [U + 1].
    start_U: Tensor
    #: The group of each entry.
    group_N: Tensor

    def __len__(self) -> int:
        return len(self.start_U) - 1

    @property
    def first_U(self) -> Tensor:
        """The first entry of each group, [U]."""
        return self.member_N[self.start_U[:-1]]


def group_equal_keys(entries: EntryTable, columns: int, done: Done) -> KeyGroups:
    """Group entries by a hash of their keys; equal hashes are verified by comparing the keys."""
    generator = torch.Generator().manual_seed(0)
    factor_D = torch.randint(-(2**62), 2**62, (columns,), generator=generator).to(entries.device) | 1
    hashes = []
    for entry_B in torch.arange(len(entries), device=entries.device).split(_BLOCK):
        # Adding zero turns -0.0 into 0.0, so that equal keys have equal bits.
        bits_BD = (entries.keys(entry_B, columns) + 0.0).view(torch.int32)
        hashes.append((bits_BD * factor_D).sum(dim=1))
        done(int(entry_B[-1]) + 1)
    hash_N, member_N = torch.cat(hashes).sort(stable=True)
    begins_N = torch.ones(len(entries), dtype=torch.bool, device=entries.device)
    alike = (hash_N[1:] == hash_N[:-1]).nonzero().flatten() + 1
    for position_B in alike.split(_BLOCK):
        own, before = (entries.keys(member_N[position_B - shift], columns) for shift in (0, 1))
        begins_N[position_B] = (own != before).any(dim=1)
    group_N = torch.empty_like(member_N)
    group_N[member_N] = begins_N.cumsum(dim=0) - 1
    end = torch.tensor([len(entries)], device=entries.device)
    return KeyGroups(member_N, torch.cat([begins_N.nonzero().flatten(), end]), group_N)


@dataclass(frozen=True)
class Cluster:
    """Groups whose neighbours are searched together."""

    own_X: Tensor
    #: The groups that are searched, own ones first.
    searched_Y: Tensor


def cluster(entries: EntryTable, columns: int, groups: KeyGroups, done: Done) -> list[Cluster]:
    """One cluster of all groups, or as many clusters as the square root of their number."""
    first_U = groups.first_U
    if len(groups) <= EXACT_UP_TO:
        every_U = torch.arange(len(groups), device=entries.device)
        return [Cluster(every_U, every_U)]
    count = round(math.sqrt(len(groups)))
    sampled_S = sample(len(groups), _SAMPLED_PER_CLUSTER * count).to(entries.device)
    centre_CD = find_centres(entries.keys(first_U[sampled_S], columns), count)
    cluster_U = torch.empty_like(first_U)
    for start in range(0, len(groups), _BLOCK):
        block = slice(start, start + _BLOCK)
        cluster_U[block] = nearest_centre(entries.keys(first_U[block], columns), centre_CD)
        done(min(start + _BLOCK, len(groups)))
    sizes = torch.bincount(cluster_U, minlength=count).tolist()
    members = cluster_U.argsort(stable=True).split(sizes)
    every_C = torch.arange(count, device=entries.device)
    nearest = [
        _nearest_others(exact_index(centre_CD), centre_CD, own_B, _PROBED - 1) for own_B in every_C.split(_QUERIES)
    ]
    probed = [[number for number in row if number >= 0] for row in torch.cat(nearest).tolist()]
    return [
        Cluster(own_X, torch.cat([own_X, *(members[other] for other in probed[number])]))
        for number, own_X in enumerate(members)
        if len(own_X)
    ]


def nearest_groups(
    entries: EntryTable, columns: int, groups: KeyGroups, clusters: list[Cluster], count: int, done: Done
) -> Tensor:
    """The groups with the nearest keys of each group, as far as its cell sees, [U, count]; -1: there are fewer."""
    first_U = groups.first_U
    near_UK = torch.full((len(groups), count), -1, device=entries.device)
    finished = 0
    for part in clusters:
        key_YD = entries.keys(first_U[part.searched_Y], columns)
        index = exact_index(key_YD)
        for own_B in torch.arange(len(part.own_X), device=entries.device).split(_QUERIES):
            near_BK = _nearest_others(index, key_YD, own_B, count)
            near_UK[part.own_X[own_B]] = torch.where(near_BK >= 0, part.searched_Y[near_BK.clamp(min=0)], -1)
            finished += len(own_B)
            done(finished)
    return near_UK


def _nearest_others(index: TorchIndex, key_YD: Tensor, own_B: Tensor, count: int) -> Tensor:
    """The nearest other keys of some keys, [B, count]; padded with -1."""
    query_BD = key_YD[own_B]
    # Sorted, so that equal distances are always resolved in corpus order.
    nominee_BX = index.nominate(query_BD, count + 1 + _SPARE, None).sort(dim=1).values
    distance_BX = squared_l2(query_BD, key_YD[nominee_BX.clamp(min=0)])
    distance_BX.masked_fill_((nominee_BX < 0) | (nominee_BX == own_B[:, None]), torch.inf)
    distance_BK, column_BK = (part[:, :count] for part in distance_BX.sort(dim=1, stable=True))
    return torch.where(torch.isinf(distance_BK), -1, nominee_BX.gather(1, column_BK))


def neighbours_of_entries(groups: KeyGroups, near_UK: Tensor, done: Done) -> np.ndarray:
    """The nearest other entries of each entry, [N, count] in 32 bits; padded with -1.

    First the entry's own group, then the nearest groups. Within a group all distances are equal: entries behind the
    given one in the corpus come first, then those before it.
    """
    entries, device = len(groups.member_N), groups.member_N.device
    found = np.empty((entries, near_UK.shape[1]), dtype=np.int32)
    # (group, entry) as one sorted number: a binary search finds the position of any entry in any group.
    rank_N = groups.group_N[groups.member_N] * entries + groups.member_N
    for entry_B in torch.arange(entries, device=device).split(_BLOCK):
        start, end = int(entry_B[0]), int(entry_B[-1]) + 1
        found[start:end] = _expand(groups, near_UK, rank_N, entry_B).cpu().numpy()
        done(end)
    return found


def _expand(groups: KeyGroups, near_UK: Tensor, rank_N: Tensor, entry_B: Tensor) -> Tensor:
    """Replace groups by their members, until there are `count` of them."""
    count = near_UK.shape[1]
    own_B = groups.group_N[entry_B]
    # An additional column receives all surplus members.
    found_BK = torch.full((len(entry_B), count + 1), -1, device=entry_B.device)
    filled_B = torch.zeros_like(entry_B)
    for group_B in [own_B, *near_UK[own_B].unbind(dim=1)]:
        begin_B = groups.start_U[group_B.clamp(min=0)]
        size_B = groups.start_U[group_B.clamp(min=0) + 1] - begin_B
        behind_B = torch.searchsorted(rank_N, group_B * len(rank_N) + entry_B, right=True) - begin_B
        others_B = torch.where(group_B < 0, 0, size_B - (group_B == own_B).long())
        for step in range(count):
            member_B = groups.member_N[begin_B + (behind_B + step) % size_B]
            slot_B = torch.where(step < others_B, filled_B + step, count).clamp(max=count)
            found_BK.scatter_(1, slot_B[:, None], member_B[:, None])
        filled_B = (filled_B + others_B).clamp(max=count)
    return found_BK[:, :count]
