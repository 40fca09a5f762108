"""The paper's strategies of chunk-based retrieval on a line: what rows see, and which of them search when."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor

from nearmt.config.schedule import EverySchedule, GeometricSchedule, search_steps
from nearmt.contracts import Neighbours, Origin
from nearmt.engines.base import CachePlan, Retrieved
from nearmt.engines.reference.scoring import ReferenceScoring
from nearmt.methods import ChunkConfig
from nearmt.research.methods.paper_chunk import PaperChunkMethod, PaperChunkRetriever
from nearmt.retrieval.retriever import RetrievalPlan, Retriever, ScheduledRetriever
from nearmt.steps import Request
from tests.random_stores import random_store
from tests.toy_store import ToyStore

ENTRIES = 24
SEARCH, CACHE, MODEL = int(Origin.SEARCH), int(Origin.CACHE), int(Origin.MODEL)
SCOPES, RETENTIONS, DUPLICATES = ("hypothesis", "source", "batch"), ("last", "all"), ("remove", "keep")
EVERY_CACHE = list(product(SCOPES, RETENTIONS))
#: Entries that two sentences have from the start: pairs 0 and 2 of the store.
SEEDS = [[0, 1, 2], [6, 7, 8]]
#: All of a cache is shown; a search finds one neighbour and brings its chunk of up to two tokens.
PLAN = RetrievalPlan(EverySchedule(3), 100, CachePlan(k=1, cache_k=2 * ENTRIES, chunk=2, columns=1))
CONFIG = ChunkConfig(chunk=2)


def with_cache(**settings: int) -> RetrievalPlan:
    return replace(PLAN, cache=replace(PLAN.cache, **settings))


def line() -> ToyStore:
    """Entry n lies at n; sentences of three."""
    return ToyStore(torch.arange(float(ENTRIES))[:, None], torch.arange(ENTRIES), list(range(3, ENTRIES + 1, 3)))


def request_of(sentences: int) -> Request:
    return Request((), [5] * sentences, 20, torch.device("cpu"), ReferenceScoring())


def retriever_of(
    config: ChunkConfig,
    plan: RetrievalPlan = PLAN,
    seeds: Sequence[list[int]] = SEEDS,
    sentences: int = 2,
    store: ToyStore | None = None,
) -> PaperChunkRetriever:
    """A retriever of sentences that have begun."""
    retriever = PaperChunkRetriever(line() if store is None else store, plan, config, request_of(sentences))
    retriever.begin(range(len(seeds)), torch.tensor(seeds, dtype=torch.long).view(len(seeds), -1))
    return retriever


def with_strategy(scope: str = "source", retention: str = "all", duplicates: str = "remove") -> ChunkConfig:
    return replace(CONFIG, scope=scope, retention=retention, duplicates=duplicates)


def at(retriever: Retriever, time: int, *slots: tuple[Sequence[float], int]) -> Retrieved:
    """A step: the rows of each slot stand at some points and translate one sentence."""
    query_BD = torch.tensor([[point] for points, _ in slots for point in points])
    return retriever.retrieve(query_BD, [time] * len(slots), [sentence for _, sentence in slots])


def both(point: float = 0.0, other: float | None = None) -> tuple[tuple[list[float], int], tuple[list[float], int]]:
    """Two sentences of one row each."""
    return ([point], 0), ([point if other is None else other], 1)


def entries(found: Retrieved, row: int) -> list[int]:
    return sorted(entry for entry in found.entry_BK[row].tolist() if entry >= 0)


# Seeds.


@pytest.mark.parametrize(("scope", "retention"), EVERY_CACHE)
def test_seeds_are_there_from_the_first_recall_and_stay(scope: str, retention: str) -> None:
    retriever = retriever_of(with_strategy(scope, retention))
    first = at(retriever, 1, *both(21.0, 16.0))
    assert first.origin_B.tolist() == [SEARCH, SEARCH] and first.entry_BK[:, 0].tolist() == [21, 16]
    own = [[*SEEDS[0], 21, 22], [*SEEDS[1], 16, 17]]
    for time in (2, 3):
        found = at(retriever, time, *both(9.0))
        assert found.origin_B.tolist() == [CACHE, CACHE]
        seen = [sorted(own[0] + own[1])] * 2 if scope == "batch" else own
        assert [entries(found, row) for row in (0, 1)] == seen
    # Both search again, three times; only what they find changes.
    for search, (one, other) in enumerate([(12, 19), (4, 19), (21, 9)], 1):
        at(retriever, 1 + 3 * search, *both(float(one), float(other)))
        new = [[one, one + 1], [other, other + 1]]
        own = [sorted({*(SEEDS[row] if retention == "last" else own[row]), *new[row]}) for row in (0, 1)]
        found = at(retriever, 2 + 3 * search, *both(9.0))
        seen = [sorted({*own[0], *own[1]})] * 2 if scope == "batch" else own
        assert [entries(found, row) for row in (0, 1)] == seen
    assert retriever.searches == [4, 4]


class WithoutChunks(ToyStore):
    """Its searches bring no chunks."""

    def chunks(self, entry_BK: Tensor, size: int) -> Tensor:
        return torch.full((*entry_BK.shape, size), -1)


@pytest.mark.parametrize(("scope", "retention"), EVERY_CACHE)
def test_seeds_of_a_sentence_that_finds_nothing_else(scope: str, retention: str) -> None:
    known = line()
    store = WithoutChunks(known.key_ND, known.token_N, known.ends)
    retriever = retriever_of(with_strategy(scope, retention), seeds=[[21, 22, 23]] * 2, store=store)
    at(retriever, 1, *both())
    assert [entries(at(retriever, 2, *both()), row) for row in (0, 1)] == [[21, 22, 23]] * 2
    bare = retriever_of(with_strategy(scope, retention), seeds=[[], []], store=store)
    at(bare, 1, *both())
    found = at(bare, 2, *both())
    assert found.origin_B.tolist() == [MODEL, MODEL] and (found.entry_BK == -1).all()


def test_without_seeds_there_are_only_chunks() -> None:
    retriever = retriever_of(with_strategy(), seeds=[[], []])
    at(retriever, 1, *both(21.0, 16.0))
    assert entries(at(retriever, 2, *both()), 0) == [21, 22]


def test_seeds_of_unequal_length() -> None:
    seeds = [[*range(9)], [21, 22, 23, *[-1] * 6], [-1] * 9]
    retriever = retriever_of(with_strategy(), seeds=seeds, sentences=3)
    at(retriever, 1, *(([15.0], sentence) for sentence in range(3)))
    found = at(retriever, 2, *(([0.0], sentence) for sentence in range(3)))
    assert [entries(found, row) for row in range(3)] == [[*range(9), 15, 16], [15, 16, 21, 22, 23], [15, 16]]


@pytest.mark.parametrize(("scope", "retention", "duplicates"), list(product(SCOPES, RETENTIONS, DUPLICATES)))
def test_chunks_that_are_among_the_seeds(scope: str, retention: str, duplicates: str) -> None:
    retriever = retriever_of(with_strategy(scope, retention, duplicates), seeds=[SEEDS[0], SEEDS[0]])
    at(retriever, 1, *both(1.0))
    times = {0: 1, 1: 2, 2: 2}
    if duplicates == "remove":
        times = dict.fromkeys(times, 1)
    elif scope == "batch":
        times = {entry: 2 * count for entry, count in times.items()}
    cached = [entry for entry, count in times.items() for _ in range(count)]
    for time in (2, 3):
        found = at(retriever, time, *both())
        assert [entries(found, row) for row in (0, 1)] == [cached, cached]
    at(retriever, 4, *both(1.0))
    twice = duplicates == "keep" and retention == "all"
    again = [entry for entry in (1, 2) for _ in range(2 if scope == "batch" else 1)] if twice else []
    assert entries(at(retriever, 5, *both()), 0) == sorted(cached + again)


@pytest.mark.parametrize("retention", RETENTIONS)
def test_hypotheses_take_their_seeds_along(retention: str) -> None:
    retriever = retriever_of(with_strategy("hypothesis", retention))
    at(retriever, 1, *both(21.0, 16.0))
    retriever.reorder(torch.tensor([0, 0, 1, 1]))
    found = at(retriever, 2, ([0.0, 0.0], 0), ([0.0, 0.0], 1))
    assert [entries(found, row) for row in range(4)] == [[0, 1, 2, 21, 22]] * 2 + [[6, 7, 8, 16, 17]] * 2
    retriever.release([0])
    retriever.reorder(torch.tensor([2, 3]))
    assert [entries(at(retriever, 3, ([0.0, 0.0], 1)), row) for row in (0, 1)] == [[6, 7, 8, 16, 17]] * 2
    at(retriever, 4, ([12.0, 19.0], 1))
    retriever.reorder(torch.tensor([1, 0]))
    found = at(retriever, 5, ([0.0, 0.0], 1))
    before = [16, 17] if retention == "all" else []
    assert [entries(found, row) for row in (0, 1)] == [sorted([6, 7, 8, *before, *new]) for new in ([19, 20], [12, 13])]


@pytest.mark.parametrize("scope", ["source", "batch"])
def test_sentences_keep_their_seeds_when_others_are_finished(scope: str) -> None:
    retriever = retriever_of(with_strategy(scope, "last"))
    at(retriever, 1, *both(21.0, 16.0))
    retriever.release([0])
    retriever.reorder(torch.tensor([1, 1]))
    at(retriever, 4, ([12.0, 12.0], 1))
    others = [*SEEDS[0], 21, 22] if scope == "batch" else []
    assert entries(at(retriever, 5, ([0.0, 0.0], 1)), 1) == sorted([*SEEDS[1], 12, 13, *others])


# Neighbours and chunks.


@pytest.mark.parametrize("k", [1, 2, 5, 100])
def test_a_search_finds_k_and_keeps_their_chunks(k: int) -> None:
    """Seen from 10.2, the nearest are 10, 11, 9, 12, 8, ...; each chunk is one token."""
    order = sorted(range(ENTRIES), key=lambda entry: abs(entry - 10.2))
    retriever = retriever_of(replace(CONFIG, chunk=1), with_cache(k=k, cache_k=2, chunk=1), [[]], sentences=1)
    first = at(retriever, 1, ([10.2], 0))
    assert first.origin_B.tolist() == [SEARCH]
    assert [entry for entry in first.entry_BK[0].tolist() if entry >= 0] == order[:k]
    assert first.distance_BK[0, :1].tolist() == pytest.approx([0.04], abs=1e-4)
    for point in (0.1, 8.1, 9.4, 12.1, 23.0):
        found = at(retriever, 2, ([point], 0))
        nearest = sorted(order[:k], key=lambda entry: abs(entry - point))[:2]
        assert [entry for entry in found.entry_BK[0].tolist() if entry >= 0] == nearest
    assert retriever.searches == [1]


@pytest.mark.parametrize(("k", "cache_k"), [(1, 5), (5, 1), (3, 3), (2, 40)])
def test_searches_and_caches_each_have_their_number_of_neighbours(k: int, cache_k: int) -> None:
    """Also at one step: the second sentence searches while the first recalls."""
    retriever = retriever_of(replace(CONFIG, chunk=1), with_cache(k=k, cache_k=cache_k, chunk=1), [[], []])
    at(retriever, 1, ([10.2], 0))
    found = retriever.retrieve(torch.tensor([[10.2], [1.2]]), [2, 1], [0, 1])
    assert found.entry_BK.shape == found.distance_BK.shape == (2, max(k, cache_k))
    assert found.origin_B.tolist() == [CACHE, SEARCH]
    for row, most, order in ((0, min(k, cache_k), [10, 11, 9, 12, 8]), (1, k, [1, 2, 0, 3, 4])):
        assert found.entry_BK[row].tolist() == order[:most] + [-1] * (max(k, cache_k) - most)
        assert torch.equal(found.distance_BK[row].isinf(), found.entry_BK[row] < 0)


def test_a_store_of_fewer_entries_than_are_searched_for() -> None:
    store = ToyStore(torch.tensor([[3.0]]), torch.tensor([5]), [1])
    retriever = retriever_of(CONFIG, with_cache(k=3, cache_k=3), [[]], sentences=1, store=store)
    assert at(retriever, 1, ([1.0], 0)).entry_BK.tolist() == [[0, -1, -1]]
    found = at(retriever, 2, ([1.0], 0))
    assert found.entry_BK.tolist() == [[0, -1, -1]] and found.distance_BK[0].tolist() == [2.0, math.inf, math.inf]


def test_an_empty_store_is_searched_and_finds_nothing() -> None:
    store = random_store(0, 0, columns=1, vocabulary=9)
    retriever = retriever_of(CONFIG, seeds=[[]], sentences=1, store=store)
    for time in (1, 2, 3):
        found = at(retriever, time, ([0.0], 0))
        assert found.origin_B.tolist() == [MODEL] and (found.entry_BK == -1).all()
    assert retriever.searches == [1]


# Chunks in order.

IN_ORDER = replace(CONFIG, recall="in-order")


def test_chunks_in_order_are_those_of_the_neighbours() -> None:
    retriever = retriever_of(IN_ORDER, with_cache(k=2, cache_k=2), sentences=1)  # seeds have no part
    assert at(retriever, 1, ([9.2], 0)).entry_BK.tolist() == [[9, 10]]
    second = at(retriever, 2, ([0.0], 0))
    assert second.entry_BK.tolist() == [[10, 11]] and second.origin_B.tolist() == [CACHE]
    # Beyond the chunk there is nothing until the next search.
    assert at(retriever, 3, ([0.0], 0)).origin_B.tolist() == [MODEL]
    assert at(retriever, 4, ([3.0], 0)).entry_BK[0, 0].item() == 3


def test_chunks_in_order_move_with_their_rows() -> None:
    retriever = retriever_of(IN_ORDER, with_cache(k=1, cache_k=1), sentences=1)
    at(retriever, 1, ([9.0], 0))
    retriever.reorder(torch.tensor([0, 0]))
    assert at(retriever, 2, ([0.0, 0.0], 0)).entry_BK.tolist() == [[10], [10]]
    at(retriever, 4, ([3.0, 15.0], 0))
    retriever.reorder(torch.tensor([1, 0]))
    assert at(retriever, 5, ([0.0, 0.0], 0)).entry_BK.tolist() == [[16], [4]]


# Chunks of varying size.


@pytest.mark.parametrize("recall", ["cache", "in-order"])
def test_varying_chunks_are_as_long_as_the_interval_that_follows(recall: str) -> None:
    """Sentences of 12 entries; intervals grow from 2 to 8."""
    store = ToyStore(torch.arange(24.0)[:, None], torch.arange(24), [12, 24])
    plan = replace(with_cache(cache_k=24), schedule=GeometricSchedule(2, 8))
    config = replace(CONFIG, recall=recall, varying_chunk=True, retention="last")
    retriever = retriever_of(config, plan, seeds=[[]], sentences=1, store=store)
    steps = search_steps(plan.schedule, 5, 20)
    assert len(set(steps.values())) > 1
    for time, interval in steps.items():
        at(retriever, time, ([0.0], 0))
        chunk = list(range(min(interval, 12)))
        if recall == "cache":
            assert entries(at(retriever, time + 1, ([0.0], 0)), 0) == chunk
        else:
            read = [at(retriever, time + later, ([0.0], 0)).entry_BK[0, 0].item() for later in range(1, interval)]
            assert read == chunk[1:]


def test_sentences_of_one_step_may_have_chunks_of_different_sizes() -> None:
    store = ToyStore(torch.arange(24.0)[:, None], torch.arange(24), [12, 24])
    plan, config = (
        replace(with_cache(cache_k=24), schedule=GeometricSchedule(2, 8)),
        replace(CONFIG, varying_chunk=True),
    )
    request = Request((), [1, 100], 20, torch.device("cpu"), ReferenceScoring())
    retriever = PaperChunkRetriever(store, plan, config, request)
    at(retriever, 1, *both(0.0, 12.0))
    found = at(retriever, 2, *both(0.0, 12.0))
    assert [entries(found, row) for row in (0, 1)] == [[*range(8)], [12, 13]]


# The usual strategy is that of the engines' caches.


class CountingStore(ToyStore):
    """Notes how many queries each search has."""

    asked = 0

    def search(self, query_BD: Tensor, k: int) -> Neighbours:
        self.asked += len(query_BD)
        return super().search(query_BD, k)


@pytest.mark.parametrize("beams", [1, 2, 100])
def test_the_usual_strategy_finds_what_the_caches_of_engines_find(beams: int) -> None:
    """Sentences begin at different times, search with some of their rows, and finish."""
    known = random_store(0, sentences=20, columns=6, vocabulary=20)
    plan = RetrievalPlan(GeometricSchedule(2, 4), beams, CachePlan(k=3, cache_k=4, chunk=3, columns=6))
    lengths, stores = [2, 9, 4], [CountingStore(known.key_ND, known.token_N, known.ends) for _ in range(2)]
    request = Request((), lengths, 20, torch.device("cpu"), ReferenceScoring())
    retrievers: list[Retriever] = [
        PaperChunkRetriever(stores[0], plan, replace(CONFIG, chunk=3), request),
        ScheduledRetriever(stores[1], plan, lengths, 20, torch.device("cpu")),
    ]
    for retriever in retrievers:
        retriever.begin([0, 1], torch.tensor([[1, 5, -1], [7, 7, 9]]))
    for turn in range(1, 9):
        now = {0: turn, 1: turn} if turn < 4 else {1: turn, 2: turn - 3}
        query_BD = torch.randn(3 * len(now), 6, generator=torch.Generator().manual_seed(turn))
        mine, other = (each.retrieve(query_BD, list(now.values()), list(now)) for each in retrievers)
        assert torch.equal(mine.asked_B, other.asked_B) and torch.equal(mine.entry_BK, other.entry_BK)
        torch.testing.assert_close(mine.distance_BK, other.distance_BK)
        for retriever in retrievers:
            retriever.release([0] if turn == 3 else [])
    assert retrievers[0].searches == retrievers[1].searches and stores[0].asked == stores[1].asked


@pytest.mark.parametrize(
    ("settings", "shares_batch", "per_sentence"),
    [
        ({"scope": "batch"}, True, False),
        ({"scope": "hypothesis"}, False, False),
        ({"retention": "last"}, False, True),
        ({"recall": "in-order"}, False, False),
        ({"recall": "in-order", "scope": "batch"}, False, False),
    ],
)
def test_what_a_strategy_means_for_batches(settings: dict[str, str], shares_batch: bool, per_sentence: bool) -> None:
    method = PaperChunkMethod(line(), ChunkConfig.from_mapping(settings))
    assert (method.shares_batch, method.per_sentence) == (shares_batch, per_sentence)
    assert isinstance(method.retriever(line(), request_of(2)), PaperChunkRetriever)
