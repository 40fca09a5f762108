"""One contract, one suite: every index nominates, the stored keys decide."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from nearmt.contracts import Pair
from nearmt.datastore.disk import Segment, SegmentWriter
from nearmt.datastore.search.entries import open_entries
from nearmt.datastore.search.searcher import Searcher
from nearmt.engines.base import Index
from nearmt.engines.choose import exact_index
from nearmt.engines.reference.entries import EntryTable
from nearmt.errors import ConfigError, DatastoreError, MissingPackageError
from nearmt.index import ExactIndex, SubsetIndex
from nearmt.index.faiss import SMALL, FaissIndex, _inner, default_factory
from nearmt.index.milvus import MilvusIndex
from nearmt.index.vector_server import Address
from tests.index.toy_milvus import ToyMilvus
from tests.kernels import needs_kernels
from tests.milvus import address_of, filled, real_server

COLUMNS = 16
ENTRIES = 640
#: Entries of a pair in the made segments.
SENTENCE = 8


@cache
def _trained(factory: str, shape: tuple[int, int], content: bytes) -> FaissIndex:
    """Training is the slow part: once for each factory and keys."""
    return FaissIndex.build(np.frombuffer(content, np.float16).reshape(shape), factory)


def faiss_at_full_effort(factory: str) -> Callable[[np.ndarray], Index]:
    def build(key_ND: np.ndarray) -> Index:
        rows, columns = key_ND.shape
        index = _trained(factory, (rows, columns), key_ND.tobytes())
        index.effort = index.efforts[-1] if index.efforts else 0
        return index

    return build


def shuffled_subset(key_ND: np.ndarray) -> Index:
    """All entries, but under other numbers inside."""
    kept_N = torch.randperm(len(key_ND), generator=torch.Generator().manual_seed(0))
    return SubsetIndex(exact_index(torch.from_numpy(key_ND)[kept_N]), kept_N)


def in_toy_milvus(settings: str) -> Callable[[np.ndarray], Index]:
    """Milvus by numpy; rows of another memory are beside these."""

    def build(key_ND: np.ndarray) -> Index:
        with pytest.MonkeyPatch.context() as patch:
            toy = ToyMilvus()
            patch.setattr("nearmt.index.milvus.connect", lambda address: toy)
            index = filled(Address.parse(f"milvus://toy{settings}"), key_ND)
            index.collection.insert(2, index.part + 1, key_ND[::-1])
            return index

    return build


def in_real_milvus(settings: str) -> Callable[[np.ndarray], Index]:
    known: dict[bytes, Index] = {}  # making a collection takes seconds

    def build(key_ND: np.ndarray) -> Index:
        content = key_ND.tobytes()
        if content not in known:
            known[content] = filled(Address.parse(address_of(real_server(), settings)), key_ND)
        return known[content]

    return build


EXACT: dict[str, Callable[[np.ndarray], Index]] = {
    "exact": ExactIndex,
    "torch": lambda key_ND: exact_index(torch.from_numpy(key_ND)),
    "Flat": faiss_at_full_effort("Flat"),
    "subset": shuffled_subset,
}
# np: without the polysemous training of FAISS, which takes 20 s and serves no search of ours.
WHOLE = "IVF16,SQ8_direct_signed"
APPROXIMATE = {name: faiss_at_full_effort(name) for name in ("IVF16,SQ8", WHOLE, "IVF16,PQ8np", "HNSW32")}
APPROXIMATE |= {"toy Milvus": in_toy_milvus(""), "toy Milvus, rounded": in_toy_milvus("?type=IVF_SQ8")}
#: In a real server, which takes seconds and other programs.
SERVED = {"Milvus HNSW": in_real_milvus(""), "Milvus IVF_SQ8": in_real_milvus("?type=IVF_SQ8&nlist=16")}
#: Recall@8 of the nominees, with all lists probed or the largest candidate list.
RECALL = {"IVF16,SQ8": 0.995, WHOLE: 0.995, "IVF16,PQ8np": 0.98, "HNSW32": 0.98}
RECALL |= {"toy Milvus": 0.999, "toy Milvus, rounded": 0.999, "Milvus HNSW": 0.98, "Milvus IVF_SQ8": 0.98}
ALL = {**EXACT, **APPROXIMATE, **SERVED}


def marked(names: Iterable[str]) -> list[Any]:
    """The names of indexes as parameters: those in a real server are tests of services."""
    return [pytest.param(name, marks=pytest.mark.services if name in SERVED else ()) for name in names]


every_name = pytest.mark.parametrize("name", marked(ALL))
every_index = pytest.mark.parametrize(
    "build", [pytest.param(ALL[found.values[0]], marks=found.marks) for found in marked(ALL)], ids=ALL.keys()
)
every_exact = pytest.mark.parametrize("build", EXACT.values(), ids=EXACT.keys())
#: Members that need no training, and so can hold a single entry.
UNTRAINED = [*EXACT, "HNSW32", "toy Milvus", "toy Milvus, rounded"]
untrained = pytest.mark.parametrize("build", [ALL[name] for name in UNTRAINED], ids=UNTRAINED)


def made_keys(count: int = ENTRIES, seed: int = 0) -> np.ndarray:
    """fp16 keys in a few clusters, as decoder states are."""
    generator = np.random.default_rng(seed)
    centre = generator.normal(scale=3.0, size=(12, COLUMNS))
    key = centre[generator.integers(0, 12, count)] + generator.normal(size=(count, COLUMNS))
    return key.astype(np.float16)


def made_queries(count: int = 20, seed: int = 1) -> Tensor:
    return torch.from_numpy(made_keys(count, seed).astype(np.float32)) * 0.9


def brute_force(query_BD: Tensor, key_ND: np.ndarray, k: int, allowed: np.ndarray | None = None) -> np.ndarray:
    """Entries of the k smallest squared distances, in float64; -1 fills up."""
    difference = key_ND.astype(np.float64)[None] - query_BD.numpy().astype(np.float64)[:, None]
    squared = (difference**2).sum(axis=-1)
    if allowed is not None:
        squared[:, ~allowed] = np.inf
    order = np.argsort(squared, axis=1, kind="stable")[:, :k]
    found = np.where(np.isinf(np.take_along_axis(squared, order, axis=1)), -1, order)
    return np.pad(found, ((0, 0), (0, k - found.shape[1])), constant_values=-1)


def some_mask(share: float, count: int = ENTRIES) -> Tensor:
    return torch.from_numpy(np.random.default_rng(5).random(count) < share)


def as_sets(entries: Tensor | np.ndarray) -> list[set[int]]:
    return [set(row) for row in entries.tolist()]


@every_exact
@pytest.mark.parametrize("share", [None, 0.5, 0.05])
@pytest.mark.parametrize("rows", [1, 20])
def test_exact_members_equal_brute_force(build: Callable[[np.ndarray], Index], share: float | None, rows: int) -> None:
    key, query = made_keys(), made_queries(rows)
    mask = None if share is None else some_mask(share)
    found = build(key).nominate(query, 8, mask)
    expected = brute_force(query, key, 8, None if mask is None else mask.numpy())
    assert found.shape == (rows, 8)
    assert as_sets(found) == as_sets(expected)


@every_exact
def test_exact_members_search_across_blocks(
    build: Callable[[np.ndarray], Index], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks smaller than k, and a last block that is not full."""
    monkeypatch.setattr("nearmt.index.exact.BLOCK", 6)
    monkeypatch.setattr("nearmt.engines.reference.exact_index.BLOCK", {"cpu": 6})
    monkeypatch.setattr("nearmt.index.faiss._BLOCK", 6)
    key, query, mask = made_keys(99), made_queries(), some_mask(0.3, 99)
    index = build(key)
    assert as_sets(index.nominate(query, 8, None)) == as_sets(brute_force(query, key, 8))
    assert as_sets(index.nominate(query, 8, mask)) == as_sets(brute_force(query, key, 8, mask.numpy()))


