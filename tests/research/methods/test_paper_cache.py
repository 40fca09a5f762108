"""The paper's caches on a line: six entries whose keys are their numbers, so distances can be read off."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch

from nearmt.research.methods.paper_cache import PaperCache, PaperCacheConfig
from tests.toy_store import ToyStore

INF = math.inf


def line() -> ToyStore:
    """Entry n has key (n, 100 n): the second column counts only where both are compared."""
    number_N = torch.arange(6.0)
    return ToyStore(torch.stack([number_N, 100 * number_N], dim=1), torch.arange(6), [3, 6])


def cache_of(
    scope: str = "source", retention: str = "all", duplicates: str = "remove", columns: int = 1, beams: int = 1
) -> PaperCache:
    """A cache for two sentences, whose rows have become beams: with 2, rows 0, 1 and rows 2, 3."""
    cache = PaperCache(line(), PaperCacheConfig(scope, retention, duplicates, columns), 2, torch.device("cpu"))
    if beams > 1:
        cache.reorder(torch.arange(2).repeat_interleave(beams))
    return cache


def recalled(cache: PaperCache, row: int, sentence: int, at: float = 0.0, k: int = 6) -> list[tuple[int, float]]:
    """Entries and distances seen from a point on the line, nearest first."""
    found = cache.recall([row], [sentence], torch.tensor([[at]]), k)
    assert found.entry_BK.shape == found.distance_BK.shape == (1, k)
    pairs = list(zip(found.entry_BK[0].tolist(), found.distance_BK[0].tolist(), strict=True))
    assert all((entry < 0) == (distance == INF) for entry, distance in pairs)
    return [(entry, distance) for entry, distance in pairs if entry >= 0]


def entries(cache: PaperCache, row: int, sentence: int) -> list[int]:
    return sorted(entry for entry, _ in recalled(cache, row, sentence, k=20))


@pytest.mark.parametrize("scope", ["hypothesis", "source", "batch"])
def test_an_empty_cache_recalls_nothing(scope: str) -> None:
    found = cache_of(scope).recall([0, 1], [0, 1], torch.zeros(2, 1), 3)
    assert found.entry_BK.tolist() == [[-1] * 3] * 2
    assert found.distance_BK.tolist() == [[INF] * 3] * 2


def test_distances_are_not_squared_and_the_nearest_come_first() -> None:
    cache = cache_of()
    cache.remember([0], [0], torch.tensor([[5, 1, 3, -1]]))
    assert recalled(cache, 0, 0, at=3.5) == [(3, 0.5), (5, 1.5), (1, 2.5)]
    assert recalled(cache, 0, 0, at=3.5, k=2) == [(3, 0.5), (5, 1.5)]


def test_fewer_entries_than_asked_for_are_padded() -> None:
    cache = cache_of()
    cache.remember([0], [0], torch.tensor([[4, -1]]))
    found = cache.recall([0], [0], torch.tensor([[2.0]]), 3)
    assert found.entry_BK.tolist() == [[4, -1, -1]]
    assert found.distance_BK.tolist() == [[2.0, INF, INF]]


def test_a_search_that_found_nothing_adds_nothing() -> None:
    cache = cache_of()
    cache.remember([0], [0], torch.tensor([[-1, -1]]))
    assert recalled(cache, 0, 0) == []


@pytest.mark.parametrize(("columns", "distance"), [(1, 3.0), (2, math.hypot(3, 300))])
def test_only_the_columns_of_the_cache_are_compared(columns: int, distance: float) -> None:
    cache = cache_of(columns=columns)
    cache.remember([0], [0], torch.tensor([[3]]))
    found = cache.recall([0], [0], torch.zeros(1, columns), 1)
    assert found.distance_BK.item() == pytest.approx(distance)


# Duplicates.


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


def test_kept_duplicates_take_the_columns_of_others() -> None:
    """With five equal beams the nearest eight have two distinct entries."""
    for duplicates, expected in {"keep": [0, 0, 1], "remove": [0, 1, 2]}.items():
        cache = cache_of(duplicates=duplicates, beams=2)
        cache.remember([0, 1], [0, 0], torch.tensor([[0, 1, 2], [0, 1, 2]]))
        assert [entry for entry, _ in recalled(cache, 0, 0, at=-1.0, k=3)] == expected, duplicates


# Scope and retention.

ROWS, SENTENCES = [0, 1, 2, 3], [0, 0, 1, 1]
#: What the four rows see after each retrieved the entry with its own number.
SEEN = {"hypothesis": [[0], [1], [2], [3]], "source": [[0, 1]] * 2 + [[2, 3]] * 2, "batch": [[0, 1, 2, 3]] * 4}


def seen(cache: PaperCache) -> list[list[int]]:
    return [entries(cache, row, sentence) for row, sentence in zip(ROWS, SENTENCES, strict=True)]


def after_one_search(scope: str, retention: str) -> PaperCache:
    cache = cache_of(scope, retention, beams=2)
    cache.remember(ROWS, SENTENCES, torch.tensor([[0], [1], [2], [3]]))
    return cache


@pytest.mark.parametrize("scope", SEEN)
@pytest.mark.parametrize("retention", ["last", "all"])
def test_scope(scope: str, retention: str) -> None:
    cache = after_one_search(scope, retention)
    assert seen(cache) == SEEN[scope]
    together = cache.recall(ROWS, SENTENCES, torch.zeros(4, 1), 4).entry_BK.tolist()
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
    seen(cache)  # to recall changes nothing
    cache.remember([0, 1], [0, 0], torch.tensor([[4], [5]]))
    assert seen(cache) == SEEN_LATER[scope, retention]


def test_a_smaller_search_replaces_a_larger_one_whole() -> None:
    for scope in SEEN:
        cache = cache_of(scope, "last")
        cache.remember([0], [0], torch.tensor([[0, 1, 2]]))
        cache.remember([0], [0], torch.tensor([[5, -1, -1]]))
        assert entries(cache, 0, 0) == [5], scope


@pytest.mark.parametrize("rows", [[0, 1, 2], [0, 2, 3], [2, 0, 1]])
def test_sentences_may_search_with_unequally_many_rows(rows: list[int]) -> None:
    cache = cache_of(beams=2)
    cache.remember(rows, [SENTENCES[row] for row in rows], torch.tensor([[row, row + 2] for row in rows]))
    for sentence in (0, 1):
        own = {entry for row in rows if SENTENCES[row] == sentence for entry in (row, row + 2)}
        assert entries(cache, 2 * sentence, sentence) == sorted(own)


# Rows and sentences that come and go.


def test_hypotheses_take_their_caches_along() -> None:
    cache = after_one_search("hypothesis", "all")
    cache.reorder(torch.tensor([1, 0, 3, 3]))
    cache.reorder(torch.tensor([1, 1, 2, 3]))
    # Rows 0 and 1 were row 1, which was row 0; rows 2 and 3 were both row 3.
    assert seen(cache) == [[0], [0], [3], [3]]


def test_hypotheses_of_one_parent_diverge() -> None:
    cache = after_one_search("hypothesis", "all")
    cache.reorder(torch.tensor([1, 1, 2, 3]))
    cache.remember([0, 1], [0, 0], torch.tensor([[5], [4]]))
    assert seen(cache) == [[1, 5], [1, 4], [2], [3]]


def test_rows_multiply_and_are_dropped() -> None:
    cache = cache_of("hypothesis")
    cache.remember([0, 1], [0, 1], torch.tensor([[0], [1]]))
    cache.reorder(torch.tensor([0, 0, 1, 1]))
    assert seen(cache) == [[0], [0], [1], [1]]
    cache.remember([2, 3], [1, 1], torch.tensor([[4], [5]]))
    cache.reorder(torch.tensor([3, 2]))  # sentence 0 is finished
    assert [entries(cache, row, 1) for row in range(2)] == [[1, 5], [1, 4]]


@pytest.mark.parametrize("scope", ["source", "batch"])
def test_shared_caches_do_not_move_with_rows(scope: str) -> None:
    """Also what a dropped hypothesis found stays."""
    cache = after_one_search(scope, "all")
    cache.reorder(torch.tensor([1, 1, 2, 2]))
    assert seen(cache) == SEEN[scope]


@pytest.mark.parametrize("retention", ["last", "all"])
def test_what_a_finished_sentence_found_stays_in_the_cache_of_a_batch_only(retention: str) -> None:
    for scope, expected in {"hypothesis": [[2], [3]], "source": [[2, 3]] * 2, "batch": [[0, 1, 2, 3]] * 2}.items():
        cache = after_one_search(scope, retention)
        cache.release([0])
        cache.reorder(torch.tensor([2, 3]))
        assert [entries(cache, row, 1) for row in range(2)] == expected, scope


@pytest.mark.parametrize("retention", ["last", "all"])
def test_the_next_sentence_begins_with_an_empty_cache(retention: str) -> None:
    cache = cache_of("source", retention)
    cache.seed([0], [0], torch.tensor([[4]]))
    cache.remember([0], [0], torch.tensor([[5, 3]]))
    cache.release([0, 9])
    assert entries(cache, 0, 7) == []
    cache.remember([0], [7], torch.tensor([[1]]))
    cache.remember([0], [7], torch.tensor([[2]]))
    assert entries(cache, 0, 7) == ([1, 2] if retention == "all" else [2])


@pytest.mark.parametrize("scope", SEEN)
@pytest.mark.parametrize("retention", ["last", "all"])
def test_seeds_stay(scope: str, retention: str) -> None:
    cache = cache_of(scope, retention)
    cache.seed([0, 1], [0, 1], torch.tensor([[0], [1]]))
    for entry in (4, 5):
        cache.remember([0], [0], torch.tensor([[entry]]))
    own = [0, 4, 5] if retention == "all" else [0, 5]
    assert entries(cache, 0, 0) == sorted(own + ([1] if scope == "batch" else []))


def test_every_row_recalls_for_itself() -> None:
    cache = after_one_search("source", "all")
    found = cache.recall(ROWS, SENTENCES, torch.tensor([[-1.0], [2.0], [2.25], [4.0]]), 1)
    assert found.entry_BK[:, 0].tolist() == [0, 1, 2, 3]
    assert found.distance_BK[:, 0].tolist() == [1.0, 1.0, 0.25, 1.0]


# Many entries and columns.


def wide(count: int, columns: int) -> ToyStore:
    """Random keys."""
    key_ND = torch.randn(count, columns, generator=torch.Generator().manual_seed(count))
    return ToyStore(key_ND, torch.arange(count), [count])


def nearest_of_all(store: ToyStore, query_D: torch.Tensor, k: int) -> tuple[Sequence[int], Sequence[float]]:
    best = (store.key_ND - query_D).double().square().sum(dim=1).sqrt().sort()
    return best.indices[:k].tolist(), best.values[:k].tolist()


@pytest.mark.parametrize("scope", SEEN)
@pytest.mark.parametrize(("count", "columns"), [(30, 100), (30, 65), (400, 100)])
def test_the_nearest_of_many_entries(count: int, columns: int, scope: str) -> None:
    store, k = wide(count, columns), 4
    cache = PaperCache(store, PaperCacheConfig(scope, "all", "remove", columns), 2, torch.device("cpu"))
    cache.remember([0, 1], [0, 1], torch.arange(count).expand(2, -1))
    query_BD = torch.randn(2, columns, generator=torch.Generator().manual_seed(1))
    found = cache.recall([0, 1], [0, 1], query_BD, k)
    for row in (0, 1):
        expected, distances = nearest_of_all(store, query_BD[row], k)
        assert found.entry_BK[row].tolist() == expected
        assert found.distance_BK[row].tolist() == pytest.approx(distances, rel=1e-5)
