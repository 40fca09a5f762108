"""Segments of a store share a quantiser; what is measured about it can be trusted."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from nearmt.datastore.disk import FileRecord, Segment, SegmentRecord
from nearmt.datastore.search import indexing
from nearmt.datastore.search.entries import open_entries
from nearmt.datastore.search.indexing import index_segment, index_segments, open_index, trained_entries
from nearmt.datastore.search.recall import GOOD_RECALL, measure_recall, staleness
from nearmt.datastore.search.searcher import Searcher
from nearmt.engines.choose import exact_index
from nearmt.engines.reference.exact_index import TorchIndex
from nearmt.errors import DatastoreError
from nearmt.index import SharedIndex, SubsetIndex
from nearmt.index.faiss import FaissIndex
from tests.datastore.test_search import with_weights, write_segment
from tests.index.test_contract import COLUMNS, brute_force, made_keys, made_queries


def quantiser_name(records: Iterable[SegmentRecord]) -> str | None:
    """The file of the quantiser that segments share, if they do."""
    return next((record.index["quantiser"]["file"] for record in records if "quantiser" in record.index), None)


def write(folder: Path, sizes: Sequence[int]) -> list[SegmentRecord]:
    key, records = made_keys(sum(sizes)), []
    for number, size in enumerate(sizes):
        start = sum(sizes[:number])
        records.append(write_segment(folder, f"segment-{number:06d}", key[start : start + size]))
    return records


def opened(folder: Path, records: Sequence[SegmentRecord], nominate: str = "auto") -> Searcher:
    segments = [Segment(folder / record.name, record, COLUMNS) for record in records]
    entries = open_entries(segments, torch.device("cpu"))
    keys = entries.keys_by_segment
    return Searcher(entries, [open_index(s, k, nominate) for s, k in zip(segments, keys, strict=True)], COLUMNS)


def kinds(records: Sequence[SegmentRecord]) -> list[str]:
    return [record.index["kind"] for record in records]


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` trains from 1,000 entries on and does not index segments below 100."""
    monkeypatch.setattr("nearmt.index.faiss.SMALL", 1000)
    monkeypatch.setattr(indexing, "FLAT", 100)


def test_segments_share_one_quantiser(tmp_path: Path) -> None:
    records = index_segments(tmp_path, write(tmp_path, [900, 700, 400]), COLUMNS, "IVF16,SQ8")
    name = quantiser_name(records)
    assert name is not None and kinds(records) == ["faiss"] * 3
    assert name == f"quantiser-{FileRecord.of(tmp_path / name).sha256[:12]}.faiss"
    assert [path.name for path in tmp_path.glob("quantiser-*")] == [name]
    assert {record.index["quantiser"]["file"] for record in records} == {name}
    assert {(r.index["factory"], r.index["effort"], r.index["recall"]) for r in records} == {
        ("IVF16,SQ8", records[0].index["effort"], records[0].index["recall"])
    }
    assert records[0].index["recall"] >= GOOD_RECALL and trained_entries(records) == 2000
    for record in records:
        assert FileRecord.of(tmp_path / record.name / record.index["file"]) == record.files[record.index["file"]]


def test_opened_one_by_one_they_share_it_in_memory(tmp_path: Path) -> None:
    records = index_segments(tmp_path, write(tmp_path, [900, 700]), COLUMNS, "IVF16,SQ8")
    first, second = opened(tmp_path, records[:1]).indexes[0], opened(tmp_path, records[1:]).indexes[0]
    assert isinstance(first, SharedIndex) and isinstance(second, SharedIndex)
    assert first.quantiser is second.quantiser
    name = tmp_path / str(quantiser_name(records))
    assert name in indexing._OPENED
    del first, second
    gc.collect()
    assert name not in indexing._OPENED


def test_a_later_segment_joins_the_cells(tmp_path: Path, small_limits: None) -> None:
    """What was sealed later is found as if it had been there from the start, without training anything."""
    parts = write(tmp_path, [1200, 300, 99])
    first = index_segments(tmp_path, parts[:1], COLUMNS)
    later = [index_segment(tmp_path, record, COLUMNS, "auto", existing=first) for record in parts[1:]]
    assert kinds([*first, *later]) == ["faiss", "faiss", "exact"]
    assert later[0].index["quantiser"] == first[0].index["quantiser"]
    assert later[0].index["effort"] == first[0].index["effort"]
    assert len(list(tmp_path.glob("quantiser-*"))) == 1
    searcher = opened(tmp_path, [*first, *later])
    assert [type(index) for index in searcher.indexes] == [
        SharedIndex,
        SharedIndex,
        type(exact_index(torch.zeros(1, 1))),
    ]
    assert measure_recall(searcher) >= 0.95
    # An entry finds itself wherever it lies.
    key = made_keys(1599)
    found = searcher.search(torch.from_numpy(key[::7].astype(np.float32)), 1)
    assert float(found.distance_BK.max()) == 0