@pytest.mark.parametrize("name", marked([*APPROXIMATE, *SERVED]))
@pytest.mark.parametrize("share", [None, 0.5])
def test_approximate_members_have_recall(name: str, share: float | None) -> None:
    key, query = made_keys(), made_queries(100)
    mask = None if share is None else some_mask(share)
    found = ALL[name](key).nominate(query, 8, mask)
    expected = brute_force(query, key, 8, None if mask is None else mask.numpy())
    hits = sum(len(near & got) for near, got in zip(as_sets(expected), as_sets(found), strict=True))
    assert hits / expected.size >= RECALL[name]


@every_index
def test_an_entry_finds_itself(build: Callable[[np.ndarray], Index]) -> None:
    key = made_keys()
    entry = np.arange(0, ENTRIES, 13)
    found = build(key).nominate(torch.from_numpy(key[entry].astype(np.float32)), 8, None)
    assert [number in row for number, row in zip(entry.tolist(), as_sets(found), strict=True)] == [True] * len(entry)


@every_index
@pytest.mark.parametrize("share", [0.5, 0.02, 0.0])
def test_no_index_nominates_hidden_entries(build: Callable[[np.ndarray], Index], share: float) -> None:
    mask = some_mask(share)
    allowed = set(mask.nonzero().flatten().tolist())
    found = build(made_keys()).nominate(made_queries(), 8, mask)
    assert set(found.flatten().tolist()) <= allowed | {-1}
    if share == 0.5:
        assert (found >= 0).sum(dim=1).min() >= 8


