"""Inverted lists by kernels: what brute force finds on whole numbers, and what an index finds without kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nearmt.contracts import Neighbours
from nearmt.engines.cpu.lists import InvertedLists, ListSearch, RoundedCentres
from nearmt.engines.cpu.nearest import KeyRows
from nearmt.engines.reference.clusters import rounded
from nearmt.index import Quantiser, SharedIndex
from nearmt.index.faiss import flat_centres
from nearmt.index.shared import Assignment
from tests.index.test_contract import brute_force, made_keys, made_queries, some_mask
from tests.index.test_shared import ENTRIES, quantiser_of
from tests.kernels import needs_kernels

pytestmark = needs_kernels

INF = torch.inf
WHOLE = "IVF16,SQ8_direct_signed"


def whole_numbers(*shape: int, seed: int, least: int = -128, most: int = 127) -> Tensor:
    return torch.randint(least, most + 1, shape, generator=torch.Generator().manual_seed(seed)).float()


def squared(number_BD: Tensor, other_XD: Tensor) -> Tensor:
    """Squared distances [B, X], less 1 where the other squared length is odd: half of it is rounded down."""
    exact_BX = (number_BD[:, None].double() - other_XD[None].double()).square().sum(dim=2)
    return (exact_BX - other_XD.double().square().sum(dim=1) % 2).float()


# Centres.


@settings(max_examples=100)
@given(
    count=st.integers(1, 70), columns=st.sampled_from([4, 12, 16, 64, 68]), rows=st.integers(1, 12),
    wanted=st.integers(1, 80), seed=st.integers(0, 1000),
)  # fmt: skip
def test_centres_are_those_of_brute_force(count: int, columns: int, rows: int, wanted: int, seed: int) -> None:
    """The nearest first; no more than there are."""
    number_CD, number_BD = whole_numbers(count, columns, seed=seed), whole_numbers(rows, columns, seed=seed + 1)
    distance_BK, cluster_BK = RoundedCentres(number_CD).nearest(number_BD, wanted)
    expected_BC = squared(number_BD, number_CD).clamp(min=0)
    assert distance_BK.shape == cluster_BK.shape == (rows, min(wanted, count))
    assert torch.equal(distance_BK, expected_BC.sort(dim=1).values[:, :wanted])
    # Of equally far ones any may come; each cluster once.
    assert torch.equal(expected_BC.gather(1, cluster_BK), distance_BK)
    assert all(len(set(row)) == len(row) for row in cluster_BK.tolist())


def test_a_query_at_a_centre_has_distance_0() -> None:
    number_CD = torch.tensor([[1.0, 0.0, 0.0, 0.0], [2.0, 2.0, 0.0, 0.0], [-128.0] * 4, [127.0] * 4])
    distance_BK, cluster_BK = RoundedCentres(number_CD).nearest(number_CD, 1)
    assert cluster_BK[:, 0].tolist() == [0, 1, 2, 3]
    assert not distance_BK.any()


# Codes.


def lists_of(
    sizes: list[int], columns: int, seed: int, most: int = 127
) -> tuple[InvertedLists, list[Tensor], list[Tensor]]:
    """Lists of these sizes: as kernels have them, their codes as numbers, and their entries in no order."""
    numbers = [whole_numbers(size, columns, seed=seed + n, least=-most, most=most) for n, size in enumerate(sizes)]
    generator = torch.Generator().manual_seed(seed)
    entries = list(torch.randperm(sum(sizes), generator=generator).split(sizes))
    codes = [(number_XD + 128).to(torch.uint8).flatten().numpy() for number_XD in numbers]
    return InvertedLists(codes, [entry_X.numpy() for entry_X in entries], columns), numbers, entries


@settings(max_examples=150)
@given(
    sizes=st.lists(st.integers(0, 20), min_size=1, max_size=6), columns=st.sampled_from([1, 3, 63, 64, 65, 130]),
    rows=st.integers(0, 6), probes=st.integers(1, 6), wanted=st.integers(1, 30), most=st.sampled_from([1, 127]),
    seed=st.integers(0, 1000),
)  # fmt: skip
def test_neighbours_in_clusters_are_those_of_brute_force(
    sizes: list[int], columns: int, rows: int, probes: int, wanted: int, most: int, seed: int
) -> None:
    """Some lists are empty, some rows probe fewer; of equally far ones those that are read first come first."""
    lists, numbers, entries = lists_of(sizes, columns, seed, most)
    number_BD = whole_numbers(rows, columns, seed=seed + 99, least=-most, most=most)
    draw = np.random.default_rng(seed)
    cluster_BP = torch.full((rows, probes), -1)
    for row in range(rows):
        some = draw.permutation(len(sizes))[: draw.integers(0, probes + 1)]
        cluster_BP[row, torch.from_numpy(draw.permutation(probes)[: len(some)])] = torch.from_numpy(some)
    entry_BK, distance_BK = lists.nearest(number_BD, cluster_BP, wanted)
    assert entry_BK.shape == distance_BK.shape == (rows, wanted)
    for row in range(rows):
        probed = sorted(cluster for cluster in cluster_BP[row].tolist() if cluster >= 0)
        number_XD = torch.cat([torch.zeros(0, columns), *(numbers[cluster] for cluster in probed)])
        entry_X = torch.cat([torch.zeros(0, dtype=torch.long), *(entries[cluster] for cluster in probed)])
        near = squared(number_BD[row, None], number_XD)[0].sort(stable=True)  # below 0 by rounding is 0
        missing = max(0, wanted - len(entry_X))
        assert entry_BK[row].tolist() == entry_X[near.indices].tolist()[:wanted] + [-1] * missing
        assert distance_BK[row].tolist() == near.values.clamp(min=0).tolist()[:wanted] + [INF] * missing


def test_the_farthest_numbers_are_compared_exactly() -> None:
    """Sums of 16 bits would be too small."""
    lists = InvertedLists([np.array([0, 255], np.uint8).repeat(512)], [np.array([7, 4])], 512)
    number_BD = torch.tensor([[-128.0], [127.0]]).expand(2, 512)
    entry_BK, distance_BK = lists.nearest(number_BD, torch.zeros(2, 1, dtype=torch.long), 2)
    assert entry_BK.tolist() == [[7, 4], [4, 7]]
    assert distance_BK.tolist() == [[0.0, 512.0 * 255**2]] * 2


def test_a_row_does_not_depend_on_others() -> None:
    lists, _, _ = lists_of([30, 5, 0, 41], 24, seed=3)
    number_BD = whole_numbers(9, 24, seed=4)
    cluster_BP = torch.tensor([[0, 3], [1, -1], [3, 1]]).repeat(3, 1)
    entry_BK, distance_BK = lists.nearest(number_BD, cluster_BP, 8)
    for row in range(9):
        alone = lists.nearest(number_BD[row : row + 1], cluster_BP[row : row + 1], 8)
        assert torch.equal(alone[0][0], entry_BK[row]) and torch.equal(alone[1][0], distance_BK[row])


# Centres, codes and keys at once.


def keys_of(key_ND: Tensor) -> KeyRows:
    return KeyRows([key_ND.half()], [0, len(key_ND)])


def searched_by_hand(
    number_D: Tensor, number_CD: Tensor, numbers: list[Tensor], entries: list[Tensor], probes: int, reach: float,
    wanted: int, k: int,
) -> tuple[list[int], list[float]]:  # fmt: skip
    """Of one query: entries in the nearest clusters, as many as are wanted by their codes, then by true distance."""
    near_C = squared(number_D[None], number_CD)[0]
    probed = near_C.sort(stable=True).indices[:probes].tolist()
    bound = float(near_C.clamp(min=0).min()) * reach if reach else INF
    enough = float(near_C[probed[:4][-1]])  # the nearest four are always probed
    probed = sorted(c for c in probed if max(0.0, float(near_C[c])) <= bound or float(near_C[c]) <= enough)
    number_XD, entry_X = torch.cat([numbers[c] for c in probed]), torch.cat([entries[c] for c in probed])
    order_X = squared(number_D[None], number_XD)[0].sort(stable=True).indices[:wanted]
    exact_X = (number_XD[order_X] - number_D).square().sum(dim=1)
    best = sorted(zip(exact_X.tolist(), entry_X[order_X].tolist(), strict=True))[:k]
    missing = k - len(best)
    return [entry for _, entry in best] + [-1] * missing, [far for far, _ in best] + [INF] * missing


def searched(
    lists: InvertedLists, *how: *tuple[RoundedCentres, KeyRows, float, int, float, int, int, Tensor]
) -> tuple[Tensor, Tensor]:
    """Entries and distances of all rows; the last arguments are k and the queries."""
    k, query_BD = how[6:]
    entry_BK, distance_BK = torch.empty(len(query_BD), k, dtype=torch.long), torch.empty(len(query_BD), k)
    fewer = lists.search(*how, None, entry_BK, distance_BK)
    assert fewer == int((entry_BK[:, -1] < 0).sum())
    return entry_BK, distance_BK


@settings(max_examples=150)
@given(
    sizes=st.lists(st.integers(0, 20), min_size=1, max_size=20), columns=st.sampled_from([4, 12, 64, 68]),
    rows=st.integers(0, 12), reach=st.sampled_from([0.0, 1.0, 1.1, 2.0]), k=st.integers(1, 12),
    most=st.sampled_from([1, 127]), data=st.data(),
)  # fmt: skip
def test_searches_find_what_is_found_by_hand(
    sizes: list[int], columns: int, rows: int, reach: float, k: int, most: int, data: st.DataObject
) -> None:
    """Some lists are empty, some queries are centres; with numbers up to 1 many centres and keys are equally far."""
    seed, probes = data.draw(st.integers(0, 1000)), data.draw(st.integers(1, len(sizes)))
    wanted = k + data.draw(st.integers(0, 20))
    lists, numbers, entries = lists_of(sizes, columns, seed, most)
    number_CD = whole_numbers(len(sizes), columns, seed=seed + 77, least=-most, most=most)
    number_BD = whole_numbers(rows, columns, seed=seed + 99, least=-most, most=most)
    number_BD[::3] = number_CD[torch.arange(len(number_BD[::3])) % len(sizes)]
    key_ND = torch.zeros(max(1, sum(sizes)), columns)
    key_ND[torch.cat(entries)] = torch.cat(numbers)
    # Keys and queries are quarters of these numbers, which codes count.
    centres, keys, query_BD = RoundedCentres(number_CD), keys_of(key_ND / 4), number_BD / 4
    entry_BK, distance_BK = searched(lists, centres, keys, 0.25, probes, reach, wanted, k, query_BD)
    assert entry_BK.shape == distance_BK.shape == (rows, k)
    for row, number_D in enumerate(number_BD):
        expected, distances = searched_by_hand(number_D, number_CD, numbers, entries, probes, reach, wanted, k)
        assert entry_BK[row].tolist() == expected
        assert (distance_BK[row] * 16).tolist() == distances


def test_keys_may_be_in_several_segments() -> None:
    lists, numbers, entries = lists_of([30, 5, 0, 41], 24, seed=3)
    centres, number_BD = RoundedCentres(whole_numbers(4, 24, seed=5)), whole_numbers(9, 24, seed=4)
    key_ND = torch.zeros(76, 24)
    key_ND[torch.cat(entries)] = torch.cat(numbers)
    cut = KeyRows(list(key_ND.half().split([20, 0, 56])), [0, 20, 20, 76])
    expected = searched(lists, centres, keys_of(key_ND), 1.0, 3, 1.5, 16, 8, number_BD)
    for keys in (keys_of(key_ND), cut):
        found = searched(lists, centres, keys, 1.0, 3, 1.5, 16, 8, number_BD)
        assert torch.equal(found[0], expected[0]) and torch.equal(found[1], expected[1])


@pytest.mark.parametrize("rows", [[], [0], [8, 2], [1, 4, 5, 6, 7, 8]])
@pytest.mark.parametrize("width", [8, 11])
def test_results_are_written_to_the_rows_that_search(rows: list[int], width: int) -> None:
    lists, numbers, entries = lists_of([30, 5, 0, 41], 24, seed=3)
    centres, number_BD = RoundedCentres(whole_numbers(4, 24, seed=5)), whole_numbers(9, 24, seed=4)
    key_ND = torch.zeros(76, 24)
    key_ND[torch.cat(entries)] = torch.cat(numbers)
    how = centres, keys_of(key_ND), 1.0, 2, 0.0, 16, 8
    expected_BK, distances_BK = searched(lists, *how, number_BD)
    entry_BX, distance_BX = torch.full((9, width), -7), torch.full((9, width), -7.0)
    fewer = lists.search(*how, number_BD, np.array(rows, dtype=np.int64), entry_BX, distance_BX)
    assert fewer == int((expected_BK[rows, -1] < 0).sum())
    assert torch.equal(entry_BX[rows, :8], expected_BK[rows]) and torch.equal(distance_BX[rows, :8], distances_BK[rows])
    assert (entry_BX[rows, 8:] == -1).all() and distance_BX[rows, 8:].isinf().all()
    others = [row for row in range(9) if row not in rows]
    assert (entry_BX[others] == -7).all() and (distance_BX[others] == -7).all()


def test_rows_that_find_too_few_are_counted() -> None:
    lists, numbers, entries = lists_of([3, 9], 8, seed=1)
    key_ND = torch.zeros(12, 8)
    key_ND[torch.cat(entries)] = torch.cat(numbers)
    number_CD = torch.tensor([[-100.0] * 8, [100.0] * 8])
    how = RoundedCentres(number_CD), keys_of(key_ND), 1.0, 1, 0.0, 5, 5
    entry_BX, distance_BX = torch.empty(4, 5, dtype=torch.long), torch.empty(4, 5)
    assert lists.search(*how, number_CD[[0, 1, 0, 1]].contiguous(), None, entry_BX, distance_BX) == 2
    assert (entry_BX[:, -1] < 0).tolist() == [True, False, True, False]


# In an index.


def index_of(effort: int) -> SharedIndex:
    index = quantiser_of(WHOLE).index(made_keys(ENTRIES))
    index.effort = effort
    return index


def test_kernels_read_the_lists_of_an_index(request: pytest.FixtureRequest) -> None:
    assert isinstance(index_of(4).lists, ListSearch)
    for other in ("IVF16,SQ8", "IVF16,Flat"):  # codes that are not whole numbers
        assert quantiser_of(other).index(made_keys(ENTRIES)).lists is None
    narrow = made_keys(ENTRIES)[:, :14]  # columns that do not come in fours
    assert Quantiser.train(narrow, WHOLE).index(narrow).lists is None
    request.getfixturevalue("no_kernels")
    assert index_of(4).lists is None


@pytest.mark.parametrize("effort", [1, 4, 16])
@pytest.mark.parametrize("rows", [1, 30])
def test_an_index_finds_what_it_finds_without_kernels(effort: int, rows: int, request: pytest.FixtureRequest) -> None:
    query, wanted, last = made_queries(rows).numpy(), 16, 8
    # A query beyond all keys: its numbers are clamped.
    query[0] = -100.0
    index = index_of(effort)
    assigned = index.quantiser.assign(query, effort)
    entry_BX, distance_BX = index.nominate_in(assigned, wanted, None)
    request.getfixturevalue("no_kernels")
    plain = index_of(effort)
    expected = plain.quantiser.assign(query, effort)
    np.testing.assert_array_equal(assigned.query_BD, expected.query_BD)
    np.testing.assert_array_equal(assigned.distance_BP, expected.distance_BP)
    # Clusters whose rounded centres are equally far may be exchanged.
    same = Assignment(assigned.query_BD, assigned.cluster_BP, assigned.distance_BP)
    exact_BX, exact_distance_BX = plain.nominate_in(same, wanted, None)
    assert torch.equal(entry_BX < 0, exact_BX < 0)
    # Half of an odd squared length is rounded down: that takes 1 of a squared distance, so the last may be exchanged.
    there_BX = entry_BX >= 0
    assert (distance_BX[there_BX] - exact_distance_BX[there_BX]).abs().max() <= 1
    for mine, exact, distance_X in zip(entry_BX.tolist(), exact_BX.tolist(), exact_distance_BX, strict=True):
        surely = [entry for entry, near in zip(exact, distance_X, strict=True) if near < distance_X[last] - 1]
        assert set(surely) <= set(mine)


def test_the_nearest_of_all_are_nominated() -> None:
    query, key = made_queries(30), made_keys(ENTRIES)
    for mask in (None, some_mask(0.3, ENTRIES)):
        found = index_of(16).nominate(query, 8, mask)
        expected = torch.from_numpy(brute_force(query, key, 8, None if mask is None else mask.numpy()))
        assert (expected[:, :, None] == found[:, None, :]).any(dim=2).float().mean() > 0.995


def test_clusters_that_are_not_probed_are_not_read() -> None:
    index, query = index_of(16), made_queries(10).numpy()
    assigned = index.quantiser.assign(query, 16)
    none = replace(assigned, cluster_BP=np.full_like(assigned.cluster_BP, -1))
    entry_BX, distance_BX = index.nominate_in(none, 5, None)
    assert (entry_BX == -1).all() and (distance_BX == INF).all()
    first = replace(assigned, cluster_BP=np.where(np.arange(16) == 0, assigned.cluster_BP, -1))
    assert torch.equal(
        index.nominate_in(first, 5, None)[0], index.nominate_in(index.quantiser.assign(query, 1), 5, None)[0]
    )


def at_once(index: SharedIndex, query_BD: Tensor, k: int, keys: KeyRows) -> Neighbours:
    """Nominated and measured by one kernel."""
    assert index.lists is not None
    entry_BK, distance_BK = torch.empty(len(query_BD), k, dtype=torch.long), torch.empty(len(query_BD), k)
    fewer = index.lists.row_search(keys, k)(query_BD.contiguous(), None, entry_BK, distance_BK)
    assert fewer == int((entry_BK[:, -1] < 0).sum())
    return Neighbours(entry_BK, distance_BK)


def in_two_steps(index: SharedIndex, query_BD: Tensor, k: int, keys: KeyRows) -> tuple[Tensor, Tensor]:
    """Nominated in the assigned clusters, then measured."""
    assigned = index.quantiser.assign(query_BD.numpy(), index.effort)
    return keys.nearest(query_BD, index.nominate_in(assigned, index.width(k), None)[0], k)


def assert_as_in_two_steps(index: SharedIndex, query_BD: Tensor, k: int) -> Tensor:
    """The entries that are found."""
    keys = keys_of(torch.from_numpy(made_keys(ENTRIES)))
    found, expected = at_once(index, query_BD, k, keys), in_two_steps(index, query_BD, k, keys)
    assert torch.equal(found.entry_BK, expected[0]) and torch.equal(found.distance_BK, expected[1])
    return found.entry_BK


@pytest.mark.parametrize("effort", [1, 4, 16, 99])
@pytest.mark.parametrize("rows", [0, 1, 3, 5, 6, 40])
def test_an_index_finds_at_once_what_it_finds_in_two_steps(effort: int, rows: int) -> None:
    index, query_BD = index_of(effort), made_queries(max(1, rows))[:rows]
    query_BD[:1] = -100.0  # beyond all keys: its numbers are clamped
    for k in (1, 8, 50):
        assert_as_in_two_steps(index, query_BD, k)


@pytest.mark.parametrize("effort", [1, 2, 16])
def test_fewer_entries_in_the_clusters_than_are_wanted(effort: int) -> None:
    entry_BK = assert_as_in_two_steps(index_of(effort), made_queries(7), ENTRIES)
    missing_B = (entry_BK < 0).sum(dim=1)
    assert not missing_B.any() if effort == 16 else missing_B.all()
    for row, missing in zip(entry_BK.tolist(), missing_B.tolist(), strict=True):
        assert -1 not in row[: ENTRIES - missing] and len(set(row)) == ENTRIES - missing + bool(missing)


@pytest.mark.parametrize("effort", [1, 4, 15, 16])
def test_a_query_at_a_centre_probes_the_nearest_four(effort: int) -> None:
    """No other centre is within any multiple of distance 0, but all are probed where all clusters are."""
    index = index_of(effort)
    centre_CD, unit = flat_centres(index.quantiser._template), index.quantiser.unit
    assert centre_CD is not None and unit is not None
    query_BD = rounded(centre_CD) * unit
    found = assert_as_in_two_steps(index, query_BD, ENTRIES)
    four = assert_as_in_two_steps(index_of(4), query_BD, ENTRIES)
    assert torch.equal(found, four) == (4 <= effort < 16)


@pytest.mark.parametrize("value", [torch.nan, INF, -INF])
@pytest.mark.parametrize("effort", [1, 4, 16])
def test_queries_that_are_not_finite_do_not_change_others(value: float, effort: int) -> None:
    index, keys, query_BD = index_of(effort), keys_of(torch.from_numpy(made_keys(ENTRIES))), made_queries(12)
    expected, bad_BD = at_once(index, query_BD, 8, keys), query_BD.clone()
    bad_BD[3], bad_BD[7, 5] = value, value
    found, good = at_once(index, bad_BD, 8, keys), [row for row in range(12) if row not in (3, 7)]
    assert torch.equal(found.entry_BK[good], expected.entry_BK[good])
    assert torch.equal(found.distance_BK[good], expected.distance_BK[good])
    bad_BK = found.entry_BK[[3, 7]]
    assert (bad_BK >= -1).all() and (bad_BK < ENTRIES).all() and (found.distance_BK[[3, 7]] == INF).all()
