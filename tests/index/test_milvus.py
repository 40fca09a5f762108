"""An index on a server: addresses, one call for all segments, hidden rows, faults and deadlines."""

from __future__ import annotations

import builtins
import time
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from nearmt.engines.base import Index
from nearmt.errors import ConfigError, IndexServerError, MissingPackageError
from nearmt.index import SubsetIndex, nominate_together
from nearmt.index.milvus import Collection, MilvusIndex, RemoteUse
from nearmt.index.milvus_client import MilvusServer
from nearmt.index.vector_server import Address
from tests.index.test_contract import COLUMNS, as_sets, brute_force, made_keys, made_queries, some_mask
from tests.index.toy_milvus import ToyMilvus
from tools.milvus_server import free_port

TOY = Address.parse("milvus://toy")


def made_collection(toy: ToyMilvus, timeout: float = 1.0, *, optional: bool = False) -> Collection:
    collection = Collection(TOY, "keys", RemoteUse(timeout, optional))
    collection.prepare(COLUMNS)
    return collection


def add(collection: Collection, key_ND: np.ndarray, memory: int = 1) -> MilvusIndex:
    index = MilvusIndex(collection, collection.new_part(), len(key_ND))
    collection.insert(memory, index.part, key_ND)
    return index


# Addresses.


def test_an_address_is_written_as_it_is_read() -> None:
    short = Address.parse("milvus://search.example")
    assert (short.host, short.port, short.database, short.kind) == ("search.example", 19530, "default", "HNSW")
    long = Address.parse("milvus://[::1]:7000/company?type=ivf_sq8&nlist=64")
    assert (long.host, long.port, long.database, long.kind) == ("::1", 7000, "company", "IVF_SQ8")
    assert long.parameters == (("nlist", 64),) and long.is_local and not short.is_local
    for address in (short, long):
        assert Address.parse(str(address)) == address


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("milvus://", "not the address"),
        ("milvus:/host", "not the address"),
        ("milvus://host:99999", "[Pp]ort"),
        ("milvus://host/a/b", "no name of a database"),
        ("milvus://host?type=FLAT", "type is 'FLAT'"),
        ("milvus://host?nlist=3", "HNSW has no parameter 'nlist'"),
        ("milvus://host?M=1000", "M must be a whole number between 4 and 64"),
        ("milvus://host?M=", "M must be"),
        ("milvus://user:secret@host", "NEARMT_MILVUS_TOKEN"),
    ],
)
def test_what_is_no_address_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        Address.parse(text)
    assert "\n" not in str(caught.value) and "secret" not in str(caught.value)


# Searching.


def test_all_segments_are_searched_by_one_call(toy: ToyMilvus) -> None:
    collection, key = made_collection(toy), made_keys(300)
    cuts = [0, 50, 170, 300]
    indexes = [add(collection, key[start:end]) for start, end in pairwise(cuts)]
    add(collection, key[::-1], memory=2)
    found = nominate_together(indexes, cuts, made_queries(20), 8, None)
    np.testing.assert_array_equal(found, brute_force(made_queries(20), key, 8))
    assert toy.searched == [(f"part in {sorted(index.part for index in indexes)}", 20)]


def test_pruned_segments_are_searched_by_the_same_call(toy: ToyMilvus) -> None:
    collection, key = made_collection(toy), made_keys(200)
    kept = np.flatnonzero(np.arange(100) % 3 == 0)
    indexes: list[Index] = [SubsetIndex(add(collection, key[kept]), torch.from_numpy(kept)), add(collection, key[100:])]
    seen, mask = np.ones(200, dtype=bool), some_mask(0.5, 200)
    seen[:100] = np.arange(100) % 3 == 0
    found = nominate_together(indexes, [0, 100, 200], made_queries(20), 8, None)
    np.testing.assert_array_equal(found, brute_force(made_queries(20), key, 8, seen))
    masked = nominate_together(indexes, [0, 100, 200], made_queries(20), 8, mask)
    expected = brute_force(made_queries(20), key, 8, seen & mask.numpy())
    assert all(near <= got for near, got in zip(as_sets(expected), as_sets(masked), strict=True))
    assert set(masked.flatten().tolist()) <= {-1, *np.flatnonzero(seen & mask.numpy()).tolist()}


def test_hidden_rows_are_made_up_for_by_asking_for_more(toy: ToyMilvus) -> None:
    index, key = add(made_collection(toy), made_keys(2000)), made_keys(2000)
    mask = some_mask(0.02, 2000)
    found = index.nominate(made_queries(5), 8, mask)
    expected = brute_force(made_queries(5), key, 8, mask.numpy())
    assert all(near <= got for near, got in zip(as_sets(expected), as_sets(found), strict=True))
    assert 1 < len(toy.searched) <= 5 and toy.searched[0][1] == 5


