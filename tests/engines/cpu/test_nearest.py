"""Nearest neighbours by kernels against comparing with everything; small whole numbers are compared exactly."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nearmt.engines.cpu import nearest
from nearmt.engines.cpu.library import address, loaded
from nearmt.engines.cpu.nearest import CachedRows, KeyRows
from nearmt.engines.reference.distances import first_of, squared_l2
from tests.kernels import needs_kernels

pytestmark = needs_kernels

INF = torch.inf


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def whole_numbers(*shape: int, seed: int = 0, most: int = 127) -> Tensor:
    return torch.randint(-most, most + 1, shape, generator=seeded(seed)).float()


def rows_of(key_ND: Tensor, sizes: list[int]) -> KeyRows:
    """The keys in segments of these sizes."""
    assert sum(sizes) == len(key_ND)
    return KeyRows(list(key_ND.half().split(sizes)), [0, *torch.tensor(sizes).cumsum(0).tolist()])


# Measured; for what tables find see tests/engines/test_entries.py.


def brute_force(key_ND: Tensor, query_BE: Tensor, candidate_BX: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """By all differences; equal distances by entry."""
    entry_BX = candidate_BX.sort(dim=1).values
    found = first_of(entry_BX, squared_l2(query_BE, key_ND[entry_BX.clamp(min=0), : query_BE.shape[1]]), k)
    return found.entry_BK, found.distance_BK


sizes = st.lists(st.integers(0, 20), min_size=1, max_size=5).filter(any)


def test_no_queries() -> None:
    found = rows_of(whole_numbers(4, 5), [4]).nearest(torch.zeros(0, 5), torch.zeros(0, 3, dtype=torch.long), 2)
    assert found[0].shape == found[1].shape == (0, 2)


def test_queries_and_candidates_may_have_any_strides() -> None:
    key_ND, query_BD = whole_numbers(40, 19), whole_numbers(6, 19, seed=1)
    candidate_BX = torch.randint(-1, 40, (6, 15), generator=seeded(2))
    rows, expected = rows_of(key_ND, [40]), brute_force(key_ND, query_BD, candidate_BX, 5)
    for query in (query_BD.double(), query_BD.half(), query_BD.T.contiguous().T, query_BD.repeat(1, 2)[:, :19]):
        for candidate in (candidate_BX, candidate_BX.T.contiguous().T):
            for mine, true in zip(rows.nearest(query, candidate, 5), expected, strict=True):
                assert torch.equal(mine, true)


def test_keys_that_kernels_read() -> None:
    key_ND = torch.zeros(4, 6, dtype=torch.float16)
    assert KeyRows.fits([key_ND]) and KeyRows.fits([key_ND, key_ND])
    assert not KeyRows.fits([])
    assert not KeyRows.fits([key_ND.float()])
    assert not KeyRows.fits([key_ND, key_ND[:, ::2]])
    assert not KeyRows.fits([key_ND.to("meta")])


@given(
    sizes=sizes, columns=st.integers(1, 40), unused=st.integers(0, 3), count=st.integers(0, 10), seed=st.integers(0, 99)
)
def test_the_largest_number(sizes: list[int], columns: int, unused: int, count: int, seed: int) -> None:
    """Of nothing it is 0."""
    key_ND = torch.randn(sum(sizes), columns + unused, generator=seeded(seed)).half()
    entry_X = torch.randint(0, len(key_ND), (count,), generator=seeded(seed))
    expected = float(key_ND[entry_X, :columns].abs().max()) if count else 0.0
    assert rows_of(key_ND, sizes).largest(entry_X, columns) == expected


# Nominated.


def empty(positions: int, columns: int) -> tuple[Tensor, Tensor]:
    """The rounded keys of a cache, in whole blocks of 16 positions and 4 columns, and half their squared lengths."""
    capacity = positions + -positions % 16
    return torch.zeros(capacity, columns + -columns % 4, dtype=torch.uint8), torch.zeros(capacity, dtype=torch.int32)


def rounded(key_XN: Tensor, unit: float = 1.0, start: int = 0) -> tuple[Tensor, Tensor]:
    key_MN, half_M = empty(start + len(key_XN), key_XN.shape[1])
    nearest.write_keys(key_MN, half_M, start, key_XN, unit)
    return key_MN, half_M


def read(key_MN: Tensor) -> Tensor:
    """Rounded keys as numbers, [M, N]."""
    capacity, columns = key_MN.shape
    return key_MN.view(capacity // 16, columns // 4, 16, 4).permute(0, 2, 1, 3).reshape(capacity, columns).float() - 128


@pytest.mark.parametrize("columns", [4, 16, 20, 64, 68])
@pytest.mark.parametrize("count", [0, 1, 15, 16, 33])
@pytest.mark.parametrize("start", [0, 3, 16])
def test_keys_are_rounded_to_multiples_of_a_unit(columns: int, count: int, start: int) -> None:
    key_XN = (torch.rand(count, columns, generator=seeded(0)) - 0.5) * 63
    key_MN, half_M = rounded(key_XN, unit=0.25, start=start)
    number_XN = (key_XN * 4).round()
    span = slice(start, start + count)
    assert torch.equal(read(key_MN)[span], number_XN)
    assert torch.equal(half_M[span], (number_XN.square().sum(dim=1) / 2).int())
    assert not half_M[:start].any() and not half_M[start + count :].any()
    assert (read(key_MN)[:start] == -128).all() and (read(key_MN)[start + count :] == -128).all()


def test_given_keys_may_have_any_strides() -> None:
    """Copies that are made for a kernel live until it has finished."""
    key_XD = whole_numbers(50, 200)
    for key_XN in (key_XD[:, :64], key_XD[:, ::2], key_XD.T.contiguous().T):
        for mine, expected in zip(
            rounded(key_XN), rounded(key_XN.clone(memory_format=torch.contiguous_format)), strict=True
        ):
            assert torch.equal(mine, expected)


@given(
    sizes=sizes, columns=st.integers(1, 40), unused=st.integers(0, 70), count=st.integers(0, 20),
    start=st.integers(0, 20), seed=st.integers(0, 99),
)  # fmt: skip
def test_entries_are_rounded_as_their_keys_are(
    sizes: list[int], columns: int, unused: int, count: int, start: int, seed: int
) -> None:
    """Their first columns, padded with zeros: neither other columns nor the next entry have a part."""
    key_ND = torch.randn(sum(sizes), columns + unused, generator=seeded(seed)).half()
    entry_X = torch.randint(0, len(key_ND), (count,), generator=seeded(seed))
    unit = float(key_ND.abs().max()) / 127
    key_MN, half_M = empty(start + count, columns)
    rows_of(key_ND, sizes).write_keys(key_MN, half_M, start, entry_X, unit, columns)
    padded_XN = torch.nn.functional.pad(key_ND[entry_X, :columns].float(), (0, -columns % 4))
    expected_MN, expected_M = rounded(padded_XN, unit, start)
    assert torch.equal(key_MN, expected_MN) and torch.equal(half_M, expected_M)


def exact_scores(query_RN: Tensor, key_MN: Tensor) -> Tensor:
    """q . k - |k|^2 / 2, halves cut off, and 128 times the sum of q, [R, M]."""
    half_M = (key_MN.square().sum(dim=1) / 2).floor()
    return query_RN @ key_MN.T - half_M + 128 * query_RN.sum(dim=1, keepdim=True)


@settings(max_examples=150)
@given(
    columns=st.sampled_from([4, 8, 16, 20, 64, 128]), ends=st.lists(st.integers(1, 400), min_size=1, max_size=3),
    rows=st.integers(1, 12), most=st.sampled_from([1, 127]), data=st.data(),
)  # fmt: skip
def test_the_nearest_are_nominated(columns: int, ends: list[int], rows: int, most: int, data: st.DataObject) -> None:
    """Exact in whole numbers; with numbers up to 1 many are equal, of which the first are nominated."""
    count, seed = data.draw(st.integers(1, min(ends))), data.draw(st.integers(0, 1000))
    order = data.draw(st.permutations(range(len(ends))))
    capacity = max(ends) + -max(ends) % 16
    key_UMN = torch.stack([whole_numbers(capacity, columns, seed=seed + u, most=most) for u in range(len(ends))])
    parts = [rounded(key_MN) for key_MN in key_UMN]
    key, half = torch.stack([part[0] for part in parts]), torch.stack([part[1] for part in parts])
    entry_UM = torch.randperm(len(ends) * capacity, generator=seeded(seed)).view(len(ends), capacity)
    query_GRN = whole_numbers(len(ends), rows, columns, seed=seed + 9, most=most)
    units, some = [1.0] * len(ends), [ends[u] for u in order]
    entry_GRX, score_GRX = nearest.nominate(key, half, entry_UM, order, units, some, query_GRN, count)
    assert entry_GRX.shape == score_GRX.shape == (len(ends), rows, count)
    for group, cache in enumerate(order):
        score_RM = exact_scores(query_GRN[group], key_UMN[cache, : ends[cache]])
        best = score_RM.sort(dim=1, descending=True, stable=True)
        expected_RX = entry_UM[cache][best.indices[:, :count]]
        for row in range(rows):
            found = zip(entry_GRX[group, row].tolist(), score_GRX[group, row].tolist(), strict=True)
            expected = zip(expected_RX[row].tolist(), best.values[row, :count].int().tolist(), strict=True)
            assert set(found) == set(expected)


@pytest.mark.parametrize("count", [1, 7, 40])
@pytest.mark.parametrize("falling", [False, True])
def test_positions_that_get_better_and_better(count: int, falling: bool) -> None:
    """The shortlist is thinned out again and again, or never after the first time."""
    end = 1000
    key_MN = torch.zeros(end, 4)
    key_MN[:, 0] = torch.arange(end).flip(0) // 8 if falling else torch.arange(end) // 8
    key, half = rounded(key_MN)
    query = torch.tensor([[[127.0, 0.0, 0.0, 0.0]]])
    entries = torch.arange(len(half))[None]
    entry_GRX, _ = nearest.nominate(key[None], half[None], entries, [0], [1.0], [end], query, count)
    best = exact_scores(query[0], key_MN).sort(dim=1, descending=True, stable=True).indices[0, :count]
    assert sorted(entry_GRX[0, 0].tolist()) == sorted(best.tolist())


def test_queries_are_rounded_to_the_unit_of_a_cache_and_clamped() -> None:
    key, half = rounded(whole_numbers(16, 8))
    both_key, both_half, entries = key.expand(2, -1, -1).contiguous(), half.expand(2, -1).contiguous(), torch.arange(32)
    query_GRN = torch.tensor([[[0.5, -1.0, 300.0, -300.0, 1e30, -1e30, 0.12, 0.0]]]).expand(2, 1, 8)
    number_N = torch.tensor([2.0, -4.0, 127.0, -128.0, 127.0, -128.0, 0.0, 0.0])
    entry, score = nearest.nominate(
        both_key, both_half, entries.view(2, 16), [1, 0], [0.25, 1e3], [16, 16], query_GRN, 16
    )
    assert sorted(entry[0, 0].tolist()) == list(range(16, 32)) and sorted(entry[1, 0].tolist()) == list(range(16))
    number_RN = torch.stack([number_N, torch.tensor([0.0, 0.0, 0.0, 0.0, 127.0, -128.0, 0.0, 0.0])])
    score_RM = exact_scores(number_RN, read(key)).int()
    assert torch.equal(score[0, 0][entry[0, 0].argsort()], score_RM[0])
    assert torch.equal(score[1, 0][entry[1, 0].argsort()], score_RM[1])


# Recalled: nominated, and then measured.


def all_caches(keys: list[Tensor], entries: list[Tensor], units: list[float]) -> tuple[Tensor, Tensor, Tensor]:
    """Rounded keys of some caches, half their squared lengths, and their entries (-1: none)."""
    capacity = max(len(entry_X) for entry_X in entries)
    capacity += 16 + -capacity % 16
    columns = keys[0].shape[1]
    key_UMN = torch.zeros(len(keys), capacity, columns, dtype=torch.uint8)
    half_UM, entry_UM = torch.zeros(len(keys), capacity, dtype=torch.int32), torch.full((len(keys), capacity), -1)
    for cache, (key_XN, entry_X) in enumerate(zip(keys, entries, strict=True)):
        nearest.write_keys(key_UMN[cache], half_UM[cache], 0, key_XN, units[cache])
        entry_UM[cache, : len(entry_X)] = entry_X
    return key_UMN, half_UM, entry_UM


def made_caches(counts: list[int], rounded_columns: int, columns: int, seed: int) -> tuple[KeyRows, CachedRows]:
    """Keys of 120 entries in three segments, and caches with `counts` of them; the last one has large keys."""
    key_ND = torch.randn(120, columns + 3, generator=seeded(seed)).half()
    key_ND[60:] *= 4
    entries = [torch.randperm(60, generator=seeded(seed + u))[:count] for u, count in enumerate(counts)]
    entries[-1] = entries[-1] + 60
    keys = [key_ND[entry_X, :rounded_columns].float() for entry_X in entries]
    units = [float(key_XN.abs().max()) / 127 if len(key_XN) else 1e-30 for key_XN in keys]
    every = list(range(len(counts)))
    cached = CachedRows(*all_caches(keys, entries, units), every, units, list(counts), every)
    return rows_of(key_ND, [50, 0, 70]), cached


def some_of(cached: CachedRows, caches: list[int], slots: list[int]) -> CachedRows:
    units, ends = [cached.units[u] for u in caches], [cached.ends[u] for u in caches]
    return CachedRows(cached.key_UMN, cached.half_UM, cached.entry_UM, caches, units, ends, slots)


def nominated_and_measured(
    keys: KeyRows,
    cached: CachedRows,
    query_BD: Tensor,
    rows: int,
    columns: int,
    count: int,
    found: tuple[Tensor, Tensor],
) -> None:
    """What `recall` does, one sentence after the other."""
    entry_BK, distance_BK = found
    tables, width, k = (cached.key_UMN, cached.half_UM, cached.entry_UM), cached.key_UMN.shape[2], entry_BK.shape[1]
    for cache, unit, end, slot in zip(cached.caches, cached.units, cached.ends, cached.slots, strict=True):
        its = slice(slot * rows, (slot + 1) * rows)
        candidate_RX = torch.zeros(rows, 0, dtype=torch.long)
        if end:
            query_1RN = query_BD[None, its, :width]
            candidate_RX = nearest.nominate(*tables, [cache], [unit], [end], query_1RN, min(count, end))[0][0]
        entry_BK[its], distance_BK[its] = keys.nearest(query_BD[its, :columns], candidate_RX, k)
        distance_BK[its] = distance_BK[its].sqrt()


def nothing_yet(rows: int, k: int) -> tuple[Tensor, Tensor]:
    return torch.full((rows, k), -7), torch.full((rows, k), -7.0)


@settings(max_examples=100)
@given(
    counts=st.lists(st.integers(0, 60), min_size=1, max_size=4), rows=st.sampled_from([1, 4, 5, 7]),
    rounded_columns=st.sampled_from([4, 36, 64]), unrounded=st.sampled_from([0, 5]), k=st.integers(1, 20),
    more=st.integers(0, 30), data=st.data(),
)  # fmt: skip
def test_recalled_are_the_nearest_of_those_nominated(
    counts: list[int], rows: int, rounded_columns: int, unrounded: int, k: int, more: int, data: st.DataObject
) -> None:
    """Caches with fewer than are asked for, and with none; sentences in any slots, some of which do not recall."""
    seed, columns = data.draw(st.integers(0, 1000)), rounded_columns + unrounded
    keys, everything = made_caches(counts, rounded_columns, columns, seed)
    caches = data.draw(st.permutations(range(len(counts))))[: data.draw(st.integers(0, len(counts)))]
    sentences = len(counts) + data.draw(st.integers(0, 2))
    slots = data.draw(st.permutations(range(sentences)))[: len(caches)]
    cached = some_of(everything, caches, slots)
    query_BD = torch.randn(sentences * rows, columns + 3, generator=seeded(seed + 1))
    found, expected = nothing_yet(len(query_BD), k), nothing_yet(len(query_BD), k)
    keys.recall(cached, query_BD, rows, columns, k + more, *found)
    nominated_and_measured(keys, cached, query_BD, rows, columns, k + more, expected)
    assert torch.equal(found[0], expected[0])
    torch.testing.assert_close(found[1], expected[1], rtol=1e-6, atol=0.0)


def test_recalled_distances_are_not_squared() -> None:
    """Where all are nominated, brute force decides."""
    keys, cached = made_caches([40, 30], 36, 36, seed=5)
    query_BD = torch.randn(6, 39, generator=seeded(6))
    entry_BK, distance_BK = nothing_yet(6, 8)
    keys.recall(cached, query_BD, 3, 36, 40, entry_BK, distance_BK)
    key_ND = torch.cat(list(keys._keys)).float()
    entry_BX = cached.entry_UM.repeat_interleave(3, dim=0)
    expected = brute_force(key_ND, query_BD[:, :36], entry_BX, 8)
    assert torch.equal(entry_BK, expected[0])
    torch.testing.assert_close(distance_BK, expected[1].sqrt(), rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("value", [torch.nan, INF, -INF])
def test_rows_that_are_not_finite_do_not_change_others(value: float) -> None:
    keys, cached = made_caches([40, 0, 30], 36, 36, seed=7)
    query_BD = torch.randn(12, 39, generator=seeded(8))
    bad_BD = query_BD.clone()
    bad_BD[1::4] = value
    found, expected = nothing_yet(12, 8), nothing_yet(12, 8)
    keys.recall(cached, bad_BD, 4, 36, 24, *found)
    keys.recall(cached, query_BD, 4, 36, 24, *expected)
    good = torch.arange(12) % 4 != 1
    assert torch.equal(found[0][good], expected[0][good]) and torch.equal(found[1][good], expected[1][good])
    assert (found[1][~good] == INF).all() and (found[0][5] == -1).all()
    assert all(set(found[0][row].tolist()) <= set(cached.entry_UM[row // 4].tolist()) for row in (1, 9))


# Hash tables.


@given(parts=st.lists(st.lists(st.one_of(st.integers(-1, 40), st.integers(-1, 2**31 - 2)), max_size=20), max_size=6))
def test_a_hash_table_is_a_set_in_order(parts: list[list[int]]) -> None:
    table_T, known = torch.zeros(128, dtype=torch.int32), set[int]()
    for part in parts:
        expected = [entry for entry in dict.fromkeys(part) if entry >= 0 and entry not in known]
        fresh_X = nearest.mark(table_T, torch.tensor(part, dtype=torch.long))
        assert fresh_X.dtype == torch.long and fresh_X.tolist() == expected
        known |= set(expected)
    assert sorted(entry - 1 for entry in table_T.tolist() if entry) == sorted(known)


@pytest.mark.parametrize("step", [1, 1024, 65_536, 1_000_003])
def test_a_hash_table_takes_nearly_as_many_as_its_size(step: int) -> None:
    """However they collide, and also round the end of the table."""
    table_T, entry_X = torch.zeros(64, dtype=torch.int32), step * torch.arange(63)
    assert torch.equal(nearest.mark(table_T, entry_X[:50]), entry_X[:50])
    assert torch.equal(nearest.mark(table_T, entry_X.flip(0)), entry_X[50:].flip(0))
    assert not len(nearest.mark(table_T, entry_X))


def chunks_by_hand(entries: list[int], chunk: int, ends: list[int], known: set[int]) -> list[int]:
    """New entries of the chunks, in order; `known` has them from now on."""
    found = []
    for entry in entries:
        last = min([entry + chunk, *(end for end in ends if end > entry)]) if entry >= 0 else entry
        for each in range(entry, last):
            if each not in known:
                known.add(each)
                found.append(each)
    return found


def mark_chunks(table_T: Tensor, entry_X: Tensor, chunk: int, end_P: Tensor, fresh_M: Tensor) -> int:
    """Write the new entries of the chunks that begin with these entries to `fresh_M`. A part of `append_chunks`."""
    count: int = loaded().mark_chunks(
        address(table_T), len(table_T), address(entry_X), len(entry_X), chunk, address(end_P), len(end_P),
        address(fresh_M),
    )  # fmt: skip
    return count


@settings(max_examples=150)
@given(
    lengths=st.lists(st.integers(0, 7), min_size=1, max_size=20).filter(any), chunk=st.integers(1, 9),
    first=st.sampled_from([0, 1000, 2**31 - 300]), data=st.data(),
)  # fmt: skip
def test_chunks_are_marked_as_far_as_pairs_go(lengths: list[int], chunk: int, first: int, data: st.DataObject) -> None:
    """Pairs without entries among them; entries from some number on; chunks that overlap, and missing ones.

    All entries together fill up to half of the table.
    """
    end_P = first + torch.tensor(lengths).cumsum(0)
    ends, count = end_P.tolist(), sum(lengths)
    table_T, known = torch.zeros(1 << (2 * count - 1).bit_length(), dtype=torch.int32), set[int]()
    entry = st.one_of(st.just(-1), st.integers(first, first + count - 1))
    for entries in data.draw(st.lists(st.lists(entry, max_size=25), max_size=4)):
        expected = chunks_by_hand(entries, chunk, ends, known)
        fresh_M = torch.full((chunk * len(entries),), -7)
        entry_X = torch.tensor(entries, dtype=torch.long)
        assert mark_chunks(table_T, entry_X, chunk, end_P, fresh_M) == len(expected)
        assert fresh_M.tolist() == expected + [-7] * (len(fresh_M) - len(expected))
    assert sorted(number - 1 for number in table_T.tolist() if number) == sorted(known)


def test_chunks_and_entries_share_a_table() -> None:
    table_T, fresh_M = torch.zeros(64, dtype=torch.int32), torch.full((9,), -7)
    nearest.mark(table_T, torch.tensor([3, 5]))
    assert mark_chunks(table_T, torch.tensor([2, -1, 4, 9]), 3, torch.tensor([4, 4, 8, 10]), fresh_M) == 4
    assert fresh_M.tolist() == [2, 4, 6, 9, -7, -7, -7, -7, -7]
    assert nearest.mark(table_T, torch.arange(11)).tolist() == [0, 1, 7, 8, 10]


@pytest.mark.parametrize("length", [1, 7, 64, 1000])
def test_chunks_of_a_table_that_is_half_full(length: int) -> None:
    """Pairs of one length; every entry begins a chunk, the last ones first."""
    count = 2000
    end_P = torch.arange(length, count + length, length).clamp(max=count)
    table_T, fresh_M = torch.zeros(4096, dtype=torch.int32), torch.empty(count, dtype=torch.long)
    assert mark_chunks(table_T, torch.arange(count).flip(0), 5, end_P, fresh_M) == count
    assert torch.equal(fresh_M, torch.arange(count).flip(0))
    assert not mark_chunks(table_T, torch.arange(count), length, end_P, fresh_M)
