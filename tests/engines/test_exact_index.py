"""Exact search in every engine: a product and a top-k, block by block, against distances in float64."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from nearmt.engines.cpu import exact_index as cpu_exact_index
from nearmt.engines.cpu.exact_index import CpuExactIndex
from nearmt.engines.reference import exact_index
from nearmt.engines.reference.exact_index import TorchIndex, nominate_by_scans
from nearmt.engines.reference.topk import RunningTop, first_smallest, smallest
from tests.engines.every_engine import WITH_KERNELS, Engine, every_engine

COLUMNS = 12


def random(count: int, seed: int) -> Tensor:
    return torch.randn(count, COLUMNS, generator=torch.Generator().manual_seed(seed)).half()


def index_of(engine: Engine, key_ND: Tensor) -> TorchIndex:
    return CpuExactIndex(key_ND) if engine is WITH_KERNELS else TorchIndex(key_ND.to(engine.device))


def nearest(query_BD: Tensor, key_ND: Tensor, k: int, allowed_N: Tensor | None = None) -> list[set[int]]:
    squared_BN = (query_BD[:, None].double() - key_ND.double()).square().sum(dim=2)
    if allowed_N is not None:
        squared_BN.masked_fill_(~allowed_N, torch.inf)
    found = squared_BN.sort(dim=1)
    return [
        {entry for entry, distance in zip(entries, distances, strict=True) if distance < torch.inf}
        for entries, distances in zip(found.indices[:, :k].tolist(), found.values[:, :k].tolist(), strict=True)
    ]


def sets(entry_BK: Tensor) -> list[set[int]]:
    return [set(row) - {-1} for row in entry_BK.tolist()]


def assert_nominated(found_BX: Tensor, expected: list[set[int]], k: int) -> None:
    """On a GPU, where products are rounded, somewhat more are nominated."""
    assert found_BX.shape[1] >= k and all(near <= row for near, row in zip(expected, sets(found_BX), strict=True))
    if found_BX.shape[1] == k:
        assert sets(found_BX) == expected


@every_engine
@pytest.mark.parametrize("count", [1, 5, 300])
@pytest.mark.parametrize("small", [10, 16_384], ids=["many keys", "few keys"])
@pytest.mark.parametrize("block", [7, 16_384])
def test_the_nearest_are_nominated(
    engine: Engine, count: int, small: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also twice, where few keys are kept as fp32, and in blocks of which the last is not full."""
    for module in (exact_index, cpu_exact_index):
        monkeypatch.setattr(module, "SMALL", small)
    monkeypatch.setattr(exact_index, "BLOCK", {"cpu": block, "cuda": block})
    key_ND, query_BD = random(count, 0), random(6, 1).float()
    index = index_of(engine, key_ND)
    assert index.complete and index.lists is None
    for _ in range(2):
        assert_nominated(index.nominate(query_BD, 8, None), nearest(query_BD, key_ND, 8), 8)
    allowed_N = torch.arange(count) % 3 == 0
    expected = nearest(query_BD, key_ND, 8, allowed_N)
    assert_nominated(index.nominate(query_BD, 8, allowed_N), expected, 8)


@every_engine
def test_entries_that_are_not_allowed_are_not_nominated(engine: Engine) -> None:
    index, nothing = index_of(engine, random(30, 0)), torch.zeros(30, dtype=torch.bool)
    assert (index.nominate(random(2, 1).float(), 4, nothing) == -1).all()


@every_engine
def test_with_kernels_a_query_does_not_depend_on_others(engine: Engine) -> None:
    """Torch may round by the number of rows; what is nominated is nearly the same."""
    key_ND, query_BD = random(500, 0), random(9, 1).float()
    index = index_of(engine, key_ND)
    together = index.nominate(query_BD, 8, None)
    for row in range(9):
        alone = index.nominate(query_BD[row : row + 1], 8, None)
        if engine is WITH_KERNELS:
            assert torch.equal(alone[0], together[row])
        assert_nominated(alone, nearest(query_BD[row : row + 1], key_ND, 8), 8)


@pytest.mark.parametrize("width", [1, 63, 64, 700, 3000])
@pytest.mark.parametrize("count", [1, 5, 40])
def test_the_smallest_numbers(width: int, count: int) -> None:
    """By groups where there are many, whether the last group is full or not."""
    distance_BN = torch.rand(3, width, generator=torch.Generator().manual_seed(width))
    count = min(count, width)
    value_BX, position_BX = smallest(distance_BN, count)
    assert torch.equal(value_BX, distance_BN.sort(dim=1).values[:, :count])
    assert torch.equal(distance_BN.gather(1, position_BX), value_BX)


def test_the_smallest_of_all_blocks() -> None:
    distance_BN = torch.rand(2, 100, generator=torch.Generator().manual_seed(0))
    distance_BN[1, 5:] = torch.inf
    top = RunningTop(2, 8, torch.device("cpu"))
    for start in range(0, 100, 30):
        top.add(distance_BN[:, start : start + 30], start)
    assert top.entry_BK[0].tolist() == distance_BN[0].sort().indices[:8].tolist()
    assert top.entry_BK[1].tolist() == [*distance_BN[1, :5].sort().indices.tolist(), -1, -1, -1]


@every_engine
@pytest.mark.parametrize("block", [5, 16_384])
def test_the_first_of_equal_keys_are_nominated_however_they_are_divided(
    engine: Engine, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a CPU: a GPU nominates somewhat more instead."""
    monkeypatch.setattr(exact_index, "BLOCK", {"cpu": block, "cuda": block})
    # Products of whole numbers are exact, in whatever order they are added up.
    key_ND = (64 * random(12, 3)).round().repeat(5, 1)
    query_BD = key_ND[:4].float()
    whole = index_of(engine, key_ND)
    found_BK = whole.nominate(query_BD, 3, None)
    if found_BK.shape[1] > 3:
        pytest.skip("some to spare")
    assert found_BK.tolist() == [[row, row + 12, row + 24] for row in range(4)]
    hidden_N = torch.ones(60, dtype=torch.bool)
    hidden_N[12:24] = False
    cuts = [0, 1, 30, 60]
    for allowed_N in (None, hidden_N):
        parts = [
            (index_of(engine, key_ND[start:end]).scan, start, None if allowed_N is None else allowed_N[start:end])
            for start, end in pairwise(cuts)
        ]
        assert torch.equal(nominate_by_scans(parts, query_BD, 4), whole.nominate(query_BD, 4, allowed_N))


def test_the_first_of_equal_distances_are_kept() -> None:
    generator = torch.Generator().manual_seed(0)
    distance_BN = torch.randint(0, 6, (20, 700), generator=generator).float()
    distance_BN[3] = torch.inf
    distance_BN[4, 2:] = torch.inf
    for count in (1, 3, 50, 700):
        values_BX, column_BX = first_smallest(distance_BN, count)
        expected = distance_BN.sort(dim=1, stable=True)
        assert torch.equal(values_BX, expected.values[:, :count])
        finite = ~torch.isinf(values_BX)
        assert torch.equal(column_BX[finite], expected.indices[:, :count][finite])
