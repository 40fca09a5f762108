"""Search over many segments and behind masks, against brute force."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from nearmt.contracts import Neighbours, Pair
from nearmt.datastore.disk import FileRecord, Segment, SegmentRecord, SegmentWriter
from nearmt.datastore.search.entries import open_entries
from nearmt.datastore.search.searcher import Searcher
from nearmt.engines.base import Index
from nearmt.engines.choose import exact_index
from nearmt.index import ExactIndex, Quantiser, SharedIndex, SubsetIndex
from nearmt.index.faiss import FaissIndex
from tests.index.test_contract import COLUMNS, brute_force, made_keys, made_queries, squared_distances

ENTRIES = 1200
CUTS = [0, 500, 500, 503, 1100, ENTRIES]


def write_segment(folder: Path, name: str, key_ND: np.ndarray) -> SegmentRecord:
    writer = SegmentWriter(folder / name, {})
    keys = [key_ND[place : place + 8] for place in range(0, len(key_ND), 8)]
    if keys:
        pairs = [Pair("s", "t", id=f"{name}-{number}") for number in range(len(keys))]
        writer.append(pairs, keys, [[1] * len(key) for key in keys], [[1]] * len(keys), 0)
    return writer.seal()


def with_weights(folder: Path, record: SegmentRecord, kept: np.ndarray) -> SegmentRecord:
    """As after pruning."""
    file = folder / record.name / "weight-0.i32"
    file.write_bytes(kept.astype("<i4").tobytes())
    pruned = {"file": file.name, "kept": int(kept.sum())}
    files = {**record.files, file.name: FileRecord.of(file)}
    return replace(record, files=files, index={**record.index, "pruned": pruned})


@cache
def trained(factory: str) -> Quantiser:
    return Quantiser.train(made_keys(ENTRIES), factory)


def shared(factory: str, effort: int) -> Callable[[np.ndarray], Index]:
    def build(key_ND: np.ndarray) -> Index:
        index = trained(factory).index(key_ND)
        index.effort = effort
        return index

    return build


def of_torch(key_ND: np.ndarray) -> Index:
    return exact_index(torch.from_numpy(key_ND))


#: The first ones find everything that there is; the others see only some cells, or codes.
EXACT: dict[str, Sequence[Callable[[np.ndarray], Index]]] = {
    "exact": [ExactIndex],
    "torch": [of_torch],
    "cells": [shared("IVF16,Flat", 16)],
    "cells and flat": [shared("IVF16,Flat", 16), of_torch, of_torch],
    "faiss and cells": [lambda key: FaissIndex.build(key, "Flat"), shared("IVF16,Flat", 16)],
}
APPROXIMATE: dict[str, Sequence[Callable[[np.ndarray], Index]]] = {
    "some cells": [shared("IVF16,Flat", 1)],
    "codes": [shared("IVF16,SQ8", 2), of_torch],
    "short codes": [shared("IVF16,PQ8np", 3)],
}
ALL = {**EXACT, **APPROXIMATE}


def made_searcher(folder: Path, name: str, kept: np.ndarray | None = None) -> Searcher:
    """Five segments, one without entries, one with three; `kept` is what pruning has left."""
    key, segments, indexes = made_keys(ENTRIES), [], []
    for number, (start, end) in enumerate(pairwise(CUTS)):
        record = write_segment(folder, f"segment-{number:06d}", key[start:end])
        if kept is not None:
            record = with_weights(folder, record, kept[start:end])
        segment = Segment(folder / record.name, record, COLUMNS)
        inside = segment.searched_key_MD
        build = ALL[name][number % len(ALL[name])] if len(inside) else of_torch
        index = build(np.asarray(inside))
        segments.append(segment)
        indexes.append(index if segment.kept_M is None else SubsetIndex(index, torch.from_numpy(segment.kept_M)))
    return Searcher(open_entries(segments, torch.device("cpu")), indexes, COLUMNS)


def many_masks() -> list[np.ndarray]:
    """Of every density, some that hide whole segments, some all but a handful, one that hides everything."""
    generator = np.random.default_rng(11)
    shares = [0.0, 0.002, 0.01, 0.1, 0.3, 0.5, 0.6, 0.9, 0.99, 1.0]
    masks = [generator.random(ENTRIES) < share for share in shares]
    for start, end in pairwise(CUTS):
        hidden = np.ones(ENTRIES, dtype=bool)
        hidden[start:end] = False
        masks += [hidden, ~hidden]
    return masks


def around(query_BD: Tensor, count: int) -> np.ndarray:
    """A mask that hides the nearest of the first query: whatever is found without it is forbidden."""
    mask = np.ones(ENTRIES, dtype=bool)
    mask[brute_force(query_BD[:1], made_keys(ENTRIES), count)[0]] = False
    return mask


def assert_nearest(found: Neighbours, query_BD: Tensor, k: int, live_N: np.ndarray, exact: bool = True) -> None:
    """k different live entries, or all there are, nearest first, at their distances; the nearest of all if `exact`."""
    there, key = min(k, int(live_N.sum())), made_keys(ENTRIES)
    assert found.entry_BK.shape == found.distance_BK.shape == (len(query_BD), k)
    assert bool((found.entry_BK[:, there:] == -1).all()) and bool(torch.isinf(found.distance_BK[:, there:]).all())
    entry, distance = found.entry_BK[:, :there], found.distance_BK[:, :there]
    assert bool((entry >= 0).all()) and live_N[entry.numpy()].all()
    assert all(len(set(row)) == there for row in entry.tolist())
    assert bool((distance.diff(dim=1) >= 0).all())
    np.testing.assert_allclose(distance, squared_distances(query_BD, key, entry), rtol=1e-4)
    if exact:
        expected = torch.from_numpy(brute_force(query_BD, key, there, live_N))
        np.testing.assert_allclose(distance, squared_distances(query_BD, key, expected), rtol=1e-4)


@pytest.mark.parametrize("pruned", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_search_behind_every_mask(name: str, pruned: bool, tmp_path: Path) -> None:
    kept = np.random.default_rng(3).random(ENTRIES) < 0.5 if pruned else np.ones(ENTRIES, dtype=bool)
    searcher, query = made_searcher(tmp_path, name, kept if pruned else None), made_queries(6)
    hiding = [around(query, count) for count in (8, 16, 40, 400, 599, 601, 1199)]
    for mask in [*many_masks(), *hiding]:
        for k in (8, 300):
            assert_nearest(
                searcher.search(query, k, torch.from_numpy(mask)), query, k, mask & kept, exact=name in EXACT
            )
    assert_nearest(searcher.search(query, 8), query, 8, kept, exact=name in EXACT)


def test_the_best_of_a_segment_may_all_be_hidden(tmp_path: Path) -> None:
    """Enough others are found then, in another segment, that are farther than what comes next in this one."""
    query, key = made_queries(1), made_keys(ENTRIES)
    searcher = made_searcher(tmp_path, "torch")
    order = brute_force(query, key, ENTRIES)[0]
    mask = np.ones(ENTRIES, dtype=bool)
    mask[[entry for entry in order[:200] if entry < 500][:40]] = False
    assert_nearest(searcher.search(query, 8, torch.from_numpy(mask)), query, 8, mask)


@pytest.mark.parametrize("name", ALL)
def test_k_beyond_all_entries(name: str, tmp_path: Path) -> None:
    searcher, query, everything = made_searcher(tmp_path, name), made_queries(3), np.ones(ENTRIES, dtype=bool)
    assert_nearest(searcher.search(query, ENTRIES + 7), query, ENTRIES + 7, everything)
    assert_nearest(searcher.search(query, ENTRIES + 7, torch.from_numpy(everything)), query, ENTRIES + 7, everything)


@pytest.mark.parametrize("factory", ["IVF16,Flat", "IVF16,SQ8", "IVF16,PQ8np"])
@pytest.mark.parametrize("effort", [1, 4])
def test_many_segments_are_searched_like_one(factory: str, effort: int, tmp_path: Path) -> None:
    """At the same effort the same entries come out, so cutting a store into segments changes no translation."""
    key, query = made_keys(ENTRIES), made_queries(40)
    record = write_segment(tmp_path / "one", "segment-000000", key)
    segment = Segment(tmp_path / "one" / record.name, record, COLUMNS)
    one = Searcher(open_entries([segment], torch.device("cpu")), [shared(factory, effort)(key)], COLUMNS)
    many = made_searcher(tmp_path, "exact")
    many.indexes = [
        shared(factory, effort)(key[start:end]) if end > start else index
        for index, (start, end) in zip(many.indexes, pairwise(CUTS), strict=True)
    ]
    hidden_few = torch.from_numpy(np.random.default_rng(0).random(ENTRIES) < 0.98)
    hidden_most = torch.from_numpy(np.random.default_rng(0).random(ENTRIES) < 0.3)
    for mask in (None, hidden_few, hidden_most):
        mine, theirs = many.search(query, 8, mask), one.search(query, 8, mask)
        assert torch.equal(mine.entry_BK, theirs.entry_BK)
        torch.testing.assert_close(mine.distance_BK, theirs.distance_BK)


class Watched:
    """An index that tells what it was asked."""

    complete, lists, scan = True, None, None

    def __init__(self, key_ND: np.ndarray) -> None:
        self._inner = of_torch(key_ND)
        self.asked: list[tuple[int, bool]] = []

    def nominate(self, query_BD: Tensor, count: int, allowed_N: Tensor | None) -> Tensor:
        self.asked.append((len(query_BD), allowed_N is not None))
        return self._inner.nominate(query_BD, count, allowed_N)


def watched(folder: Path) -> tuple[Searcher, Watched]:
    record = write_segment(folder, "segment-000000", made_keys(ENTRIES))
    segment = Segment(folder / record.name, record, COLUMNS)
    index = Watched(made_keys(ENTRIES))
    return Searcher(open_entries([segment], torch.device("cpu")), [index], COLUMNS), index


def test_few_hidden_entries_cost_no_mask(tmp_path: Path) -> None:
    searcher, index = watched(tmp_path)
    query = made_queries(10)
    searcher.search(query, 8, torch.ones(ENTRIES, dtype=torch.bool))
    assert index.asked == [(10, False)]
    # Only the first query, whose nearest entries are hidden, and one next to it are searched again.
    searcher.search(query, 8, torch.from_numpy(around(query, 12)))
    assert index.asked[1:] == [(10, False), (2, True)]


def test_many_hidden_entries_are_masked_at_once(tmp_path: Path) -> None:
    searcher, index = watched(tmp_path)
    searcher.search(made_queries(10), 8, torch.from_numpy(np.random.default_rng(0).random(ENTRIES) < 0.4))
    assert index.asked == [(10, True)]


def test_a_handful_is_compared_without_an_index(tmp_path: Path) -> None:
    searcher, index = watched(tmp_path)
    mask = np.random.default_rng(0).random(ENTRIES) < 0.05
    found = searcher.search(made_queries(10), 8, torch.from_numpy(mask))
    np.testing.assert_array_equal(found.entry_BK, brute_force(made_queries(10), made_keys(ENTRIES), 8, mask))
    assert index.asked == []


def test_an_empty_mask_searches_no_index(tmp_path: Path) -> None:
    searcher, index = watched(tmp_path)
    found = searcher.search(made_queries(3), 4, torch.zeros(ENTRIES, dtype=torch.bool))
    assert found.entry_BK.tolist() == [[-1] * 4] * 3 and bool(torch.isinf(found.distance_BK).all())
    assert index.asked == []


def test_no_queries_find_nothing(tmp_path: Path) -> None:
    searcher = made_searcher(tmp_path, "codes")
    for mask in (None, torch.ones(ENTRIES, dtype=torch.bool)):
        assert searcher.search(torch.zeros(0, COLUMNS), 4, mask).entry_BK.shape == (0, 4)


def test_indexes_share_what_they_stand_on(tmp_path: Path) -> None:
    indexes = [index for index in made_searcher(tmp_path, "cells").indexes if isinstance(index, SharedIndex)]
    assert len(indexes) == 4 and len({id(index.quantiser) for index in indexes}) == 1
