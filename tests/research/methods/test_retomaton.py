"""RetoMaton: which neighbours are followed, and when a search begins anew, written out row by row."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nearmt.contracts import Origin
from nearmt.datastore import Datastore
from nearmt.decoding import BeamConfig
from nearmt.errors import ConfigError
from nearmt.methods import make_method
from nearmt.models import Seq2SeqModel, TranslationModel
from nearmt.research.methods.retomaton import PointerRetriever
from nearmt.translator import Translator
from tests.conftest import make_pairs
from tests.methods.test_equivalences import assert_differ, assert_same, assert_same_texts, search, store_of
from tests.random_stores import random_store
from tests.requests import make_request
from tests.tiny import random_sources, tiny_model
from tests.toy_store import ToyStore

K = 4
BEAM = BeamConfig(beams=3, max_new_tokens=12)
TEXTS = [pair.source for pair in make_pairs(8, seed=5)]

#: Neighbours of a row: entry and squared distance, nearest first.
Found = list[tuple[int, float]]


@dataclass
class Row:
    """A hypothesis, and what it has from the step before."""

    entries: list[int] = field(default_factory=list)

    def step(self, store: ToyStore, query: list[float], said: int | None, follow: int) -> tuple[bool, int, Found]:
        """Whether it searches, how many entries it compares with, and the neighbours."""
        last = [end - 1 for end in store.ends]
        pointers = [n + 1 for n in self.entries if follow and said == int(store.token_N[n]) and n not in last]
        near = [(math.dist(query, store.key_ND[n].tolist()) ** 2, n) for n in pointers]
        searching = len(pointers) < max(1, follow)
        if searching:
            every = [(math.dist(query, key) ** 2, n) for n, key in enumerate(store.key_ND.tolist())]
            near = sorted({*near, *sorted(every)[:K]})
        self.entries = [n for _, n in sorted(near)]
        compared = len(pointers) + searching * len(store)
        return searching, compared, [(n, distance) for distance, n in sorted(near)]


@given(st.integers(0, 500), st.integers(0, 4), st.lists(st.permutations([0, 1, 2]), min_size=4, max_size=4))
def test_against_rows_one_by_one(seed: int, follow: int, orders: list[list[int]]) -> None:
    """Three rows of one sentence that change places, and two sentences of which one ends."""
    store = random_store(seed, sentences=12, columns=2, vocabulary=3, longest=6)
    retriever, generator = PointerRetriever(store, K, follow, 2), torch.Generator().manual_seed(seed)
    rows, said_B, sentences = [Row() for _ in range(6)], None, [0, 1]
    searches, compared = [0, 0], [0, 0]
    for time, order in enumerate(orders, start=1):
        query_BD = torch.randn(len(rows), 2, generator=generator)
        retriever.newest_B = said_B
        found = retriever.retrieve(query_BD, [time] * len(sentences), sentences)
        searching = []
        for number, row in enumerate(rows):
            said = None if said_B is None else int(said_B[number])
            due, count, expected = row.step(store, query_BD[number].tolist(), said, follow)
            searching.append(due)
            compared[sentences[number // 3]] += count
            assert found.entry_BK[number].tolist() == [n for n, _ in expected] + [-1] * (
                found.entry_BK.shape[1] - len(expected)
            )
            assert found.distance_BK[number][: len(expected)].tolist() == pytest.approx(
                [d for _, d in expected], abs=1e-4
            )
            assert int(found.asked_B[number]) == int(Origin.SEARCH if due else Origin.CACHE)
        for slot, sentence in enumerate(sentences):
            searches[sentence] += any(searching[3 * slot : 3 * slot + 3])
        keep = [3 * slot + place for slot in range(len(sentences)) for place in order]
        if time == 3:  # the first sentence is done
            keep, sentences = keep[3:], [1]
        retriever.reorder(torch.tensor(keep))
        rows = [Row(list(rows[number].entries)) for number in keep]
        said_B = torch.randint(0, 3, (len(rows),), generator=generator)
    assert retriever.searches == searches and retriever.compared == compared


@pytest.mark.parametrize("family", ["marian", "nllb"])
def test_without_following_it_is_knn(family: str) -> None:
    model, sources = Seq2SeqModel(tiny_model(family, 2)), random_sources(2)
    store = store_of(model)
    knn = search(model, make_method("knn", store, {"k": 4}), sources)
    assert_same(search(model, make_method("retomaton", store, {"k": 4, "follow": 0}), sources), knn)
    assert_differ(search(model, make_method("retomaton", store, {"k": 4, "follow": 1}), sources), knn)


def test_following_saves_searches(tiny: TranslationModel, tiny_store: Datastore) -> None:
    greedy = BeamConfig(beams=1, max_new_tokens=12)
    found = {
        follow: Translator(tiny, tiny_store, "retomaton", {"follow": follow, "lambda": 0.9}, greedy).translate(TEXTS)
        for follow in (0, 1, 1000)
    }
    knn = Translator(tiny, tiny_store, "knn", {"lambda": 0.9}, greedy).translate(TEXTS)
    assert_same_texts(found[0], knn, 1e-5)
    assert [t.compared for t in found[0]] == [t.compared for t in knn] == [t.steps * len(tiny_store) for t in knn]
    # With a threshold that is never reached every step searches, and what is followed joins it.
    for follow in (0, 1000):
        assert [t.searches for t in found[follow]] == [t.steps for t in found[follow]]
    assert sum(t.searches for t in found[1]) < sum(t.steps for t in found[1])
    assert all(t.compared < t.steps * len(tiny_store) for t in found[1] if t.searches < t.steps)


def test_explanations_tell_searches_from_followed_neighbours(tiny: TranslationModel, tiny_store: Datastore) -> None:
    settings = {"follow": 1, "lambda": 0.9}
    greedy = BeamConfig(beams=1, max_new_tokens=12)
    found = Translator(tiny, tiny_store, "retomaton", settings, greedy).translate(TEXTS, explain=True)
    for translation in found:
        assert translation.provenance is not None and translation.provenance[0].searched
        assert sum(token.searched for token in translation.provenance) == translation.searches
    assert {token.origin for t in found for token in t.provenance or ()} >= {"search", "cache"}


def test_additions_are_seen_by_the_next_request_only(tiny: TranslationModel, tmp_path: Path) -> None:
    """A request reads one snapshot, whose entries its pointers stay in."""
    store = Datastore.build(tmp_path / "store", make_pairs(20, seed=1), tiny)
    translator = Translator(tiny, store, "retomaton", {"follow": 1}, BEAM)
    state = translator.method.begin(make_request([3], 5))
    size = len(store)
    store.add(make_pairs(5, seed=2), tiny)
    assert state.store is not None and state.store.profile.entries == size < len(store)


def test_bad_settings(tiny_store: Datastore) -> None:
    with pytest.raises(ConfigError, match="follow"):
        make_method("retomaton", tiny_store, {"follow": -1})
    assert "|follow:3" in make_method("retomaton", tiny_store, {"follow": 3}).signature()