@every_index
@pytest.mark.parametrize("rows", [1, 7])
def test_nominees_are_distinct_entries(build: Callable[[np.ndarray], Index], rows: int) -> None:
    found = build(made_keys()).nominate(made_queries(rows), 8, None)
    assert found.dtype == torch.long
    assert found.shape[0] == rows and found.shape[1] >= 8
    assert int(found.min()) >= 0 and int(found.max()) < ENTRIES
    assert all(len(set(row)) == len(row) for row in found.tolist())


@every_index
def test_fewer_allowed_than_wanted_is_padded(build: Callable[[np.ndarray], Index]) -> None:
    mask = torch.zeros(ENTRIES, dtype=torch.bool)
    mask[[3, 77, 500]] = True
    found = build(made_keys()).nominate(made_queries(), 8, mask)
    assert found.shape[1] >= 8
    assert set(found.flatten().tolist()) <= {-1, 3, 77, 500}
    assert int((found >= 0).sum(dim=1).max()) <= 3


@untrained
@pytest.mark.parametrize("entries", [1, 3])
def test_more_wanted_than_there_are(build: Callable[[np.ndarray], Index], entries: int) -> None:
    found = build(made_keys(entries)).nominate(made_queries(4), 10, None)
    assert found.shape == (4, 10)
    assert as_sets(found) == [{-1, *range(entries)}] * 4
    assert ((found >= 0).sum(dim=1) == entries).all()


@every_index
def test_k_beyond_the_store_still_lists_every_entry(build: Callable[[np.ndarray], Index]) -> None:
    """Exact members list all; approximate ones may miss some, but never more columns than asked, or doubles."""
    found = build(made_keys()).nominate(made_queries(2), ENTRIES + 50, None)
    assert found.shape == (2, ENTRIES + 50)
    for row in found.tolist():
        there = [entry for entry in row if entry >= 0]
        assert len(set(there)) == len(there) >= 0.95 * ENTRIES


