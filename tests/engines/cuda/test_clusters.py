"""Approximate search in pieces: what is looked through is compared exactly, and nothing is in two pieces or none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from nearmt.engines.cuda.pieces import PIECE, _cut
from torch import Tensor

from nearmt.index import PieceIndex
from tests.index.test_contract import as_sets, brute_force, made_keys, made_queries, some_mask

EVERYWHERE = 1 << 20


def pieces_of(key_ND: np.ndarray, probes: int = EVERYWHERE) -> PieceIndex:
    index = PieceIndex(torch.from_numpy(key_ND))
    index.probes = probes
    return index


def lopsided_keys(count: int = 600) -> np.ndarray:
    """Most keys are nearly the same, so that one cell holds far more than a piece."""
    generator = np.random.default_rng(0)
    key_ND = generator.normal(scale=0.1, size=(count, 16))
    key_ND[: count // 10] += generator.normal(scale=20.0, size=(count // 10, 16))
    return key_ND.astype(np.float16)


@pytest.mark.parametrize("share", [None, 0.5, 0.05])
def test_where_all_pieces_are_probed_search_is_exact(share: float | None) -> None:
    key, query = lopsided_keys(), torch.from_numpy(lopsided_keys(20)[::7].astype(np.float32)) * 0.9
    mask = None if share is None else some_mask(share, len(key))
    expected = brute_force(query, key, 8, None if mask is None else mask.numpy())
    assert as_sets(pieces_of(key).nominate(query, 8, mask)) == as_sets(expected)


@pytest.mark.parametrize("make", [made_keys, lopsided_keys])
@pytest.mark.parametrize("count", [1, 127, 128, 129, 300, 700])
def test_every_entry_is_in_one_piece(make: Callable[[int], np.ndarray], count: int) -> None:
    cells = pieces_of(make(count)).cells()
    assert not bool((cells.member_LX[cells.pieces :] >= 0).any()) and bool(cells.norm_L[cells.pieces :].isinf().all())
    member_LX = cells.member_LX[: cells.pieces]
    assert member_LX.shape[1] == PIECE
    assert member_LX[member_LX >= 0].sort().values.tolist() == list(range(count))
    # Each has some, the first places first.
    there_LX = member_LX >= 0
    assert bool(there_LX[:, 0].all()) and bool((there_LX.int().diff(dim=1) <= 0).all())


def test_a_large_cell_is_cut_into_pieces_and_an_empty_one_has_none() -> None:
    cell_N = torch.tensor([2] * (2 * PIECE + 3) + [0] * 5 + [3] * PIECE)[
        torch.randperm(3 * PIECE + 8, generator=torch.Generator().manual_seed(0))
    ]
    member_LX, cell_L = _cut(cell_N, cells=5)
    assert cell_L.tolist() == [0, 2, 2, 2, 3]
    assert (member_LX >= 0).sum(dim=1).tolist() == [5, PIECE, PIECE, 3, PIECE]
    for members, cell in zip(member_LX, cell_L, strict=True):
        assert bool((cell_N[members[members >= 0].long()] == cell).all())


def test_a_large_cell_is_searched_by_all_its_pieces() -> None:
    key = lopsided_keys()
    index = pieces_of(key)
    cells = index.cells()
    assert cells.pieces > len(torch.unique(cells.centre_LD[: cells.pieces], dim=0)) > 1


@pytest.mark.parametrize("probes", [1, 2, 4])
def test_few_probes_find_the_nearest_of_the_nearest_pieces(probes: int) -> None:
    key, query = made_keys(), made_queries(6)
    index = pieces_of(key, probes)
    centre = index.cells().centre_LD[: index.cells().pieces]
    near = (query[:, None] - centre).square().sum(dim=-1).sort(dim=1)
    # Pieces of one cell have the same centre: either may come first.
    clear_B = near.values[:, probes] - near.values[:, probes - 1] > 1e-3
    assert bool(clear_B.any())
    query, piece_BP = query[clear_B], near.indices[clear_B, :probes]
    found = index.nominate(query, probes, None)
    for row, piece_P in enumerate(piece_BP):
        probed = np.isin(np.arange(len(key)), index.cells().member_LX[piece_P].flatten().numpy())
        assert as_sets(found[row : row + 1]) == as_sets(brute_force(query[row : row + 1], key, probes, probed))


@pytest.mark.parametrize("make", [made_keys, lopsided_keys])
@pytest.mark.parametrize(("entries", "count"), [(400, 3), (400, 150), (400, 400), (3, 3)])
def test_one_probe_finds_as_many_as_are_wanted(make: Callable[[int], np.ndarray], entries: int, count: int) -> None:
    found = pieces_of(make(entries), probes=1).nominate(made_queries(3), count, None)
    assert found.shape == (3, count) and int(found.min()) >= 0
    assert all(len(set(row)) == count for row in found.tolist())


@pytest.mark.parametrize(("entries", "count"), [(1, 10), (1, 200), (40, 129), (300, 2000)])
def test_what_there_is_not_is_filled_up(entries: int, count: int) -> None:
    found = pieces_of(made_keys(entries), probes=1).nominate(made_queries(2), count, None)
    assert found.shape == (2, count)
    assert [sorted(entry for entry in row if entry >= 0) for row in found.tolist()] == [list(range(entries))] * 2


@pytest.mark.parametrize("probes", [1, EVERYWHERE])
def test_nothing_that_is_not_allowed_is_found(probes: int) -> None:
    key, nothing = made_keys(300), torch.zeros(300, dtype=torch.bool)
    assert pieces_of(key, probes).nominate(made_queries(2), 4, nothing).tolist() == [[-1] * 4] * 2
    only = nothing.clone()
    only[299] = True
    found = pieces_of(key).nominate(torch.from_numpy(key[:2]).float(), 4, only)
    assert as_sets(found) == [{-1, 299}] * 2


def test_the_same_every_time() -> None:
    def found() -> Tensor:
        return pieces_of(made_keys(), probes=2).nominate(made_queries(2), 8, None)

    assert torch.equal(found(), found())
