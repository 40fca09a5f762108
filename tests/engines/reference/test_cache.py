"""Which cache each sentence has, and entries that come again."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from nearmt.engines.base import CachePlan
from nearmt.engines.reference.cache import CacheSlots, ReferenceCache, nominees, repeats
from tests.random_stores import random_store


def test_sentences_get_free_caches_first() -> None:
    slots = CacheSlots()
    assert slots.assign([7, 3, 7]) == [0, 1, 0] and slots.count == 2
    assert slots.of([3, 7]) == [1, 0]
    assert slots.release([3, 9, 7]) == [1, 0] and slots.sentences == set()
    assert slots.assign([4, 5, 6]) == [1, 0, 2] and slots.count == 3 and slots.sentences == {4, 5, 6}


@given(entries=st.lists(st.lists(st.integers(-1, 5), min_size=8, max_size=8), min_size=1, max_size=3))
def test_entries_that_come_again_are_marked(entries: list[list[int]]) -> None:
    expected = [[entry in row[:number] for number, entry in enumerate(row)] for row in entries]
    assert repeats(torch.tensor(entries)).tolist() == expected


def test_more_are_nominated_than_wanted() -> None:
    assert [nominees(k) for k in (1, 8, 16)] == [10, 24, 40]


def test_capacity_grows_by_more_than_is_needed() -> None:
    """Growing copies everything; keys of earlier entries stay."""
    store = random_store(0, sentences=400, columns=3, vocabulary=9)
    cache = ReferenceCache(store, CachePlan(k=1, cache_k=len(store), chunk=1, columns=3), torch.device("cpu"))
    capacities = []
    for end in (10, 200, 260, 300, 700, 1200):
        cache.seed([0], torch.arange(end)[None])
        capacities.append(cache._entry_UM.shape[1])
        found = cache.recall([0], store.key_ND[:2])
        assert sorted(entry for entry in found.entry_BK[0].tolist() if entry >= 0) == list(range(end))
        assert found.entry_BK[:, 0].tolist() == [0, 1] and not found.distance_BK[:, 0].any()
    assert capacities == [256, 256, 512, 512, 1024, 1536]
