"""Keys held for nomination: rounded or whole, they name the places that are near."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from nearmt.retrieval.held_keys import HeldKeys, KernelHeldKeys, held_keys
from nearmt.retrieval.marks import Marks
from torch import Tensor

from nearmt.engines.cpu import kernels
from nearmt.engines.cpu.nearest import EntryRows, KeyRows

CPU = torch.device("cpu")
WIDTH = 900


@pytest.fixture(params=["torch", "kernels"], autouse=True)
def kind(request: pytest.FixtureRequest) -> str:
    """Everything here holds with kernels and without."""
    if request.param == "torch":
        request.getfixturevalue("no_kernels")
    elif kernels() is None:
        pytest.skip("this processor has no kernels")
    return str(request.param)


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


def test_wide_keys_on_a_cpu_are_held_as_kernels_read_them(kind: str) -> None:
    for columns in (33, 100, 300):
        assert isinstance(held_keys(1, columns, CPU), KernelHeldKeys) == (kind == "kernels")
    for whole in (held_keys(1, 32, CPU), held_keys(1, 300, torch.device("meta"))):
        assert whole.whole and not isinstance(whole, KernelHeldKeys)


def test_holders_that_come_later_have_nothing_yet() -> None:
    keys = [made(20, 64, 0), made(20, 64, 1)]
    cache = held(keys, 64)
    cache.add(1)
    query_D = made(1, 64, 2)[0]
    cache.put(2, 0, keys[0] * 2)
    assert nominated(cache, 2, query_D * 2, 20, 5) == nominated(cache, 0, query_D, 20, 5)
    assert nominated(cache, 1, keys[1][7], 20, 1) == {7}


def test_a_holder_that_was_emptied_begins_anew() -> None:
    """Also with other units: small keys would be lost among the numbers of large ones."""
    cache = held([made(50, 64, 0) * 1e4], 64)
    cache.cut(0, 0)
    small = made(30, 64, 1) * 1e-4
    cache.put(0, 0, small)
    for number in (0, 17, 29):
        assert nominated(cache, 0, small[number], 30, 1) == {number}


@pytest.mark.parametrize("size", [1e-20, 1e-3, 1e3, 1e20])
def test_keys_of_any_size(size: float) -> None:
    key_MD, query_D = made(300, 64, 0), made(1, 64, 1)[0]
    expected = nominated(held([key_MD], 64), 0, query_D, 300, 20)
    found = nominated(held([key_MD * size], 64), 0, query_D * size, 300, 20)
    assert len(expected & found) >= 19  # a number may be rounded to the next one


# Where there are kernels.

with_kernels = pytest.mark.parametrize("kind", ["kernels"], indirect=True)


@with_kernels
@pytest.mark.parametrize("columns", [33, 36, 63, 64, 100, 127, 128, 200])
@pytest.mark.parametrize("count", [1, 15, 16, 17, 300])
def test_kernels_nominate_what_torch_nominates(columns: int, count: int) -> None:
    rows, query_1RN = [HeldKeys(2, columns, CPU), KernelHeldKeys(2, columns)], made(7, columns, 5)[None, :, :128]
    assert rows[0].columns == rows[1].columns
    found = []
    for cache in rows:
        cache.grow(count)
        for holder in (0, 1):
            key_MN = made(count, columns, holder)[:, : cache.columns]
            cache.put(holder, 0, key_MN[: count // 2])
            cache.put(holder, count // 2, key_MN[count // 2 :] * 1.5)  # numbers are made coarser
        found.append([cache.nominate([holder], query_1RN, count, min(count, 24))[0] for holder in (1, 0)])
    for mine, plain in zip(*found, strict=True):
        for one, other in zip(mine.tolist(), plain.tolist(), strict=True):
            assert len(set(one) ^ set(other)) <= 2  # a number may be rounded to the next one


def rows_of(key_ND: Tensor, sizes: list[int]) -> EntryRows:
    starts = [0, *torch.tensor(sizes).cumsum(0).tolist()]
    keys = KeyRows.of(list(key_ND.split(sizes)), starts)
    assert keys is not None
    return EntryRows(keys, torch.zeros(len(key_ND), dtype=torch.int32), torch.tensor([len(key_ND)]), weighted=False)


@with_kernels
@pytest.mark.parametrize(("columns", "stored"), [(33, 33), (34, 64), (64, 64), (100, 101), (150, 150)])
def test_entries_are_put_as_their_keys_are(columns: int, stored: int) -> None:
    """Bit by bit: where they are read makes no difference, nor what stands behind their columns."""
    key_ND = made(90, stored, 0).half()
    rows = rows_of(key_ND, [40, 0, 50])
    one, other = KernelHeldKeys(2, columns), KernelHeldKeys(2, columns)
    for cache in (one, other):
        cache.grow(60)
    start = [0, 0]
    for seed, holder, count in ((0, 1, 7), (1, 1, 0), (2, 0, 33), (3, 1, 20)):
        entry_X = torch.randint(0, 90, (count,), generator=torch.Generator().manual_seed(seed))
        one.put_entries(holder, start[holder], rows, entry_X)
        other.put(holder, start[holder], key_ND[entry_X, : other.columns].float())
        start[holder] += count
    assert one._unit == pytest.approx(other._unit) and one._end == other._end == start
    assert torch.equal(one._norm_UM, other._norm_UM)
    for holder, end in enumerate(start):
        blocks = slice(0, end - end % 16)
        assert torch.equal(one._key_UMN[holder, blocks], other._key_UMN[holder, blocks])
    query_GRN = made(4, columns, 9).view(2, 2, -1)[:, :, : one.columns]
    assert torch.equal(one.nominate([0, 1], query_GRN, 33, 9), other.nominate([0, 1], query_GRN, 33, 9))


@with_kernels
@pytest.mark.parametrize("columns", [33, 64])
def test_chunks_are_kept_as_their_new_entries_are_put(columns: int) -> None:
    """Several holders at once, bit by bit: keys larger than a holder's numbers, nothing but zeros, nothing new."""
    key_ND = made(90, 64, 0).half()
    key_ND[:10], key_ND[70:] = 0, key_ND[70:] * 3
    rows = replace(rows_of(key_ND, [40, 50]), end_P=torch.tensor([8, 40, 41, 90]))
    one, other = KernelHeldKeys(3, columns), KernelHeldKeys(3, columns)
    marks, expected = Marks(3), Marks(3)
    for cache in (one, other):
        cache.grow(96)
    held_UM, put_UM = torch.full((3, one.room), -1), torch.full((3, one.room), -1)
    counts = [0, 0, 0]
    for holders, entries in (([2, 0], [[5, 1], [30, -1]]), ([0, 1, 2], [[38, 75], [0, -1], [5, 6]]), ([1], [[40, 88]])):
        starts = [counts[holder] for holder in holders]
        fresh = one.keep_chunks(holders, starts, rows, torch.tensor(entries), 6, held_UM, marks.tables())
        for holder, start, count, begins in zip(holders, starts, fresh, entries, strict=True):
            ends = [min(begin + 6, *(end for end in rows.end_P.tolist() if end > begin)) for begin in begins]
            spans = [range(begin, end) for begin, end in zip(begins, ends, strict=True) if begin >= 0]
            entry_X = expected.fresh(holder, torch.tensor([entry for span in spans for entry in span]))
            other.put_entries(holder, start, rows, entry_X)
            put_UM[holder, start : start + count] = entry_X
            counts[holder] += count
    assert torch.equal(held_UM, put_UM) and counts[2] == 7 and min(counts) > 0
    assert one._unit == other._unit and one._end == other._end == counts
    assert torch.equal(one._norm_UM, other._norm_UM) and torch.equal(one._key_UMN, other._key_UMN)


@with_kernels
def test_entries_are_named_by_what_is_held() -> None:
    """Holders that hold less than is asked for name places without an entry, too: -1."""
    cache = held([made(50, 64, 0), made(5, 64, 1)], 64)
    assert isinstance(cache, KernelHeldKeys)
    entry_UM = torch.full((2, cache.room), -1)
    entry_UM[0, :50], entry_UM[1, :5] = torch.arange(50) + 1000, torch.arange(5) + 7
    query_GRN = made(4, 64, 2).view(2, 2, 64)
    place_GRX = cache.nominate([1, 0], query_GRN, 50, 9)
    name_GRX = cache.nominate_entries([1, 0], query_GRN, 50, 9, entry_UM)
    assert torch.equal(name_GRX[0], entry_UM[1][place_GRX[0]]) and torch.equal(name_GRX[1], entry_UM[0][place_GRX[1]])
    assert sorted(name_GRX[0, 0].tolist()) == [-1] * 4 + [7, 8, 9, 10, 11]
    assert cache.nominate_entries([0], query_GRN[:1], 0, 9, entry_UM).shape == (1, 2, 0)
