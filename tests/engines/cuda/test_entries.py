"""The nearest of some candidates, by a kernel that reads keys where they are, against the same in torch."""

from __future__ import annotations

import math

import pytest
import torch
from nearmt.engines.cuda.gathered import COLUMNS, GatheredKeys, has_kernels, nearest_of, power_of_two
from torch import Tensor

from nearmt.contracts import Neighbours
from nearmt.engines.cuda import gathered

#: Entries of the first segment, and of those that came later.
FIRST, LATER = 30, 12
#: More than a kernel reads at a time.
WIDE = COLUMNS + 6


@pytest.fixture
def with_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathered, "has_kernels", lambda device: True)


def random_keys(seed: int = 0, columns: int = WIDE) -> GatheredKeys:
    generator = torch.Generator().manual_seed(seed)
    key_ND = torch.randn(FIRST + LATER, columns, generator=generator).half()
    return GatheredKeys(key_ND[:FIRST], key_ND[FIRST:])


def random_candidates(seed: int, rows: int, width: int) -> Tensor:
    """Different entries for each row, a third of them missing."""
    generator = torch.Generator().manual_seed(seed)
    entry_BX = torch.stack([torch.randperm(FIRST + LATER, generator=generator)[:width] for _ in range(rows)])
    return entry_BX.masked_fill(torch.rand(entry_BX.shape, generator=generator) < 1 / 3, -1)


def by_torch(query_BE: Tensor, keys: GatheredKeys, candidate_BX: Tensor, k: int) -> Neighbours:
    """All distances in float64, nearest first, equals in the order of entries."""
    entry_BX = candidate_BX.sort(dim=1).values
    key_BXE = torch.cat(keys)[entry_BX.clamp(min=0), : query_BE.shape[1]].double()
    squared_BX = (key_BXE - query_BE[:, None].double()).square().sum(dim=-1).masked_fill(entry_BX < 0, math.inf)
    order_BK = squared_BX.argsort(dim=1, stable=True)[:, :k]
    missing = k - order_BK.shape[1]
    return Neighbours(
        torch.nn.functional.pad(entry_BX.gather(1, order_BK), (0, missing), value=-1),
        torch.nn.functional.pad(squared_BX.gather(1, order_BK), (0, missing), value=math.inf).float(),
    )


def assert_same(found: Neighbours, expected: Neighbours) -> None:
    assert torch.equal(found.entry_BK, expected.entry_BK)
    torch.testing.assert_close(found.distance_BK, expected.distance_BK, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("width", "k"), [(1, 1), (9, 4), (16, 16), (40, 8)])
def test_the_nearest_are_found_among_earlier_and_later_keys(seed: int, width: int, k: int) -> None:
    keys, candidate_BX = random_keys(seed), random_candidates(seed, rows=5, width=width)
    query_BD = torch.randn(5, WIDE, generator=torch.Generator().manual_seed(seed))
    assert_same(nearest_of(query_BD, keys, candidate_BX, k), by_torch(query_BD, keys, candidate_BX, k))
    if width == 40:
        assert bool((candidate_BX >= FIRST).any(dim=1).all() & ((candidate_BX >= 0) & (candidate_BX < FIRST)).any())


@pytest.mark.parametrize(("width", "k"), [(3, 8), (5, 6), (1, 33)])
def test_more_wanted_than_there_are_candidates(width: int, k: int) -> None:
    keys, candidate_BX = random_keys(), random_candidates(1, rows=4, width=width)
    query_BD = torch.randn(4, WIDE, generator=torch.Generator().manual_seed(2))
    found = nearest_of(query_BD, keys, candidate_BX, k)
    assert_same(found, by_torch(query_BD, keys, candidate_BX, k))
    assert torch.equal(found.entry_BK < 0, found.distance_BK.isinf())


def test_a_row_without_candidates_finds_nothing() -> None:
    candidate_BX = torch.tensor([[-1, -1, -1], [-1, 7, -1]])
    found = nearest_of(torch.zeros(2, WIDE), random_keys(), candidate_BX, 2)
    assert found.entry_BK.tolist() == [[-1, -1], [7, -1]]
    assert found.distance_BK[0].tolist() == [math.inf] * 2 and found.distance_BK[1].isinf().tolist() == [False, True]


