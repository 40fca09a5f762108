"""Chunk-based retrieval on a line: what a cache holds, and who searches when."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest
import torch
from nearmt.retrieval.chunked import Chunked, ChunkPlan
from nearmt.retrieval.neighbour_cache import DUPLICATES, RETENTIONS, SCOPES, CacheConfig

from nearmt.config.methods import DUPLICATES, RETENTIONS, SCOPES
from nearmt.config.schedule import EverySchedule
from nearmt.contracts import Origin
from nearmt.errors import ConfigError
from nearmt.methods import ChunkConfig
from nearmt.retrieval.retriever import Retrieved
from tests.toy_store import ToyStore, random_store

ENTRIES = 24
SEARCH, CACHE, MODEL = int(Origin.SEARCH), int(Origin.CACHE), int(Origin.MODEL)
EVERY_CACHE = list(product(SCOPES, RETENTIONS))
#: The sources of two sentences; like them are, by `ToyStore.similar`, sentences 0 and 2 of the store.
SOURCES = [[0], [2]]
SEEDS = [[0, 1, 2], [6, 7, 8]]


def line() -> ToyStore:
    """Entry n lies at n; sentences of three."""
    return ToyStore(torch.arange(float(ENTRIES))[:, None], torch.arange(ENTRIES), list(range(3, ENTRIES + 1, 3)))


def plan(
    scope: str = "source", retention: str = "all", duplicates: str = "remove", steps: int = 3, columns: int = 1
) -> ChunkPlan:
    """All of a cache is shown; a search finds one neighbour and brings its chunk of up to two tokens."""
    return ChunkPlan(
        k=1,
        cache_k=2 * ENTRIES,
        schedule=EverySchedule(steps),
        chunk=2,
        varying_chunk=False,
        seeds=1,
        search_beams=100,
        in_order=False,
        cache=CacheConfig(scope, retention, duplicates, columns),
    )


def chunked(made: ChunkPlan, sources: Sequence[Sequence[int]] = SOURCES, sentences: int = 2) -> Chunked:
    return Chunked(line(), made, [5] * sentences, 20, sources)


def at(retriever: Chunked, time: int, *rows: tuple[float, int]) -> Retrieved:
    """A step of rows that stand at some place and translate some sentence."""
    places, sources = [[place] for place, _ in rows], [source for _, source in rows]
    return retriever.retrieve(torch.tensor(places), [time] * len(sources), sources)


def entries(found: Retrieved, row: int) -> list[int]:
    return sorted(entry for entry in found.entry_BK[row].tolist() if entry >= 0)


@pytest.mark.parametrize(("scope", "retention"), EVERY_CACHE)
def test_seeds_are_there_from_the_first_recall_and_stay(scope: str, retention: str) -> None:
    retriever = chunked(plan(scope, retention))
    first = at(retriever, 1, (21.0, 0), (16.0, 1))
    assert first.origin_B.tolist() == [SEARCH, SEARCH] and first.entry_BK[:, 0].tolist() == [21, 16]
    own = [[*SEEDS[0], 21, 22], [*SEEDS[1], 16, 17]]
    for time in (2, 3):
        found = at(retriever, time, (9.0, 0), (9.0, 1))
        assert found.origin_B.tolist() == [CACHE, CACHE]
        seen = [sorted(own[0] + own[1])] * 2 if scope == "batch" else own
        assert [entries(found, row) for row in (0, 1)] == seen
    # Both search again, three times; only what they find changes.
    for search, (one, other) in enumerate([(12, 19), (4, 19), (21, 9)], 1):
        at(retriever, 1 + 3 * search, (float(one), 0), (float(other), 1))
        new = [[one, one + 1], [other, other + 1]]
        own = [sorted({*(SEEDS[row] if retention == "last" else own[row]), *new[row]}) for row in (0, 1)]
        found = at(retriever, 2 + 3 * search, (9.0, 0), (9.0, 1))
        seen = [sorted({*own[0], *own[1]})] * 2 if scope == "batch" else own
        assert [entries(found, row) for row in (0, 1)] == seen
    assert retriever.searches == [4, 4]


@pytest.mark.parametrize(("scope", "retention"), EVERY_CACHE)
def test_seeds_of_a_sentence_that_finds_nothing_else(scope: str, retention: str) -> None:
    """A search that gives no chunk leaves the seeds, and nothing stands in for a sentence without any."""

    class Blind(ToyStore):
        def chunks(self, entry_BK: torch.Tensor, size: int) -> torch.Tensor:
            return torch.full((*entry_BK.shape, size), -1)

    known = line()
    store = Blind(known.key_ND, known.token_N, known.ends)
    made = replace(plan(scope, retention), seeds=1)
    retriever = Chunked(store, made, [5, 5], 20, [[7], [7]])
    at(retriever, 1, (0.0, 0), (0.0, 1))
    assert [entries(at(retriever, 2, (0.0, 0), (0.0, 1)), row) for row in (0, 1)] == [[21, 22, 23]] * 2
    bare = Chunked(store, replace(made, seeds=0), [5, 5], 20, [[7], [7]])
    at(bare, 1, (0.0, 0), (0.0, 1))
    found = at(bare, 2, (0.0, 0), (0.0, 1))
    assert found.origin_B.tolist() == [MODEL, MODEL] and (found.entry_BK == -1).all()


@pytest.mark.parametrize("seeds", [0, 1])
def test_without_sources_or_seeds_there_are_only_chunks(seeds: int) -> None:
    retriever = chunked(replace(plan(), seeds=seeds), SOURCES if not seeds else ())
    at(retriever, 1, (21.0, 0), (16.0, 1))
    assert entries(at(retriever, 2, (0.0, 0), (0.0, 1)), 0) == [21, 22]


def test_seeds_of_unequal_length() -> None:
    """The last sentence of the store has nobody behind it, and one source is like nothing."""

    class Uneven(ToyStore):
        def similar(self, source: Sequence[int], count: int) -> torch.Tensor:
            return super().similar(source, count) if source[0] < 8 else torch.zeros(0, dtype=torch.long)

    known = line()
    retriever = Chunked(
        Uneven(known.key_ND, known.token_N, known.ends), replace(plan(), seeds=3), [5] * 3, 20, [[0], [7], [8]]
    )
    at(retriever, 1, (15.0, 0), (15.0, 1), (15.0, 2))
    found = at(retriever, 2, (0.0, 0), (0.0, 1), (0.0, 2))
    assert [entries(found, row) for row in range(3)] == [[*range(9), 15, 16], [15, 16, 21, 22, 23], [15, 16]]


@pytest.mark.parametrize(("scope", "retention", "duplicates"), list(product(SCOPES, RETENTIONS, DUPLICATES)))
def test_chunks_that_are_among_the_seeds(scope: str, retention: str, duplicates: str) -> None:
    retriever = chunked(plan(scope, retention, duplicates), [[0], [0]])
    at(retriever, 1, (1.0, 0), (1.0, 1))
    times = {0: 1, 1: 2, 2: 2}
    if duplicates == "remove":
        times = dict.fromkeys(times, 1)
    elif scope == "batch":
        times = {entry: 2 * count for entry, count in times.items()}
    held = [entry for entry, count in times.items() for _ in range(count)]
    for time in (2, 3):
        found = at(retriever, time, (0.0, 0), (0.0, 1))
        assert [entries(found, row) for row in (0, 1)] == [held, held]
    at(retriever, 4, (1.0, 0), (1.0, 1))
    twice = duplicates == "keep" and retention == "all"
    again = [entry for entry in (1, 2) for _ in range(2 if scope == "batch" else 1)] if twice else []
    assert entries(at(retriever, 5, (0.0, 0), (0.0, 1)), 0) == sorted(held + again)


@pytest.mark.parametrize("retention", RETENTIONS)
def test_hypotheses_take_their_seeds_along(retention: str) -> None:
    retriever = chunked(plan("hypothesis", retention))
    at(retriever, 1, (21.0, 0), (16.0, 1))
    retriever.reorder(torch.tensor([0, 0, 1, 1]))
    found = at(retriever, 2, *[(0.0, 0)] * 2, *[(0.0, 1)] * 2)
    assert [entries(found, row) for row in range(4)] == [[0, 1, 2, 21, 22]] * 2 + [[6, 7, 8, 16, 17]] * 2
    retriever.reorder(torch.tensor([2, 3]))  # the first sentence has ended
    assert [entries(at(retriever, 3, (0.0, 1), (0.0, 1)), row) for row in (0, 1)] == [[6, 7, 8, 16, 17]] * 2
    at(retriever, 4, (12.0, 1), (19.0, 1))
    retriever.reorder(torch.tensor([1, 0]))
    found = at(retriever, 5, (0.0, 1), (0.0, 1))
    before = [16, 17] if retention == "all" else []
    assert [entries(found, row) for row in (0, 1)] == [sorted([6, 7, 8, *before, *new]) for new in ([19, 20], [12, 13])]


@pytest.mark.parametrize("scope", ["source", "batch"])
def test_sentences_keep_their_seeds_when_others_leave(scope: str) -> None:
    retriever = chunked(plan(scope, "last"))
    at(retriever, 1, (21.0, 0), (16.0, 1))
    retriever.reorder(torch.tensor([1, 1]))
    at(retriever, 4, (12.0, 1), (12.0, 1))
    others = [*SEEDS[0], 21, 22] if scope == "batch" else []
    assert entries(at(retriever, 5, (0.0, 1), (0.0, 1)), 1) == sorted([*SEEDS[1], 12, 13, *others])


# Neighbours and chunks.


@pytest.mark.parametrize("k", [1, 2, 5, 100])
def test_a_search_finds_k_and_keeps_their_chunks(k: int) -> None:
    """Seen from 10.2, the nearest are 10, 11, 9, 12, 8, ...; each chunk is one token."""
    order = sorted(range(ENTRIES), key=lambda entry: abs(entry - 10.2))
    retriever = chunked(replace(plan(), k=k, cache_k=2, chunk=1, seeds=0), sentences=1)
    first = at(retriever, 1, (10.2, 0))
    assert first.origin_B.tolist() == [SEARCH]
    assert [entry for entry in first.entry_BK[0].tolist() if entry >= 0] == order[:k]
    assert first.distance_BK[0, :1].tolist() == pytest.approx([0.04], abs=1e-4)
    for place in (0.1, 8.1, 9.4, 12.1, 23.0):
        found = at(retriever, 2, (place, 0))
        nearest = sorted(order[:k], key=lambda entry: abs(entry - place))[:2]
        assert [entry for entry in found.entry_BK[0].tolist() if entry >= 0] == nearest
    assert retriever.searches == [1]


def test_chunks_in_order_are_those_of_the_neighbours() -> None:
    retriever = chunked(replace(plan(), k=2, cache_k=2, in_order=True), sentences=1)
    assert at(retriever, 1, (9.2, 0)).entry_BK.tolist() == [[9, 10]]
    second = at(retriever, 2, (0.0, 0))
    assert second.entry_BK.tolist() == [[10, 11]] and second.origin_B.tolist() == [CACHE]


def test_a_store_of_fewer_entries_than_are_searched_for() -> None:
    store = ToyStore(torch.tensor([[3.0]]), torch.tensor([5]), [1])
    retriever = Chunked(store, replace(plan(), k=3, cache_k=3), [5], 20, [[0]])
    assert retriever.retrieve(torch.tensor([[1.0]]), [1], [0]).entry_BK.tolist() == [[0, -1, -1]]
    found = retriever.retrieve(torch.tensor([[1.0]]), [2], [0])
    assert found.entry_BK.tolist() == [[0, -1, -1]] and found.distance_BK[0].tolist() == [2.0, math.inf, math.inf]


def test_an_empty_store_is_searched_and_says_nothing() -> None:
    retriever = Chunked(random_store(0, 0, columns=1, vocabulary=9), replace(plan(), seeds=0), [5], 20, [[0]])
    for time in (1, 2, 3):
        found = retriever.retrieve(torch.tensor([[0.0]]), [time], [0])
        assert found.origin_B.tolist() == [MODEL] and (found.entry_BK == -1).all()
    assert retriever.searches == [1]


@pytest.mark.parametrize(("k", "cache_k"), [(1, 5), (5, 1), (3, 3), (2, 40)])
def test_searches_and_caches_each_have_their_number_of_neighbours(k: int, cache_k: int) -> None:
    """Also of one step: the second sentence searches while the first recalls."""
    retriever = chunked(replace(plan(), k=k, cache_k=cache_k, chunk=1, seeds=0))
    at(retriever, 1, (10.2, 0))
    found = retriever.retrieve(torch.tensor([[10.2], [1.2]]), [2, 1], [0, 1])
    assert found.entry_BK.shape == found.distance_BK.shape == (2, max(k, cache_k))
    assert found.origin_B.tolist() == [CACHE, SEARCH]
    for row, most, order in ((0, min(k, cache_k), [10, 11, 9, 12, 8]), (1, k, [1, 2, 0, 3, 4])):
        assert found.entry_BK[row].tolist() == order[:most] + [-1] * (max(k, cache_k) - most)
        assert torch.equal(found.distance_BK[row].isinf(), found.entry_BK[row] < 0)


@pytest.mark.parametrize(
    "settings",
    [
        {"search-beams": 0},
        {"search-beams": 101},
        {"search-beams": 2, "scope": "hypothesis"},
        {"search-beams": 2, "recall": "in-order"},
        {"seeds": -1},
        {"seeds": 1.5},
        {"cache-k": 0},
        {"cache-k": 5000},
    ],
)
def test_bad_settings(settings: dict[str, float | str | bool]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))) as error:
        ChunkConfig.from_mapping(settings)
    assert "\n" not in str(error.value)
