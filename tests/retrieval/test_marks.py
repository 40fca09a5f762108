"""Tables of what holders have are sets; and caches that kernels fill recall what those filled by torch recall."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from nearmt.retrieval.held_keys import KernelHeldKeys
from nearmt.retrieval.marks import Marks
from nearmt.retrieval.neighbour_cache import CacheConfig, NeighbourCache
from torch import Tensor

from nearmt.contracts import Neighbours
from nearmt.datastore import Datastore
from nearmt.models import ModelConfig, TranslationModel, load_model
from tests.conftest import make_pairs
from tests.kernels import needs_kernels
from tests.tiny import tiny_model

pytestmark = needs_kernels


def fresh(marks: Marks, holder: int, entries: list[int]) -> list[int]:
    found: list[int] = marks.fresh(holder, torch.tensor(entries, dtype=torch.long)).tolist()
    return found


def test_an_entry_is_fresh_once() -> None:
    marks = Marks(2)
    assert fresh(marks, 0, [5, -1, 3, 5, 0]) == [5, 3, 0]
    assert fresh(marks, 0, [0, 9, 3]) == [9]
    assert fresh(marks, 0, []) == fresh(marks, 0, [-1]) == []


def test_holders_have_their_own() -> None:
    marks = Marks(2)
    assert fresh(marks, 0, [1, 2]) == [1, 2]
    assert fresh(marks, 1, [2, 3]) == [2, 3]
    marks.add(2)
    assert [fresh(marks, holder, [1, 2, 3, 4]) for holder in range(4)] == [[3, 4], [1, 4], [1, 2, 3, 4], [1, 2, 3, 4]]


def test_selected_holders_go_their_own_ways() -> None:
    marks = Marks(2)
    fresh(marks, 0, [1, 2])
    fresh(marks, 1, [3])
    marks.select(torch.tensor([0, 1, 0]))
    assert fresh(marks, 0, [1, 5]) == [5]
    assert fresh(marks, 2, [1, 2, 5]) == [5]
    assert fresh(marks, 1, [1, 3, 5]) == [1, 5]


def test_what_is_not_kept_is_forgotten() -> None:
    marks = Marks(2)
    for holder in (0, 1):
        fresh(marks, holder, [1, 2, 3, 4])
    marks.forget(0, torch.tensor([4, -1, 2]))
    assert fresh(marks, 0, [1, 2, 3, 4]) == [1, 3]
    assert fresh(marks, 1, [1, 2, 3, 4]) == []
    marks.forget(0, torch.zeros(0, dtype=torch.long))
    assert fresh(marks, 0, [1, 2, 3, 4]) == [1, 2, 3, 4]


@pytest.mark.parametrize("most", [512, 513, 1500, 5000])
def test_tables_grow_and_keep_what_they_have(most: int) -> None:
    """At least half of the places stay free."""
    marks, held_UM = Marks(3), torch.full((3, 400), -1)
    for holder, count in enumerate((400, 7, 0)):
        held_UM[holder, :count] = torch.arange(count) * 1024  # many of them would share a place
        fresh(marks, holder, held_UM[holder].tolist())
    marks.make_room(held_UM, most)
    places = marks._table_UT.shape[1]
    assert places >= 2 * most and places & (places - 1) == 0
    for holder, count in enumerate((400, 7, 0)):
        assert fresh(marks, holder, held_UM[0].tolist()) == held_UM[0, count:].tolist()
        more = [1_000_000 + number for number in range(most - 400)]
        assert fresh(marks, holder, more) == more


steps = st.lists(
    st.one_of(
        st.tuples(st.just("fresh"), st.integers(0, 9), st.lists(st.integers(-1, 30), max_size=12)),
        st.tuples(st.just("forget"), st.integers(0, 9), st.integers(0, 12)),
        st.tuples(st.just("select"), st.lists(st.integers(0, 9), min_size=1, max_size=4), st.none()),
        st.tuples(st.just("add"), st.integers(1, 2), st.none()),
        st.tuples(st.just("make_room"), st.integers(1, 900), st.none()),
    ),
    max_size=15,
)


@given(steps=steps)
def test_tables_are_sets(steps: list[tuple[str, int | list[int], int | list[int] | None]]) -> None:
    marks, known = Marks(1), [list[int]()]
    for what, first, second in steps:
        if what == "fresh" and isinstance(first, int) and isinstance(second, list):
            holder = first % len(known)
            expected = [entry for entry in dict.fromkeys(second) if entry >= 0 and entry not in known[holder]]
            assert fresh(marks, holder, second) == expected
            known[holder] = known[holder] + expected
        elif what == "forget" and isinstance(first, int) and isinstance(second, int):
            holder = first % len(known)
            known[holder] = known[holder][:second]
            marks.forget(holder, torch.tensor(known[holder], dtype=torch.long))
        elif what == "select" and isinstance(first, list):
            chosen = [number % len(known) for number in first]
            marks.select(torch.tensor(chosen))
            known = [known[number] for number in chosen]
        elif what == "add" and isinstance(first, int):
            marks.add(first)
            known += [[] for _ in range(first)]
        elif what == "make_room" and isinstance(first, int):
            marks.make_room(padded(known), first)
    for holder, entries in enumerate(known):
        assert fresh(marks, holder, list(range(31))) == [entry for entry in range(31) if entry not in entries]


def padded(known: list[list[int]]) -> Tensor:
    """What holders have, side by side; -1 fills up."""
    parts = [torch.tensor([*entries, -1], dtype=torch.long) for entries in known]
    return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True, padding_value=-1)


# Whole caches, over a store whose keys are wide enough to be rounded.

COLUMNS = 48


@pytest.fixture(scope="module")
def wide_model(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> TranslationModel:
    folder = tmp_path_factory.mktemp("wide") / "model"
    shutil.copytree(tiny_folder, folder)
    size = len(json.loads((folder / "vocab.json").read_text(encoding="utf-8")))
    tiny_model(
        "marian", vocab_size=size, decoder_vocab_size=size, pad_token_id=size - 1, decoder_start_token_id=size - 1,
        bad_words_ids=[[size - 1]], d_model=COLUMNS,
    ).save_pretrained(folder)  # fmt: skip
    return load_model(ModelConfig(model=str(folder), device="cpu", precision="fp32"))


@pytest.fixture(scope="module")
def wide_store(wide_model: TranslationModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two segments."""
    path = tmp_path_factory.mktemp("stores") / "wide"
    store = Datastore.build(path, make_pairs(60), wide_model)
    store.add(make_pairs(40, seed=1), wide_model)
    return path


