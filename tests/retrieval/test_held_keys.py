"""Keys held for nomination: rounded or whole, they name the places that are near."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nearmt.retrieval.held_keys import HeldKeys, held_keys

CPU = torch.device("cpu")
WIDTH = 900


def made(rows: int, columns: int, seed: int) -> Tensor:
    """Columns vary less and less, as those of reduced keys do."""
    spread_D = torch.linspace(6.0, 0.5, columns)
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) * spread_D


def held(keys: list[Tensor], columns: int) -> HeldKeys:
    found = held_keys(len(keys), columns, CPU)
    for holder, key_MD in enumerate(keys):
        found.grow(len(key_MD))
        found.put(holder, 0, key_MD[:, : found.columns])
    return found


@pytest.mark.parametrize("columns", [1, 7, 32, 33, 100, 128, 256])
def test_the_nearest_are_nominated(columns: int) -> None:
    keys = [made(WIDTH, columns, seed) for seed in range(3)]
    query_GRD = made(6, columns, 9).view(3, 2, columns)
    cache = held(keys, columns)
    place_GRX = cache.nominate([0, 1, 2], query_GRD[:, :, : cache.columns], WIDTH, 40)
    assert place_GRX.shape == (3, 2, 40)
    exact_GRK = torch.cdist(query_GRD, torch.stack(keys)).topk(16, dim=-1, largest=False).indices
    found = (exact_GRK[..., None] == place_GRX[:, :, None, :]).any(dim=-1).float().mean()
    assert found >= (0.99 if columns <= 128 else 0.9)
    assert all(len(set(row)) == 40 for row in place_GRX.flatten(0, 1).tolist())


def test_some_holders_and_places_without_an_entry() -> None:
    keys = [made(50, 64, 0), made(10, 64, 1), made(50, 64, 2)]
    cache = held(keys, 64)
    query_GRD = made(2, 64, 3)[:, None]
    place_GRX = cache.nominate([1, 2], query_GRD, 50, 10)
    assert sorted(place_GRX[0, 0].tolist()) == list(range(10))
    nearest = torch.cdist(query_GRD[1], keys[2])[0].argmin()
    assert int(nearest) in place_GRX[1, 0].tolist()
    cache.cut(2, int(nearest))
    assert max(cache.nominate([2], query_GRD[1:], 50, int(nearest))[0, 0].tolist(), default=-1) < int(nearest)


def test_a_row_does_not_depend_on_those_beside_it() -> None:
    cache = held([made(WIDTH, 200, 0)], 200)
    query_1RD = made(5, 200, 1)[None, :, : cache.columns] * torch.tensor([1.0, 50.0, 1e-3, 1.0, 1.0])[:, None]
    together = cache.nominate([0], query_1RD, WIDTH, 20)
    for row in range(5):
        alone = cache.nominate([0], query_1RD[:, row : row + 1], WIDTH, 20)
        assert set(alone[0, 0].tolist()) == set(together[0, row].tolist())


def test_growing_and_selecting_keep_what_is_held() -> None:
    keys = [made(300, 64, 0), made(300, 64, 1)]
    cache = held(keys, 64)
    query = made(1, 64, 5)[None]
    before = [set(cache.nominate([h], query, 300, 12)[0, 0].tolist()) for h in (0, 1)]
    cache.grow(2000)
    assert cache.room >= 2000
    cache.select(torch.tensor([1, 1, 0]))
    after = [set(cache.nominate([h], query, 2000, 12)[0, 0].tolist()) for h in (0, 1, 2)]
    assert after == [before[1], before[1], before[0]]


def test_keys_of_nothing_but_zeros() -> None:
    cache = held([torch.zeros(5, 64)], 64)
    assert sorted(cache.nominate([0], torch.zeros(1, 1, 64), 5, 5)[0, 0].tolist()) == list(range(5))


def nominated(cache: HeldKeys, holder: int, query_D: Tensor, width: int, count: int) -> set[int]:
    return set(cache.nominate([holder], query_D[None, None], width, count)[0, 0].tolist())


@pytest.mark.parametrize("factor", [1.0, 3.0, 40.0])
def test_larger_keys_that_come_later_find_room_among_the_numbers(factor: float) -> None:
    small, large = made(400, 64, 0), made(400, 64, 1) * factor
    cache = held([small], 64)
    cache.grow(800)
    cache.cut(0, 390)  # what is hidden stays so
    cache.put(0, 400, large)
    everything = torch.cat([small, large])
    everything[390:400] = torch.inf
    for query_D in (made(1, 64, 2)[0], large[7] * 1.01):
        nearest = torch.cdist(query_D[None], everything)[0].topk(4, largest=False).indices.tolist()
        found = nominated(cache, 0, query_D, 800, 30)
        assert not found & set(range(390, 400))
        # Beside keys 40 times as large, small ones are hardly told apart: one of them is as good as another.
        assert set(nearest) <= found or (factor > 3 and max(nearest) < 390 and max(found) < 400)


def test_holders_of_different_size_join() -> None:
    keys = [made(200, 64, 0), made(200, 64, 1) * 5]
    cache = held(keys, 64)
    one = cache.joined(torch.zeros(1, 2 * cache.room, dtype=torch.bool))
    for holder in (0, 1):
        query_D = keys[holder][11] * 1.02
        assert holder * cache.room + 11 in nominated(one, 0, query_D, one.room, 8)
        assert 11 in nominated(cache, holder, query_D, 200, 8)
    hidden_1M = torch.zeros(1, 2 * cache.room, dtype=torch.bool)
    hidden_1M[0, 11] = True
    assert 11 not in nominated(cache.joined(hidden_1M), 0, keys[0][11], one.room, 8)


def test_keys_that_are_no_numbers_stop_nothing() -> None:
    for value in (torch.nan, torch.inf):
        cache = held([torch.full((5, 64), value)], 64)
        cache.grow(10)
        cache.put(0, 5, made(5, 64, 0))
        assert nominated(cache, 0, made(1, 64, 1)[0], 10, 10) == set(range(10))
