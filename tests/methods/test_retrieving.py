"""What all retrieving methods ask of a store when sentences begin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from nearmt.contracts import SimilarSources
from nearmt.engines.reference.scoring import ReferenceScoring
from nearmt.methods import make_method
from nearmt.steps import Request, Step
from tests.random_stores import random_store
from tests.toy_store import ToyStore

SOURCES = [[0], [2], [5], [6]]


class AskedStore(ToyStore):
    """Notes for which sources it was asked what is similar, and how much."""

    def __init__(self) -> None:
        known = random_store(0, sentences=8, columns=4, vocabulary=9)
        super().__init__(known.key_ND, known.token_N, known.ends)
        self.asked: list[tuple[list[list[int]], int]] = []

    def similar(self, sources: Sequence[Sequence[int]], count: int, candidates: int = 0) -> SimilarSources:
        self.asked.append(([list(source) for source in sources], count))
        return super().similar(sources, count, candidates)


def run(store: AskedStore, method: str, settings: dict[str, Any], sources: Sequence[Sequence[int]] = SOURCES) -> None:
    """Two sentences begin, take some steps, and are followed by two others."""
    request = Request(sources, [5] * 4, 9, torch.device("cpu"), ReferenceScoring())
    state = make_method(method, store, settings).begin(request)
    for sentences in ([0, 1], [3, 2]):
        state.begin(sentences)
        for time in (1, 2, 3, 4):
            state.scores(Step(torch.zeros(4, 9), torch.zeros(4, 4), [time, time], sentences, [0]))
            state.reorder(torch.arange(4))
        state.release(sentences)


@pytest.mark.parametrize(
    ("method", "settings", "count"),
    [
        ("knn", {}, 0),
        ("chunk", {"seeds": 2}, 2),
        ("chunk", {"seeds": 2, "guard": False}, 2),
        ("chunk", {"seeds": 0}, 0),
        ("chunk", {"seeds": 2, "retention": "last"}, 2),
        ("efficient", {}, 0),
    ],
)
def test_similar_sources_are_asked_for_once_a_sentence(method: str, settings: dict[str, Any], count: int) -> None:
    """Both for seeds and for the guard."""
    store = AskedStore()
    run(store, method, settings)
    assert store.asked == [([[0], [2]], count), ([[6], [5]], count)]


@pytest.mark.parametrize(("method", "settings"), [("knn", {}), ("chunk", {"seeds": 0}), ("efficient", {})])
def test_without_seeds_and_guard_nothing_is_asked(method: str, settings: dict[str, Any]) -> None:
    store = AskedStore()
    run(store, method, {**settings, "guard": False})
    assert store.asked == []


@pytest.mark.parametrize("method", ["knn", "chunk", "efficient"])
def test_without_sources_nothing_is_asked(method: str) -> None:
    store = AskedStore()
    run(store, method, {}, sources=())
    assert store.asked == []