def recalls(path: Path, config: CacheConfig, kernels: bool) -> list[tuple[Tensor, Tensor]]:
    """What three sentences of two rows recall, while they are seeded, search, go on, and one of them leaves."""
    store = Datastore.open(path).snapshot()
    assert (store.rows is not None) == kernels and store.columns == COLUMNS and len(store.entries.keys_by_segment) == 2
    cache = NeighbourCache(store, config, 3, torch.device("cpu"))
    assert isinstance(cache._keys, KernelHeldKeys) == kernels
    assert (cache._marks is not None) == (kernels and config.duplicates == "remove")
    generator, entries, found = torch.Generator().manual_seed(0), len(store), []

    def some(*shape: int) -> Tensor:
        return torch.randint(-1, entries, shape, generator=generator)

    def look(rows: list[int], sources: list[int]) -> None:
        near_M = torch.randint(0, entries, (len(rows),), generator=generator)
        off_BE = torch.randn(len(rows), config.columns, generator=generator)
        query_BE = store.keys(near_M, config.columns) + 0.3 * off_BE
        recalled = cache.recall(rows, sources, query_BE, 6)
        found.append((recalled.entry_BK, recalled.distance_BK))

    cache.seed([0, 1, 2], [0, 1, 2], some(3, 30))
    look([0, 1, 2], [0, 1, 2])
    cache.reorder(torch.arange(3).repeat_interleave(2))
    rows, sources = list(range(6)), [0, 0, 1, 1, 2, 2]
    for count in (9, 40, 700):  # more than there was room for
        cache.remember(rows, sources, some(6, count))
        look(rows, sources)
        cache.reorder(torch.tensor([1, 1, 2, 3, 5, 4]))
        look(rows, sources)
    cache.remember([2], [1], some(1, 20))
    look(rows, sources)
    cache.leave([1])
    cache.reorder(torch.tensor([0, 1, 4, 5]))
    look([0, 1, 2, 3], [0, 0, 2, 2])
    if config.scope != "hypothesis":  # another one takes its place
        cache.remember([4, 5], [3, 3], some(2, 25))
        look([0, 1, 2, 3, 4, 5], [0, 0, 2, 2, 3, 3])
    return found


