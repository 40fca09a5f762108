"""Approximate search on a GPU: many small clusters, of which the nearest are scanned key by key.

Clusters come from k-means over the keys. Large ones are cut into *blocks* of at most 128 entries: all rows of a search
then do the same work, and nothing synchronises to learn how much there is.

Shapes: B queries, N keys, D columns, C clusters, L blocks, P probed blocks, X entries of a block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from nearmt.engines.cuda.keys import COLUMNS, SegmentedKeys
from nearmt.engines.reference.clusters import find_centres, nearest_centre
from nearmt.engines.reference.products import fast_products

#: Keys of a cluster, on average, and of a block, at most.
_CLUSTER, BLOCK = 128, 128
#: Keys per cluster that its centre is trained on.
_TRAINED_ON = 8
#: Centres are padded to a multiple of this: only then a GPU reads them in whole vectors.
_ALIGNED = 16
#: Blocks that are probed, from fast to thorough.
PROBES = (32, 64, 128, 256, 512, 1024)


class Clusters(NamedTuple):
    """The blocks of all clusters. Padding behind the last block is empty and infinitely far."""

    blocks: int
    member_LX: Tensor  # the entries of each block; -1 is padding
    centre_LD: Tensor  # of its cluster
    norm_L: Tensor  # the centre's squared length

    @classmethod
    def of(cls, key_ND: Tensor) -> Clusters:
        count = max(1, len(key_ND) // _CLUSTER)
        stride = max(1, len(key_ND) // (count * _TRAINED_ON))
        with fast_products(key_ND.device):
            centre_CD = find_centres(key_ND[::stride].float(), count)
            cluster_N = _clusters_of(key_ND, centre_CD)
        member_LX, cluster_L = _cut(cluster_N, count)
        centre_LD, spare = centre_CD[cluster_L], -len(cluster_L) % _ALIGNED
        norm_L = centre_LD.square().sum(dim=1)
        return cls(
            len(cluster_L),
            pad(member_LX, (0, 0, 0, spare), value=-1),
            pad(centre_LD, (0, 0, 0, spare)),
            pad(norm_L, (0, spare), value=torch.inf),
        )


class ClusterIndex:
    """Nominates by exact distances in the probed blocks."""

    def __init__(self, key_ND: Tensor, tune: Callable[[ClusterIndex], None] = lambda index: None) -> None:
        """Clusters are made at the first search; then `tune` chooses how many blocks are probed."""
        self._keys = SegmentedKeys(key_ND, key_ND[:0])
        self._tune = tune
        self._clusters: Clusters | None = None
        self.probes = PROBES[2]

    complete, lists, scan = True, None, None

    @property
    def keys(self) -> Tensor:
        return self._keys.key_ND

    def clusters(self) -> Clusters:
        if self._clusters is None:
            self._clusters = Clusters.of(self.keys)
            self._tune(self)
        return self._clusters

    def nominate(self, query_BD: Tensor, count: int, allowed_N: Tensor | None) -> Tensor:
        device, clusters = self.keys.device, self.clusters()
        query = query_BD.to(device, torch.float32).contiguous()
        # Every block has an entry: as many blocks have as many entries.
        probes = min(max(self.probes, count), clusters.blocks)
        with fast_products(device):
            near_BL = torch.addmm(clusters.norm_L, query, clusters.centre_LD.T, alpha=-2.0)
        block_BP = near_BL.topk(probes, dim=1, largest=False, sorted=False).indices
        entry_BX, squared_BX = self._scan(query, block_BP, clusters.member_LX)
        if allowed_N is not None:
            squared_BX.masked_fill_(~allowed_N.to(device)[entry_BX.clamp(min=0)], torch.inf)
        found = squared_BX.topk(min(count, squared_BX.shape[1]), dim=1, largest=False, sorted=False)
        entry_BK = entry_BX.gather(1, found.indices)
        if allowed_N is not None:
            entry_BK = entry_BK.masked_fill(found.values.isinf(), -1)
        missing = count - entry_BK.shape[1]
        if missing:
            entry_BK = pad(entry_BK, (0, missing), value=-1)
        return entry_BK.to(query_BD.device)

    def _scan(self, query_BD: Tensor, block_BP: Tensor, member_LX: Tensor) -> tuple[Tensor, Tensor]:
        """All entries of some blocks and their squared distances, [B, P * X]; -1 and inf are padding."""
        from nearmt.engines.cuda.search_kernels import in_blocks

        rows, probes = block_BP.shape
        entry_BX = torch.empty(rows, probes * BLOCK, dtype=torch.long, device=query_BD.device)
        squared_BX = torch.empty(rows, probes * BLOCK, device=query_BD.device)
        in_blocks[(rows, probes)](
            query_BD, *self._keys.arguments(), member_LX, block_BP, probes, entry_BX, squared_BX,
            query_BD.shape[1], POSITIONS=BLOCK, COLUMNS=COLUMNS, MORE=self._keys.more,
        )  # fmt: skip
        return entry_BX, squared_BX


def _clusters_of(key_ND: Tensor, centre_CD: Tensor) -> Tensor:
    """The cluster of each key; keys become fp32 in parts."""
    return torch.cat([nearest_centre(part.float(), centre_CD) for part in key_ND.split(1 << 20)])


def _cut(cluster_N: Tensor, clusters: int) -> tuple[Tensor, Tensor]:
    """Entries by block [L, X], each block of one cluster, and the clusters of the blocks [L]."""
    order_N = cluster_N.argsort(stable=True)
    count_C = torch.bincount(cluster_N, minlength=clusters)
    blocks_C = -(-count_C // BLOCK)
    first_C, first_block_C = count_C.cumsum(0) - count_C, blocks_C.cumsum(0) - blocks_C
    # The position of each entry in its cluster, in the order of clusters.
    sorted_N = cluster_N[order_N]
    position_N = torch.arange(len(cluster_N), device=cluster_N.device) - first_C[sorted_N]
    cluster_L = torch.repeat_interleave(torch.arange(clusters, device=cluster_N.device), blocks_C)
    member_LX = torch.full((len(cluster_L), BLOCK), -1, dtype=torch.int32, device=cluster_N.device)
    member_LX[first_block_C[sorted_N] + position_N // BLOCK, position_N % BLOCK] = order_N.int()
    return member_LX, cluster_L
