"""Edit distances of many sentences at a time against the definition, one pair of prefixes at a time."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.datastore.search.edits import by_similarity, edit_distances
from nearmt.models import TranslationModel
from tests.conftest import make_pairs

Sentence = list[int]
sentences = st.lists(st.integers(0, 3), max_size=7)


def distance(one: Sentence, other: Sentence) -> int:
    """The fewest edits, by recursion."""

    @cache
    def edits(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        replaced = edits(i - 1, j - 1) + (one[i - 1] != other[j - 1])
        return min(replaced, 1 + edits(i - 1, j), 1 + edits(i, j - 1))

    return edits(len(one), len(other))


def similarity(one: Sentence, other: Sentence) -> float:
    return 1 - distance(one, other) / max(len(one), len(other), 1)


@given(sentences, st.lists(sentences, max_size=5))
def test_edit_distances(source: Sentence, others: list[Sentence]) -> None:
    assert edit_distances(source, others).tolist() == [distance(source, other) for other in others]


@given(sentences, st.lists(sentences, max_size=6))
def test_the_most_similar_come_first(source: Sentence, others: list[Sentence]) -> None:
    """Equals stay in their order."""
    expected = sorted(range(len(others)), key=lambda place: -round(similarity(source, others[place]), 9))
    assert by_similarity(source, others) == expected


def test_among_candidates_the_most_similar_are_chosen(tiny: TranslationModel, tiny_store: Datastore) -> None:
    """BM25 finds the candidates, edit distance orders them; the rest of the answer stays what it was."""
    store = tiny_store.snapshot()
    source = tiny.codec.source_ids(make_pairs(1, seed=77)[0].source)
    candidates = store.similar_pairs(source, 12)
    expected = sorted(candidates, key=lambda number: -round(similarity(source, store.source(number)), 9))[:4]
    assert expected != candidates[:4]
    found, usual = store.similar([source], 4, 12), store.similar([source], 4)
    assert found.entry_SX[0].tolist() == [int(n) for number in expected for n in store.entries.of_pair(number)]
    assert (found.familiarity, found.closeness, found.close) == (usual.familiarity, usual.closeness, usual.close)


def test_fewer_candidates_than_wanted(tiny: TranslationModel, tmp_path: Path) -> None:
    store = Datastore.build(tmp_path / "store", [Pair("pumpe prüfen", "check the pump")], tiny).snapshot()
    sources = [tiny.codec.source_ids("pumpe"), tiny.codec.source_ids("pumpe nicht öffnen")]
    assert store.similar(sources, 16, 64).entry_SX.tolist() == [list(range(len(store)))] * 2
