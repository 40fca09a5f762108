"""The neighbours' cache on a line: six entries whose keys are their places, so distances can be read off."""

from __future__ import annotations

import math

import pytest
import torch
from nearmt.retrieval.neighbour_cache import CacheConfig, NeighbourCache

from tests.toy_store import ToyStore

INF = math.inf


def line() -> ToyStore:
    """Entry n has key (n, 100 n): the second column is only seen where both are compared."""
    place_N = torch.arange(6.0)
    return ToyStore(torch.stack([place_N, 100 * place_N], dim=1), torch.arange(6), [3, 6])


def cache_of(
    scope: str = "source", retention: str = "all", duplicates: str = "remove", columns: int = 1, beams: int = 1
) -> NeighbourCache:
    """A cache for two sentences, whose rows have fanned out into beams: with 2, rows 0, 1 and rows 2, 3."""
    cache = NeighbourCache(line(), CacheConfig(scope, retention, duplicates, columns), 2, torch.device("cpu"))
    if beams > 1:
        cache.reorder(torch.arange(2).repeat_interleave(beams))
    return cache


def recalled(cache: NeighbourCache, row: int, source: int, at: float = 0.0, k: int = 6) -> list[tuple[int, float]]:
    """Entries and distances seen from a place on the line, nearest first."""
    found = cache.recall([row], [source], torch.tensor([[at]]), k)
    assert found.entry_BK.shape == found.distance_BK.shape == (1, k)
    pairs = list(zip(found.entry_BK[0].tolist(), found.distance_BK[0].tolist(), strict=True))
    assert all((entry < 0) == (distance == INF) for entry, distance in pairs)
    return [(entry, distance) for entry, distance in pairs if entry >= 0]


def entries(cache: NeighbourCache, row: int, source: int) -> list[int]:
    return sorted(entry for entry, _ in recalled(cache, row, source, k=20))


def test_an_empty_cache_recalls_nothing() -> None:
    found = cache_of().recall([0, 1], [0, 1], torch.zeros(2, 1), 3)
    assert found.entry_BK.tolist() == [[-1] * 3] * 2
    assert found.distance_BK.tolist() == [[INF] * 3] * 2


def test_distances_are_not_squared_and_nearest_come_first() -> None:
    cache = cache_of()
    cache.remember([0], [0], torch.tensor([[5, 1, 3, -1]]))
    assert recalled(cache, 0, 0, at=3.5) == [(3, 0.5), (5, 1.5), (1, 2.5)]
    assert recalled(cache, 0, 0, at=3.5, k=2) == [(3, 0.5), (5, 1.5)]


def test_fewer_entries_than_asked_for_are_filled_up_with_none() -> None:
    cache = cache_of()
    cache.remember([0], [0], torch.tensor([[4, -1]]))
    found = cache.recall([0], [0], torch.tensor([[2.0]]), 3)
    assert found.entry_BK.tolist() == [[4, -1, -1]]
    assert found.distance_BK.tolist() == [[2.0, INF, INF]]


def test_a_search_that_found_nothing_leaves_nothing() -> None:
    cache = cache_of()
    cache.remember([0], [0], torch.tensor([[-1, -1]]))
    assert recalled(cache, 0, 0) == []


@pytest.mark.parametrize(("columns", "distance"), [(1, 3.0), (2, math.hypot(3, 300))])
def test_only_the_cache_columns_are_compared(columns: int, distance: float) -> None:
    cache = cache_of(columns=columns)
    cache.remember([0], [0], torch.tensor([[3]]))
    found = cache.recall([0], [0], torch.zeros(1, columns), 1)
    assert found.distance_BK.item() == pytest.approx(distance)


def test_duplicates() -> None:
    for duplicates, expected in {"keep": [1, 1, 2, 2, 2], "remove": [1, 2]}.items():
        cache = cache_of(duplicates=duplicates, beams=2)
        cache.remember([0, 1], [0, 0], torch.tensor([[1, 2, -1], [1, 2, 2]]))
        assert entries(cache, 0, 0) == expected, duplicates


def test_duplicates_of_another_search() -> None:
    for duplicates, expected in {"keep": [1, 1, 2, 3], "remove": [1, 2, 3]}.items():
        cache = cache_of(duplicates=duplicates)
        cache.remember([0], [0], torch.tensor([[1, 2]]))
        cache.remember([0], [0], torch.tensor([[1, 3]]))
        assert entries(cache, 0, 0) == expected, duplicates


def test_duplicates_of_another_sentence() -> None:
    for duplicates, expected in {"keep": [1, 1, 2, 3], "remove": [1, 2, 3]}.items():
        cache = cache_of("batch", duplicates=duplicates)
        cache.remember([0, 1], [0, 1], torch.tensor([[1, 2], [3, 1]]))
        assert entries(cache, 0, 0) == expected, duplicates


