"""The nearest of some candidates: compiled and in torch they are the same."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nearmt.contracts import Neighbours
from nearmt.index.distances import can_measure, first_of, nearest_by_compiler, squared_l2

COLUMNS, SIZES = 48, (30, 1, 0, 20)
OFFSETS = [0, 30, 31, 31, 51]


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def made_keys() -> list[Tensor]:
    return list(numbers(sum(SIZES), COLUMNS).half().split(SIZES))


def some_candidates(rows: int, width: int, seed: int = 1) -> Tensor:
    """Different ones of each row, in any order; the last ones of each are none."""
    generator = torch.Generator().manual_seed(seed)
    candidate_BX = torch.stack([torch.randperm(sum(SIZES), generator=generator)[:width] for _ in range(rows)])
    candidate_BX[:, max(1, width - 3) :] = -1
    return candidate_BX


def by_torch(query_BE: Tensor, keys: list[Tensor], candidate_BX: Tensor, k: int) -> Neighbours:
    entry_BX = candidate_BX.sort(dim=1).values
    key_BXE = torch.cat(keys)[entry_BX, : query_BE.shape[1]].float()
    return first_of(entry_BX, squared_l2(query_BE, key_BXE), k)


@pytest.mark.parametrize("columns", [1, 7, COLUMNS])
@pytest.mark.parametrize(("width", "k"), [(20, 8), (20, 20), (5, 8), (1, 1)])
def test_it_finds_what_torch_finds(columns: int, width: int, k: int) -> None:
    keys, query_BE, candidate_BX = made_keys(), numbers(6, columns, seed=2), some_candidates(6, width)
    mine, expected = nearest_by_compiler(query_BE, keys, OFFSETS, candidate_BX, k), by_torch(
        query_BE, keys, candidate_BX, k
    )  # fmt: skip
    assert mine.entry_BK.shape == (6, k) and torch.equal(mine.entry_BK, expected.entry_BK)
    torch.testing.assert_close(mine.distance_BK, expected.distance_BK)


def test_distances_are_exact_where_they_are_small() -> None:
    """Large keys that differ by little: |k|^2 - 2 q k would lose it all."""
    key_ND = (100 + numbers(10, COLUMNS)).half()
    query_BE = key_ND[3:4].float()
    found = nearest_by_compiler(query_BE, [key_ND], [0, 10], torch.arange(10)[None], 2)
    assert found.entry_BK[0, 0] == 3 and found.distance_BK[0, 0] == 0
    assert found.distance_BK[0, 1] == pytest.approx(float((query_BE - key_ND.float()).square().sum(1).sort()[0][1]))


def test_equal_distances_come_in_corpus_order() -> None:
    keys = [torch.ones(4, 8).half(), torch.ones(4, 8).half()]
    found = nearest_by_compiler(torch.zeros(1, 8), keys, [0, 4, 8], torch.tensor([[6, 2, 7, 0, 5]]), 3)
    assert found.entry_BK.tolist() == [[0, 2, 5]] and found.distance_BK.tolist() == [[8.0, 8.0, 8.0]]


def test_all_halves_are_read_as_they_are() -> None:
    bits_N1 = torch.arange(-(1 << 15), 1 << 15).to(torch.int16)[:, None]
    key_ND = bits_N1.view(torch.half)
    finite_N = key_ND[:, 0].isfinite().nonzero().flatten()
    found = nearest_by_compiler(torch.zeros(len(finite_N), 1), [key_ND], [0, len(key_ND)], finite_N[:, None], 1)
    assert torch.equal(found.distance_BK, key_ND[finite_N].float().square())
    assert torch.equal(found.entry_BK[:, 0], finite_N)


def test_what_is_no_number_is_never_near() -> None:
    key_ND = torch.tensor([[torch.nan], [torch.inf], [5.0]]).half()
    found = nearest_by_compiler(torch.zeros(1, 1), [key_ND], [0, 3], torch.tensor([[0, 1, 2]]), 2)
    assert found.entry_BK[0, 0] == 2 and found.distance_BK[0, 0] == 25


def test_only_halves_on_a_cpu_can_be_measured_so() -> None:
    assert can_measure(made_keys())
    assert not can_measure([*made_keys(), torch.zeros(1, COLUMNS)])
    assert not can_measure([torch.zeros(1, COLUMNS, dtype=torch.half, device="meta")])