def test_equal_distances_are_in_the_order_of_entries() -> None:
    """Also where equals are in different segments."""
    key_ND = torch.zeros(FIRST + LATER, 3, dtype=torch.float16)
    key_ND[[4, 31]] = 1.0
    keys = GatheredKeys(key_ND[:FIRST], key_ND[FIRST:])
    candidate_BX = torch.tensor([[35, 31, 2, 40, -1, 4, 0, 29]])
    assert nearest_of(torch.zeros(1, 3), keys, candidate_BX, 8).entry_BK.tolist() == [[0, 2, 29, 35, 40, 4, 31, -1]]
    assert nearest_of(torch.ones(1, 3), keys, candidate_BX, 4).entry_BK.tolist() == [[4, 31, 0, 2]]


@pytest.mark.parametrize("columns", [1, 5, COLUMNS, WIDE - 1])
def test_distances_are_those_of_the_columns_of_the_query(columns: int) -> None:
    """The query is a part of a wider one, as in the neighbours' cache."""
    keys, candidate_BX = random_keys(3), random_candidates(3, rows=4, width=20)
    query_BE = torch.randn(4, WIDE, generator=torch.Generator().manual_seed(3))[:, :columns]
    assert query_BE.stride(0) == WIDE
    assert_same(nearest_of(query_BE, keys, candidate_BX, 6), by_torch(query_BE, keys, candidate_BX, 6))


def test_candidates_may_be_part_of_a_wider_tensor() -> None:
    keys, candidate_BX = random_keys(4), random_candidates(4, rows=3, width=20)[:, 3:11]
    query_BD = torch.randn(3, WIDE, generator=torch.Generator().manual_seed(4))
    assert_same(nearest_of(query_BD, keys, candidate_BX, 5), by_torch(query_BD, keys, candidate_BX, 5))


def test_an_entry_is_at_no_distance_from_itself() -> None:
    keys, entries = random_keys(5), [0, 17, FIRST - 1, FIRST, FIRST + LATER - 1]
    found = nearest_of(torch.cat(keys)[entries].float(), keys, torch.arange(FIRST + LATER).expand(5, -1), 1)
    assert found.entry_BK[:, 0].tolist() == entries and not found.distance_BK.any()


@pytest.mark.parametrize("strange", [math.nan, math.inf])
def test_a_query_that_is_no_number_finds_nothing_but_candidates(strange: float) -> None:
    """What is found is looked up: a number that stands for no entry would read anywhere."""
    query_BD = torch.zeros(2, WIDE)
    query_BD[0, 1] = strange
    candidate_BX = torch.tensor([[5, 31, 2], [5, 31, 2]])
    found = nearest_of(query_BD, random_keys(), candidate_BX, 3)
    assert set(found.entry_BK[0].tolist()) <= {-1, 2, 5, 31} and found.distance_BK[0].tolist() == [math.inf] * 3
    assert sorted(found.entry_BK[1].tolist()) == [2, 5, 31]


def test_there_are_kernels_for_nothing_but_gpus() -> None:
    assert not has_kernels(torch.device("cpu"))
    assert GatheredKeys.of(list(random_keys())) is None


@pytest.mark.parametrize("sizes", [[7], [7, 3], [4, 0, 5, 2], [0, 6]])
def test_segments_are_gathered_under_one_numbering(sizes: list[int], with_kernels: None) -> None:
    whole_ND = torch.randn(sum(sizes), 5, generator=torch.Generator().manual_seed(0)).half()
    parts = list(whole_ND.split(sizes))
    keys = GatheredKeys.of(parts)
    assert keys is not None and torch.equal(torch.cat(keys), whole_ND)
    assert keys.key_ND.data_ptr() == parts[0].data_ptr()  # the largest part is not copied
    query_BD, every_BX = torch.zeros(1, 5), torch.arange(len(whole_ND))[None]
    assert_same(nearest_of(query_BD, keys, every_BX, 4), by_torch(query_BD, keys, every_BX, 4))


def test_no_segments_have_no_keys(with_kernels: None) -> None:
    assert GatheredKeys.of([]) is None


def test_kernels_take_powers_of_two() -> None:
    assert [power_of_two(number) for number in (0, 1, 2, 3, 4, 5, 64, 65)] == [1, 1, 2, 4, 4, 8, 64, 128]