@pytest.mark.parametrize("scope", ["hypothesis", "source", "batch"])
@pytest.mark.parametrize("retention", ["last", "all"])
@pytest.mark.parametrize("duplicates", ["remove", "keep"])
@pytest.mark.parametrize("columns", [COLUMNS, 33])
def test_caches_recall_the_same_with_kernels_and_without(
    scope: str, retention: str, duplicates: str, columns: int, wide_store: Path, request: pytest.FixtureRequest
) -> None:
    config = CacheConfig(scope, retention, duplicates, columns)
    found = recalls(wide_store, config, kernels=True)
    request.getfixturevalue("no_kernels")
    expected = recalls(wide_store, config, kernels=False)
    assert all((entry_BK >= 0).any() for entry_BK, _ in expected)
    same = []
    for mine, plain in zip(found, expected, strict=True):
        same.append((mine[0] == plain[0]).flatten())
        assert torch.equal(mine[0] < 0, plain[0] < 0)
        torch.testing.assert_close(mine[1][mine[0] == plain[0]], plain[1][mine[0] == plain[0]], rtol=1e-5, atol=1e-6)
        # Nominees are rounded: of two that are nearly as far, one may be left out, above all beside kept duplicates.
        torch.testing.assert_close(mine[1], plain[1], rtol=1e-2, atol=0.0)
    assert torch.cat(same).float().mean() > 0.98


def held(cache: NeighbourCache) -> list[list[int]]:
    """What each holder has, in order."""
    return [held_M[:count].tolist() for held_M, count in zip(cache._held_UM, cache._count, strict=True)]


def test_what_is_done_at_once_is_what_is_done_step_by_step(wide_store: Path) -> None:
    """Sentences are seeded, remember chunks, some more than others, and recall from any places of a batch."""
    store, config = Datastore.open(wide_store).snapshot(), CacheConfig("source", "all", "remove", 36)
    assert NeighbourCache.at_once(store, config)
    one, other = (NeighbourCache(store, config, 3, torch.device("cpu")) for _ in range(2))
    generator, rows, k = torch.Generator().manual_seed(0), 3, 6

    def look(sentences: list[int], places: list[int]) -> None:
        off_BD = torch.randn(len(sentences) * rows, COLUMNS, generator=generator)
        near_M = torch.randint(0, len(store), (len(off_BD),), generator=generator)
        query_BD = store.keys(near_M, COLUMNS) + 0.3 * off_BD
        found = Neighbours(torch.full((len(query_BD), k), -7), torch.full((len(query_BD), k), -7.0))
        one.recall_at_once(found, query_BD, sentences, places)
        reading = [place * rows + row for place in places for row in range(rows)]
        own = [sentences[row // rows] for row in reading]
        expected = other.recall(reading, own, query_BD[reading, : config.columns], k)
        assert torch.equal(found.entry_BK[reading], expected.entry_BK)
        torch.testing.assert_close(found.distance_BK[reading], expected.distance_BK, rtol=1e-6, atol=0.0)
        rest = [row for row in range(len(query_BD)) if row not in reading]
        assert (found.entry_BK[rest] == -7).all()

    seeds = torch.randint(-1, len(store), (3, 10), generator=generator)
    for cache in (one, other):
        cache.seed([0, 1, 2], [4, 1, 7], seeds)
    look([1, 7, 4], [0, 1, 2])
    for sentences, count, chunk in (([4, 7], 5, 3), ([1], 90, 9), ([7, 1, 4], 30, 20)):
        entry_SX = torch.randint(-1, len(store), (len(sentences), count), generator=generator)
        one.remember_chunks(sentences, entry_SX, chunk)
        other.remember(list(range(len(sentences))), sentences, store.chunks(entry_SX, chunk).flatten(1))
        assert held(one) == held(other)
        look([4, 7, 1], [0, 2])
        look([7, 1], [1])
    for cache in (one, other):
        cache.leave([7])
    look([4, 1], [1, 0])