def test_alone_a_segment_is_indexed_as_ever(tmp_path: Path) -> None:
    (record,) = write(tmp_path, [900])
    indexed = index_segment(tmp_path, record, COLUMNS, "IVF16,SQ8")
    assert set(indexed.index) == {"kind", "factory", "effort", "recall", "file"}
    assert quantiser_name([indexed]) is None and not list(tmp_path.glob("quantiser-*"))
    assert type(opened(tmp_path, [indexed]).indexes[0]) is FaissIndex
    # An explicit factory takes precedence over the existing clusters.
    shared = index_segments(tmp_path, [record], COLUMNS, "IVF16,SQ8")
    assert "quantiser" not in index_segment(tmp_path, record, COLUMNS, "Flat", existing=shared).index
    assert kinds([index_segment(tmp_path, record, COLUMNS, "exact", existing=shared)]) == ["exact"]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([999], ["exact"]),
        ([1000], ["faiss"]),
        ([950, 60, 30], ["faiss", "exact", "exact"]),  # 90 entries are searched exactly
        ([950, 60, 50], ["faiss", "faiss", "exact"]),  # 110 would be too many
        ([250, 250, 250, 250, 0], ["faiss", "faiss", "faiss", "faiss", "exact"]),
    ],
)
def test_auto_goes_by_the_whole_store(
    sizes: list[int], expected: list[str], tmp_path: Path, small_limits: None
) -> None:
    records = index_segments(tmp_path, write(tmp_path, sizes), COLUMNS)
    assert kinds(records) == expected
    searcher = opened(tmp_path, records)
    assert measure_recall(searcher) >= 0.97


@pytest.mark.parametrize("factory", ["exact", "Flat", "HNSW16"])
def test_kinds_without_cells_share_nothing(factory: str, tmp_path: Path) -> None:
    records = index_segments(tmp_path, write(tmp_path, [300, 200]), COLUMNS, factory)
    assert kinds(records) == ["exact" if factory == "exact" else "faiss"] * 2
    assert quantiser_name(records) is None and trained_entries(records) is None


def test_no_segments_have_no_index(tmp_path: Path) -> None:
    assert index_segments(tmp_path, [], COLUMNS) == []
    empty = index_segments(tmp_path, write(tmp_path, [0, 0]), COLUMNS, "auto")
    assert kinds(empty) == ["exact"] * 2 and measure_recall(opened(tmp_path, empty)) == 1.0


def test_pruned_segments_share_it_too(tmp_path: Path) -> None:
    kept = np.random.default_rng(1).random(2000) < 0.6
    records = write(tmp_path, [1200, 800])
    records = [
        with_weights(tmp_path, record, part) for record, part in zip(records, np.split(kept, [1200]), strict=True)
    ]
    records = index_segments(tmp_path, records, COLUMNS, "IVF16,Flat")
    assert all(record.pruned and "quantiser" in record.index for record in records)
    assert trained_entries(records) == int(kept.sum())
    searcher = opened(tmp_path, records)
    for index in searcher.indexes:
        assert isinstance(index, SubsetIndex) and isinstance(index.inner, SharedIndex)
        index.inner.effort = 16
    key, query = made_keys(2000), made_queries(20)
    np.testing.assert_array_equal(searcher.search(query, 8).entry_BK, brute_force(query, key, 8, kept))


def test_indexing_anew_replaces_all_files(tmp_path: Path) -> None:
    """New names until the manifest changes; a repeated index of the same keys has the same quantiser."""
    first = index_segments(tmp_path, write(tmp_path, [900, 700]), COLUMNS, "IVF16,SQ8")
    again = index_segments(tmp_path, first, COLUMNS, "IVF16,SQ8")
    assert quantiser_name(again) == quantiser_name(first)
    assert all(old.index["file"] != new.index["file"] for old, new in zip(first, again, strict=True))
    assert all(sum(name.startswith("index") for name in record.files) == 1 for record in again)
    assert kinds(index_segments(tmp_path, again, COLUMNS, "exact")) == ["exact"] * 2


