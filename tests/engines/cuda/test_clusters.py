"""Approximate search in clusters: probed blocks are compared exactly, and every entry is in one block."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from nearmt.engines.cuda.clusters import BLOCK, ClusterIndex, _cut
from tests.engines.every_engine import GPU
from tests.index.test_contract import as_sets, brute_force, made_keys, made_queries, some_mask

EVERYWHERE = 1 << 20


def index_of(key_ND: np.ndarray, probes: int = EVERYWHERE) -> ClusterIndex:
    index = ClusterIndex(torch.from_numpy(key_ND).to(GPU))
    index.probes = probes
    return index


def lopsided_keys(count: int = 600) -> np.ndarray:
    """Most keys are nearly the same, so that one cluster has far more than a block."""
    generator = np.random.default_rng(0)
    key_ND = generator.normal(scale=0.1, size=(count, 16))
    key_ND[: count // 10] += generator.normal(scale=20.0, size=(count // 10, 16))
    return key_ND.astype(np.float16)


@pytest.mark.parametrize("share", [None, 0.5, 0.05])
def test_where_all_blocks_are_probed_search_is_exact(share: float | None) -> None:
    key, query = lopsided_keys(), torch.from_numpy(lopsided_keys(20)[::7].astype(np.float32)) * 0.9
    mask = None if share is None else some_mask(share, len(key))
    expected = brute_force(query, key, 8, None if mask is None else mask.numpy())
    assert as_sets(index_of(key).nominate(query, 8, mask)) == as_sets(expected)


@pytest.mark.parametrize("make", [made_keys, lopsided_keys])
@pytest.mark.parametrize("count", [1, 127, 128, 129, 300, 700])
def test_every_entry_is_in_one_block(make: Callable[[int], np.ndarray], count: int) -> None:
    clusters = index_of(make(count)).clusters()
    padding = slice(clusters.blocks, None)
    assert not bool((clusters.member_LX[padding] >= 0).any()) and bool(clusters.norm_L[padding].isinf().all())
    member_LX = clusters.member_LX[: clusters.blocks].cpu()
    assert member_LX.shape[1] == BLOCK
    assert member_LX[member_LX >= 0].sort().values.tolist() == list(range(count))
    # Each block has some entries, and padding behind them.
    there_LX = member_LX >= 0
    assert bool(there_LX[:, 0].all()) and bool((there_LX.int().diff(dim=1) <= 0).all())


def test_a_large_cluster_is_cut_into_blocks_and_an_empty_one_has_none() -> None:
    cluster_N = torch.tensor([2] * (2 * BLOCK + 3) + [0] * 5 + [3] * BLOCK)[
        torch.randperm(3 * BLOCK + 8, generator=torch.Generator().manual_seed(0))
    ]
    member_LX, cluster_L = _cut(cluster_N, clusters=5)
    assert cluster_L.tolist() == [0, 2, 2, 2, 3]
    assert (member_LX >= 0).sum(dim=1).tolist() == [5, BLOCK, BLOCK, 3, BLOCK]
    for members, cluster in zip(member_LX, cluster_L, strict=True):
        assert bool((cluster_N[members[members >= 0].long()] == cluster).all())


def test_all_blocks_of_a_large_cluster_are_searched() -> None:
    key = lopsided_keys()
    clusters = index_of(key).clusters()
    assert clusters.blocks > len(torch.unique(clusters.centre_LD[: clusters.blocks], dim=0)) > 1


@pytest.mark.parametrize("probes", [1, 2, 4])
def test_few_probes_find_the_nearest_of_the_nearest_blocks(probes: int) -> None:
    key, query = made_keys(), made_queries(6)
    index = index_of(key, probes)
    clusters = index.clusters()
    centre = clusters.centre_LD[: clusters.blocks].cpu()
    near = (query[:, None] - centre).square().sum(dim=-1).sort(dim=1)
    # Blocks of one cluster have the same centre: either may come first.
    clear_B = near.values[:, probes] - near.values[:, probes - 1] > 1e-3
    assert bool(clear_B.any())
    query, block_BP = query[clear_B], near.indices[clear_B, :probes]
    found = index.nominate(query, probes, None)
    for row, block_P in enumerate(block_BP):
        probed = np.isin(np.arange(len(key)), clusters.member_LX[block_P].flatten().cpu().numpy())
        assert as_sets(found[row : row + 1]) == as_sets(brute_force(query[row : row + 1], key, probes, probed))


@pytest.mark.parametrize("make", [made_keys, lopsided_keys])
@pytest.mark.parametrize(("entries", "count"), [(400, 3), (400, 150), (400, 400), (3, 3)])
def test_one_probe_finds_as_many_as_are_wanted(make: Callable[[int], np.ndarray], entries: int, count: int) -> None:
    found = index_of(make(entries), probes=1).nominate(made_queries(3), count, None)
    assert found.shape == (3, count) and int(found.min()) >= 0
    assert all(len(set(row)) == count for row in found.tolist())


@pytest.mark.parametrize(("entries", "count"), [(1, 10), (1, 200), (40, 129), (300, 2000)])
def test_missing_entries_are_padding(entries: int, count: int) -> None:
    found = index_of(made_keys(entries), probes=1).nominate(made_queries(2), count, None)
    assert found.shape == (2, count)
    assert [sorted(entry for entry in row if entry >= 0) for row in found.tolist()] == [list(range(entries))] * 2


@pytest.mark.parametrize("probes", [1, EVERYWHERE])
def test_entries_that_are_not_allowed_are_not_found(probes: int) -> None:
    key, nothing = made_keys(300), torch.zeros(300, dtype=torch.bool)
    assert index_of(key, probes).nominate(made_queries(2), 4, nothing).tolist() == [[-1] * 4] * 2
    only = nothing.clone()
    only[299] = True
    found = index_of(key).nominate(torch.from_numpy(key[:2]).float(), 4, only)
    assert as_sets(found) == [{-1, 299}] * 2


def test_the_same_every_time() -> None:
    def found() -> Tensor:
        return index_of(made_keys(), probes=2).nominate(made_queries(2), 8, None)

    assert torch.equal(found(), found())