@every_index
def test_a_batch_nominates_as_its_rows_alone(build: Callable[[np.ndarray], Index]) -> None:
    index, query = build(made_keys()), made_queries(6)
    together = as_sets(index.nominate(query, 8, None))
    alone = [as_sets(index.nominate(row[None], 8, None))[0] for row in query]
    # FAISS switches algorithms with the size of the batch; at the edge of k' one nominee may differ.
    assert all(len(a & b) >= 0.9 * len(a) for a, b in zip(together, alone, strict=True))


def equally_far(count: int) -> tuple[np.ndarray, Tensor]:
    """Keys that have all the same distance from queries: rounding alone tells them apart."""
    generator = np.random.default_rng(0)
    key = generator.permuted(np.tile(generator.normal(size=COLUMNS), (count, 1)), axis=1).astype(np.float16)
    return key, torch.linspace(-2, 2, 20)[:, None].expand(-1, COLUMNS).contiguous() / 3


@needs_kernels
@pytest.mark.parametrize("small", [10, 16_384])
def test_with_kernels_torch_rounds_a_query_alike_in_every_batch(small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few keys, which are held as the kernel reads them, and many, in blocks."""
    monkeypatch.setattr("nearmt.engines.reference.exact_index.SMALL", small)
    monkeypatch.setattr("nearmt.engines.reference.exact_index.BLOCK", {"cpu": 300})
    key, query = equally_far(1000)
    index = exact_index(torch.from_numpy(key))
    together = index.nominate(query, 8, None)
    for count in (1, 3, 7):
        for start in range(0, 20 - count, 3):
            rows = slice(start, start + count)
            assert torch.equal(index.nominate(query[rows], 8, None), together[rows])


@pytest.mark.parametrize("factory", ["Flat", "IVF16,SQ8", WHOLE, "IVF16,PQ8np", "HNSW32"])
def test_a_saved_index_is_the_same_index(factory: str, tmp_path: Path) -> None:
    index = FaissIndex.build(made_keys(), factory)
    index.effort = index.efforts[-1] if index.efforts else 0
    index.save(tmp_path / "index.faiss")
    again = FaissIndex.load(tmp_path / "index.faiss", index.describe(), COLUMNS, len(made_keys()))
    assert again.describe() == index.describe()
    assert torch.equal(again.nominate(made_queries(), 8, None), index.nominate(made_queries(), 8, None))


def test_a_file_that_is_no_index_is_named(tmp_path: Path) -> None:
    path = tmp_path / "index.faiss"
    path.write_bytes(b"not an index")
    with pytest.raises(DatastoreError, match=r"index\.faiss: not a readable index"):
        FaissIndex.load(path, {"factory": "Flat", "effort": 0}, COLUMNS, 1)


def test_the_default_depends_on_the_size() -> None:
    assert default_factory(0) == default_factory(SMALL - 1) == "exact"
    # 4 * sqrt(N) lists, rounded to a power of two
    assert default_factory(SMALL) == "IVF512,SQ8_direct_signed"
    assert default_factory(1_000_000) == "IVF4096,SQ8_direct_signed"
    assert default_factory(17_000_000) == "IVF16384,SQ8_direct_signed"


@pytest.mark.parametrize("factory", ["nonsense", "", "IVF16,PQ7", "IVFx,Flat"])
def test_a_bad_factory_string_is_a_config_error(factory: str) -> None:
    with pytest.raises(ConfigError) as caught:
        FaissIndex.build(made_keys(), factory)
    assert f"index = {factory!r}" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("factory", ["IVF1000,Flat", "IVF16,PQ8"])
def test_too_few_entries_to_train_is_a_config_error(factory: str) -> None:
    with pytest.raises(ConfigError, match="100 entries are too few to train it") as caught:
        FaissIndex.build(made_keys(100), factory)
    assert factory in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("factory", ["OPQ8_16,IVF16,PQ8np", "PQ8np", "LSH", "IVF16,SQ8,RFlat", "NSG16"])
def test_an_index_that_cannot_be_searched_with_a_mask_is_refused_or_works(factory: str) -> None:
    """Whatever FAISS can make but not search as we need must be a ConfigError when it is built."""
    try:
        index = FaissIndex.build(made_keys(), factory)
    except ConfigError:
        return
    mask = some_mask(0.5)
    found = index.nominate(made_queries(), 8, mask)
    assert set(found.flatten().tolist()) <= {-1, *mask.nonzero().flatten().tolist()}


def test_nothing_is_trained_that_no_search_uses() -> None:
    """FAISS anneals every sub-quantiser of a PQ for polysemous search (2.5 s each), which nearmt does not use."""
    index = FaissIndex.build(made_keys(), "IVF16,PQ2x4")
    assert not _inner(index._index).do_polysemous_training


def test_missing_faiss_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingPackageError, match="pip install faiss-cpu"):
        FaissIndex.build(made_keys(10), "Flat")


# Through the store's search, over one segment and over several.


def made_entries(key_ND: np.ndarray, segments: int, folder: Path) -> tuple[EntryTable, list[Segment]]:
    """Segments of unequal size with the given keys, in order."""
    weights = np.arange(1, segments + 1) / np.arange(1, segments + 1).sum()
    cuts = [0, *(np.cumsum(weights) * len(key_ND)).astype(int).tolist()]
    found = []
    for number, (start, end) in enumerate(pairwise(cuts)):
        writer = SegmentWriter(folder / f"segment-{number:06d}", {})
        keys = [key_ND[place : min(place + SENTENCE, end)] for place in range(start, end, SENTENCE)]
        pairs = [Pair(f"s{place}", f"t{place}") for place in range(len(keys))]
        writer.append(pairs, keys, [list(range(len(key))) for key in keys], [[1]] * len(keys), 0)
        found.append(Segment(folder / f"segment-{number:06d}", writer.seal(), COLUMNS))
    return open_entries(found, torch.device("cpu")), found


def made_searcher(name: str, segments: int, folder: Path, count: int = 1600) -> tuple[Searcher, np.ndarray]:
    key = made_keys(count)
    entries, parts = made_entries(key, segments, folder)
    return Searcher(entries, [ALL[name](np.asarray(part.key_ND)) for part in parts], COLUMNS), key


def squared_distances(query_BD: Tensor, key_ND: np.ndarray, entry_BK: Tensor) -> np.ndarray:
    difference = key_ND.astype(np.float64)[entry_BK.numpy()] - query_BD.numpy().astype(np.float64)[:, None]
    return np.asarray((difference**2).sum(axis=-1))


@every_name
@pytest.mark.parametrize("segments", [1, 3])
def test_search_returns_k_live_entries_with_stored_distances(name: str, segments: int, tmp_path: Path) -> None:
    searcher, key = made_searcher(name, segments, tmp_path)
    query = made_queries(30)
    for share in (None, 0.5):
        mask = None if share is None else some_mask(share, len(key))
        found = searcher.search(query, 8, mask)
        assert found.entry_BK.shape == found.distance_BK.shape == (30, 8)
        assert int(found.entry_BK.min()) >= 0
        assert all(len(set(row)) == 8 for row in found.entry_BK.tolist())
        if mask is not None:
            assert bool(mask[found.entry_BK].all())
        np.testing.assert_allclose(found.distance_BK, squared_distances(query, key, found.entry_BK), rtol=1e-3)
        assert bool((found.distance_BK.diff(dim=1) >= 0).all())
        expected = brute_force(query, key, 8, None if mask is None else mask.numpy())
        if name in EXACT:
            np.testing.assert_array_equal(found.entry_BK, expected)
        else:
            hits = sum(len(a & b) for a, b in zip(as_sets(expected), as_sets(found.entry_BK), strict=True))
            assert hits / expected.size >= RECALL[name]


@every_name
@pytest.mark.parametrize("segments", [1, 3])
@pytest.mark.parametrize("places", [[5], [0, 900, 1599], list(range(600, 607)), list(range(0, 1600, 150))])
def test_search_finds_every_one_of_a_handful(name: str, segments: int, places: list[int], tmp_path: Path) -> None:
    """Few allowed entries, far from the query, at the lowest effort: they are returned all the same."""
    searcher, key = made_searcher(name, segments, tmp_path)
    for index in searcher.indexes:
        if isinstance(index, FaissIndex | MilvusIndex) and index.efforts:
            index.effort = 1
    mask = torch.zeros(len(key), dtype=torch.bool)
    mask[places] = True
    query = made_queries(10)
    found = searcher.search(query, 8, mask)
    there = min(8, len(places))
    assert ((found.entry_BK >= 0).sum(dim=1) == there).all()
    assert bool(torch.isinf(found.distance_BK[:, there:]).all()) and bool((found.entry_BK[:, there:] == -1).all())
    assert bool(torch.isfinite(found.distance_BK[:, :there]).all())
    if len(places) <= 8 or name in EXACT:
        np.testing.assert_array_equal(found.entry_BK, brute_force(query, key, 8, mask.numpy()))


def test_search_without_an_allowed_entry_finds_none(tmp_path: Path) -> None:
    searcher, key = made_searcher("IVF16,SQ8", 3, tmp_path)
    found = searcher.search(made_queries(3), 4, torch.zeros(len(key), dtype=torch.bool))
    assert bool((found.entry_BK == -1).all()) and bool(torch.isinf(found.distance_BK).all())


def test_search_of_nothing_finds_nothing() -> None:
    searcher = Searcher(open_entries([], torch.device("cpu")), [], COLUMNS)
    found = searcher.search(made_queries(3), 4)
    assert found.entry_BK.tolist() == [[-1] * 4] * 3
    assert bool(torch.isinf(found.distance_BK).all())


@pytest.mark.parametrize("name", ["exact", "torch", "Flat", "HNSW32"])
@pytest.mark.parametrize("entries", [1, 5])
def test_search_wanting_more_than_there_is(name: str, entries: int, tmp_path: Path) -> None:
    searcher, key = made_searcher(name, 1, tmp_path, entries)
    query = made_queries(3)
    found = searcher.search(query, 12)
    np.testing.assert_array_equal(found.entry_BK, brute_force(query, key, 12))


@pytest.mark.parametrize("name", ["exact", "torch", "Flat"])
def test_equal_distances_stand_in_corpus_order(name: str, tmp_path: Path) -> None:
    """A repeated sentence: whatever the index and the segments, the earlier entry comes first."""
    key = np.repeat(made_keys(30), 4, axis=0)
    query = torch.from_numpy(key[::40].astype(np.float32))
    for segments in (1, 3):
        entries, parts = made_entries(key, segments, tmp_path / str(segments))
        found = Searcher(entries, [ALL[name](np.asarray(part.key_ND)) for part in parts], COLUMNS).search(query, 4)
        assert found.entry_BK.tolist() == [list(range(start, start + 4)) for start in range(0, 120, 40)]
        assert found.distance_BK.abs().max() == 0


def test_search_skips_a_segment_without_entries(tmp_path: Path) -> None:
    key = made_keys(40)
    _, parts = made_entries(key, 1, tmp_path)
    empty = Segment(tmp_path / "empty", SegmentWriter(tmp_path / "empty", {}).seal(), COLUMNS)
    entries = open_entries([empty, parts[0], empty], torch.device("cpu"))
    indexes: list[Index] = [ExactIndex(np.asarray(part.key_ND)) for part in (empty, parts[0], empty)]
    query = made_queries(5)
    found = Searcher(entries, indexes, COLUMNS).search(query, 6)
    np.testing.assert_array_equal(found.entry_BK, brute_force(query, key, 6))