def test_without_its_quantiser_an_index_is_refused(tmp_path: Path) -> None:
    records = index_segments(tmp_path, write(tmp_path, [900]), COLUMNS, "IVF16,SQ8")
    (tmp_path / str(quantiser_name(records))).write_bytes(b"something else")
    with pytest.raises(DatastoreError, match=r"quantiser-.*: not a readable index .*; run `nearmt reindex`"):
        opened(tmp_path, records)
    assert isinstance(opened(tmp_path, records, "torch").indexes[0], TorchIndex)


def test_without_faiss_all_is_exact(tmp_path: Path, small_limits: None, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = write(tmp_path, [1200, 300])
    first = index_segments(tmp_path, parts[:1], COLUMNS)
    monkeypatch.setattr(indexing, "_has_faiss", lambda: False)
    later = index_segment(tmp_path, parts[1], COLUMNS, "auto", existing=first)
    assert kinds([later, *index_segments(tmp_path, parts, COLUMNS)]) == ["exact"] * 3
    assert all(isinstance(index, TorchIndex) for index in opened(tmp_path, [*first, later]).indexes)


# Recall and staleness.


def test_measured_recall_is_that_of_brute_force(tmp_path: Path) -> None:
    records = index_segments(tmp_path, write(tmp_path, [400, 300]), COLUMNS, "IVF16,Flat")
    searcher = opened(tmp_path, records)
    key = made_keys(700)
    for effort in (1, 2, 16):
        for index in searcher.indexes:
            assert isinstance(index, SharedIndex)
            index.effort = effort
        query = torch.from_numpy(key.astype(np.float32))
        found, expected = searcher.search(query, 8).entry_BK.tolist(), brute_force(query, key, 8).tolist()
        hits = sum(len(set(a) & set(b)) for a, b in zip(found, expected, strict=True)) / (8 * len(key))
        assert measure_recall(searcher, queries=700) == pytest.approx(hits, abs=0.002)
    assert measure_recall(searcher) == 1.0


def test_recall_of_what_is_left_after_deletions(tmp_path: Path) -> None:
    searcher = opened(tmp_path, write(tmp_path, [300, 200]))
    seen_N = torch.from_numpy(np.random.default_rng(0).random(500) < 0.3)
    assert measure_recall(searcher, seen_N) == 1.0
    assert measure_recall(searcher, torch.zeros(500, dtype=torch.bool)) == 1.0


def test_entries_of_another_kind_make_an_index_stale(tmp_path: Path, small_limits: None) -> None:
    """Added entries lie elsewhere: all in one of the old cells, or at its border to the next."""
    (old,) = write(tmp_path, [1200])
    first = index_segments(tmp_path, [old], COLUMNS, "IVF64,SQ8")
    generator = np.random.default_rng(4)
    strange = (generator.normal(size=(6000, COLUMNS)) * 3).astype(np.float16)
    later = index_segment(tmp_path, write_segment(tmp_path, "segment-000001", strange), COLUMNS, "auto", existing=first)
    shallow = [replace(record, index={**record.index, "effort": 2}) for record in (*first, later)]
    recall = measure_recall(opened(tmp_path, shallow))
    assert recall < 0.9
    assert staleness(tmp_path, recall, 1200, 7200) == (
        f"the index finds {recall:.2f} of the nearest neighbours; run `nearmt reindex {tmp_path}`"
    )
    mended = index_segments(tmp_path, [*first, later], COLUMNS, "IVF64,SQ8")
    assert measure_recall(opened(tmp_path, mended)) > 0.95
    assert staleness(tmp_path, measure_recall(opened(tmp_path, mended)), trained_entries(mended), 7200) is None


@pytest.mark.parametrize(
    ("recall", "trained", "entries", "stale"),
    [
        (None, None, 0, None),
        (None, None, 10**6, None),
        (1.0, 100, 400, None),
        (1.0, 100, 401, "trained on 100 entries, there are 401 now"),
        (0.9, None, 400, None),
        (0.899, None, 400, "finds 0.90 of"),
        (0.5, 100, 10_000, "finds 0.50 of"),
    ],
)
def test_when_an_index_is_stale(recall: float | None, trained: int | None, entries: int, stale: str | None) -> None:
    told = staleness("store", recall, trained, entries)
    assert (told is None) == (stale is None)
    assert told is None or (stale is not None and stale in told and "`nearmt reindex store`" in told)