def test_duplicates_of_seeds() -> None:
    for duplicates, expected in {"keep": [0, 1, 1, 3, 4, 4, 5], "remove": [0, 1, 3, 4, 5]}.items():
        cache = cache_of(duplicates=duplicates)
        cache.seed([0], [0], torch.tensor([[-1, 1, 3, 4]]))
        cache.remember([0], [0], torch.tensor([[4, 5, -1]]))
        cache.remember([0], [0], torch.tensor([[0, 1, -1]]))
        assert entries(cache, 0, 0) == expected, duplicates


def test_kept_duplicates_take_the_places_of_others() -> None:
    """FIELD.md: with five equal beams the nearest eight hold two distinct entries."""
    for duplicates, expected in {"keep": [0, 0, 1], "remove": [0, 1, 2]}.items():
        cache = cache_of(duplicates=duplicates, beams=2)
        cache.remember([0, 1], [0, 0], torch.tensor([[0, 1, 2], [0, 1, 2]]))
        assert [entry for entry, _ in recalled(cache, 0, 0, at=-1.0, k=3)] == expected, duplicates


ROWS, SOURCES = [0, 1, 2, 3], [0, 0, 1, 1]
#: What the four rows see after each retrieved the entry with its own number.
SEEN = {"hypothesis": [[0], [1], [2], [3]], "source": [[0, 1]] * 2 + [[2, 3]] * 2, "batch": [[0, 1, 2, 3]] * 4}


def seen(cache: NeighbourCache) -> list[list[int]]:
    return [entries(cache, row, source) for row, source in zip(ROWS, SOURCES, strict=True)]


def after_one_search(scope: str, retention: str) -> NeighbourCache:
    cache = cache_of(scope, retention, beams=2)
    cache.remember(ROWS, SOURCES, torch.tensor([[0], [1], [2], [3]]))
    return cache


@pytest.mark.parametrize("scope", SEEN)
@pytest.mark.parametrize("retention", ["last", "all"])
def test_scope(scope: str, retention: str) -> None:
    cache = after_one_search(scope, retention)
    assert seen(cache) == SEEN[scope]
    together = cache.recall(ROWS, SOURCES, torch.zeros(4, 1), 4).entry_BK.tolist()
    assert [sorted(entry for entry in row if entry >= 0) for row in together] == SEEN[scope]


#: The same after sentence 0 alone has searched again and found entries 4 and 5.
SEEN_LATER = {
    ("hypothesis", "last"): [[4], [5], [2], [3]],
    ("hypothesis", "all"): [[0, 4], [1, 5], [2], [3]],
    ("source", "last"): [[4, 5]] * 2 + [[2, 3]] * 2,
    ("source", "all"): [[0, 1, 4, 5]] * 2 + [[2, 3]] * 2,
    ("batch", "last"): [[2, 3, 4, 5]] * 4,
    ("batch", "all"): [[0, 1, 2, 3, 4, 5]] * 4,
}


@pytest.mark.parametrize(("scope", "retention"), SEEN_LATER)
def test_retention(scope: str, retention: str) -> None:
    """A new search replaces or joins what the same sentence found before, never what another one found."""
    cache = after_one_search(scope, retention)
    seen(cache)  # a look in between changes nothing
    cache.remember([0, 1], [0, 0], torch.tensor([[4], [5]]))
    assert seen(cache) == SEEN_LATER[scope, retention]


def test_a_smaller_search_replaces_a_larger_one_whole() -> None:
    for scope in SEEN:
        cache = cache_of(scope, "last")
        cache.remember([0], [0], torch.tensor([[0, 1, 2]]))
        cache.remember([0], [0], torch.tensor([[5, -1, -1]]))
        assert entries(cache, 0, 0) == [5], scope


def test_hypotheses_take_their_caches_along() -> None:
    cache = after_one_search("hypothesis", "all")
    cache.reorder(torch.tensor([1, 0, 3, 3]))
    cache.reorder(torch.tensor([1, 1, 2, 3]))
    # Rows 0 and 1 were row 1, which was row 0; rows 2 and 3 were both row 3.
    assert seen(cache) == [[0], [0], [3], [3]]


def test_hypotheses_of_one_parent_go_their_own_ways() -> None:
    cache = after_one_search("hypothesis", "all")
    cache.reorder(torch.tensor([1, 1, 2, 3]))
    cache.remember([0, 1], [0, 0], torch.tensor([[5], [4]]))
    assert seen(cache) == [[1, 5], [1, 4], [2], [3]]