def test_numbers_that_no_entry_has_are_not_believed(toy: ToyMilvus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels would read whatever is at their place."""
    index = add(made_collection(toy), made_keys(30))
    first = index.part << 32
    wrong = np.array([[first + 3, first + 30, first + (1 << 31), (index.part + 1) << 32, -5, (1 << 63) - 1, 7, -1]])
    monkeypatch.setattr(toy, "search", lambda *_: wrong)
    assert index.nominate(made_queries(1), 8, None).tolist() == [[3, -1, -1, -1, -1, -1, -1, -1]]


# Faults.


def test_what_is_down_is_not_asked_again_and_again(toy: ToyMilvus, monkeypatch: pytest.MonkeyPatch) -> None:
    index = add(made_collection(toy), made_keys(30))
    monkeypatch.setattr("nearmt.index.milvus._PAUSE", 60.0)
    index.nominate(made_queries(1), 4, None)
    toy.is_down = True
    for _ in range(5):
        with pytest.raises(IndexServerError, match="no answer"):
            index.nominate(made_queries(1), 4, None)
    assert toy.calls.count("search") == 1  # before; now the connection fails, once
    assert toy.calls.count("connect") < 8


def test_after_a_failure_all_rows_are_counted_again(toy: ToyMilvus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearmt.index.milvus._PAUSE", 0.0)
    index = add(made_collection(toy), made_keys(30))
    index.nominate(made_queries(1), 4, None)
    index.nominate(made_queries(1), 4, None)
    before = toy.calls.count("count")
    toy.is_down = True
    with pytest.raises(IndexServerError):
        index.nominate(made_queries(1), 4, None)
    toy.is_down = False
    index.nominate(made_queries(1), 4, None)
    assert toy.calls.count("count") == before + 1


@pytest.mark.parametrize("lost", ["some rows", "all rows", "the collection"])
def test_a_lost_collection_is_named_with_what_to_do(toy: ToyMilvus, monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    index = add(made_collection(toy, 0.05), made_keys(30))
    if lost == "the collection":
        toy.collections.clear()
    else:
        rows = toy.collections["keys"]
        kept = 29 if lost == "some rows" else 0
        rows.number_N, rows.part_N, rows.memory_N = rows.number_N[:kept], rows.part_N[:kept], rows.memory_N[:kept]
        rows.key_ND = rows.key_ND[:kept]
    with pytest.raises(IndexServerError, match="nearmt reindex DIR") as caught:
        index.nominate(made_queries(1), 4, None)
    assert caught.value.lost


def test_rows_that_are_found_late_and_collections_that_load_are_waited_for(toy: ToyMilvus) -> None:
    index = add(made_collection(toy, 5.0), made_keys(30))
    toy.late, toy.loading = 3, 3
    assert as_sets(index.nominate(made_queries(1), 4, None)) == as_sets(brute_force(made_queries(1), made_keys(30), 4))
    assert toy.calls.count("load") == 3


def test_a_collection_that_never_loads_is_an_error_in_time(toy: ToyMilvus) -> None:
    index = add(made_collection(toy, 0.1), made_keys(30))
    toy.loading = 1 << 30
    with pytest.raises(IndexServerError, match="not loaded"):
        index.nominate(made_queries(1), 4, None)


# Building.


def test_another_index_in_the_same_collection_is_refused(toy: ToyMilvus) -> None:
    made_collection(toy)
    other = Collection(Address.parse("milvus://toy?M=32"), "keys")
    with pytest.raises(ConfigError, match="has type=HNSW&M=16&efConstruction=128; give the same, or another database"):
        other.prepare(COLUMNS)


def test_an_index_that_gets_on_has_all_the_time(toy: ToyMilvus) -> None:
    """The deadline is that of the next sign of progress."""
    collection, told = made_collection(toy, 0.1), list[str]()
    index, toy.pace = add(collection, made_keys(300)), 1
    collection.settle({index.part: 300}, told.append)
    assert len(told) >= 200 and "indexed 1 of 300 keys" in told[0]


def test_building_waits_until_searches_use_the_index(toy: ToyMilvus) -> None:
    collection, told = made_collection(toy), list[str]()
    index, toy.handing_over = add(collection, made_keys(30)), [30, 30, 10]
    toy.calls.clear()
    collection.settle({index.part: index.rows}, told.append)
    assert toy.calls.count("unindexed") == 4
    assert told[-2:] == ["Milvus loads the index of 30 keys", "Milvus loads the index of 10 keys"]


def test_a_server_that_loads_no_index_is_not_waited_for_long(toy: ToyMilvus, monkeypatch: pytest.MonkeyPatch) -> None:
    collection = made_collection(toy)
    index = add(collection, made_keys(30))
    monkeypatch.setattr("nearmt.index.milvus._HANDING_OVER", 0.05)
    toy.handing_over = [30] * 10_000
    collection.settle({index.part: index.rows})
    assert toy.handing_over
    toy.handing_over, toy.is_down, toy.down_for = [30], True, frozenset({"unindexed"})
    collection.settle({index.part: index.rows})  # a server that does not tell


def test_an_index_that_does_not_get_on_is_an_error(toy: ToyMilvus) -> None:
    collection = made_collection(toy, 0.05)
    index, toy.pace = add(collection, made_keys(30)), 0
    with pytest.raises(IndexServerError, match=r"no progress for 0\.05 s"):
        collection.settle({index.part: 30})


def test_only_what_a_memory_names_is_kept(toy: ToyMilvus) -> None:
    collection = made_collection(toy)
    old, new, other = (add(collection, made_keys(20), memory) for memory in (1, 1, 2))
    collection.keep_only(1, [new.part])
    assert sorted(set(toy.collections["keys"].part_N.tolist())) == sorted([new.part, other.part])
    collection.keep_only(1, [])
    assert set(toy.collections["keys"].part_N.tolist()) == {other.part} != {old.part}


# The client.


def test_without_pymilvus_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *others: Any) -> Any:
        if name.partition(".")[0] == "pymilvus":
            raise ImportError(name)
        return real(name, *others)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingPackageError, match=r"pip install 'nearmt\[milvus\]'"):
        MilvusServer(TOY).connect(1.0)


@pytest.mark.services
def test_nobody_there_is_an_error_of_one_line_in_time() -> None:
    server, start = MilvusServer(Address.parse(f"milvus://127.0.0.1:{free_port()}")), time.monotonic()
    with pytest.raises(IndexServerError, match=r"no answer within 0\.5 s .*index-fallback=model") as caught:
        server.connect(0.5)
    assert "\n" not in str(caught.value)
    assert time.monotonic() - start < 60  # a hang, not a measurement