def test_rows_fan_out_and_leave() -> None:
    cache = cache_of("hypothesis")
    cache.remember([0, 1], [0, 1], torch.tensor([[0], [1]]))
    cache.reorder(torch.tensor([0, 0, 1, 1]))
    assert seen(cache) == [[0], [0], [1], [1]]
    cache.remember([2, 3], [1, 1], torch.tensor([[4], [5]]))
    cache.reorder(torch.tensor([3, 2]))  # sentence 0 leaves
    assert [entries(cache, row, 1) for row in range(2)] == [[1, 5], [1, 4]]


@pytest.mark.parametrize("scope", ["source", "batch"])
def test_shared_caches_do_not_move_with_rows(scope: str) -> None:
    """Also what a dropped hypothesis found stays."""
    cache = after_one_search(scope, "all")
    cache.reorder(torch.tensor([1, 1, 2, 2]))
    assert seen(cache) == SEEN[scope]


@pytest.mark.parametrize("retention", ["last", "all"])
def test_a_finished_sentence_leaves_what_it_found_to_the_batch_only(retention: str) -> None:
    for scope, expected in {"hypothesis": [[2], [3]], "source": [[2, 3]] * 2, "batch": [[0, 1, 2, 3]] * 2}.items():
        cache = after_one_search(scope, retention)
        cache.reorder(torch.tensor([2, 3]))
        assert [entries(cache, row, 1) for row in range(2)] == expected, scope


def test_every_row_asks_for_itself() -> None:
    cache = after_one_search("source", "all")
    found = cache.recall(ROWS, SOURCES, torch.tensor([[-1.0], [2.0], [2.25], [4.0]]), 1)
    assert found.entry_BK[:, 0].tolist() == [0, 1, 2, 3]
    assert found.distance_BK[:, 0].tolist() == [1.0, 1.0, 0.25, 1.0]


# More columns than nominate.


def wide(entries: int, columns: int, telling: float = 1.0) -> ToyStore:
    """Random keys; columns behind the first 64 vary `telling` times as much."""
    generator = torch.Generator().manual_seed(entries)
    key_ND = torch.randn(entries, columns, generator=generator)
    key_ND[:, 64:] *= telling
    return ToyStore(key_ND, torch.arange(entries), [entries])


def nearest_of_all(store: ToyStore, query_D: torch.Tensor, k: int) -> tuple[list[int], list[float]]:
    distance_N = (store.key_ND - query_D).double().square().sum(dim=1).sqrt()
    best = distance_N.sort()
    return best.indices[:k].tolist(), best.values[:k].tolist()


@pytest.mark.parametrize("scope", ["hypothesis", "source", "batch"])
@pytest.mark.parametrize(("entries", "columns", "telling"), [(30, 100, 1.0), (30, 65, 9.0), (400, 100, 1e-3)])
def test_nominees_are_measured_on_all_columns(entries: int, columns: int, telling: float, scope: str) -> None:
    """Exact where all entries are nominated, or where the first columns tell nearly all."""
    store, k = wide(entries, columns, telling), 4
    cache = NeighbourCache(store, CacheConfig(scope, "all", "remove", columns), 2, torch.device("cpu"))
    cache.remember([0, 1], [0, 1], torch.arange(entries).expand(2, -1))
    query_BD = torch.randn(2, columns, generator=torch.Generator().manual_seed(1))
    query_BD[:, 64:] *= telling
    found = cache.recall([0, 1], [0, 1], query_BD, k)
    for row in (0, 1):
        expected, distances = nearest_of_all(store, query_BD[row], k)
        assert found.entry_BK[row].tolist() == expected
        assert found.distance_BK[row].tolist() == pytest.approx(distances, rel=1e-5)


def test_columns_that_do_not_nominate_decide_between_nominees() -> None:
    """On the first 64 columns entry 0 is nearest, on all of them entry 3."""
    key_ND = torch.zeros(4, 70)
    key_ND[:, 0] = torch.tensor([0.0, 0.1, 0.2, 0.3])
    key_ND[:, 69] = torch.tensor([4.0, 3.0, 2.0, 0.0])
    store = ToyStore(key_ND, torch.arange(4), [4])
    cache = NeighbourCache(store, CacheConfig("source", "all", "remove", 70), 1, torch.device("cpu"))
    cache.remember([0], [0], torch.tensor([[0, 1, 2, 3, -1]]))
    found = cache.recall([0], [0], torch.zeros(1, 70), 1)
    assert found.entry_BK.tolist() == [[3]] and found.distance_BK.item() == pytest.approx(0.3)
    more = cache.recall([0], [0], torch.zeros(1, 70), 6)
    assert more.entry_BK.tolist() == [[3, 2, 1, 0, -1, -1]] and more.distance_BK[0, 4:].tolist() == [INF, INF]
