"""Files of indexes are refused before FAISS reads them, or are what they say."""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random

import numpy as np
import pytest

from nearmt.errors import ConfigError, DatastoreError
from nearmt.index.faiss import FaissIndex, import_faiss, make_index
from nearmt.index.faiss_files import check_index, read_layout
from nearmt.index.faiss_graphs import Graph
from tests.index.test_contract import COLUMNS, made_keys

ENTRIES = 300
KINDS = {
    "Flat": "IxF2", "SQ8": "IxSQ", "SQfp16": "IxSQ", "IVF8,Flat": "IwFl", "IVF8,SQ8": "IwSq", "IVF8,SQ4": "IwSq",
    "IVF8,SQ6": "IwSq", "IVF8,SQ8_direct_signed": "IwSq", "IVF8,PQ4x4np": "IwPQ", "HNSW4": "IHNf", "HNSW4,SQ8": "IHNs",
    "IVF8_HNSW4,Flat": "IwFl",
}  # fmt: skip


def saved(factory: str, path: Path) -> bytes:
    FaissIndex.build(made_keys(ENTRIES), factory).save(path)
    return path.read_bytes()


@pytest.mark.parametrize("factory", KINDS)
def test_what_nearmt_writes_is_known(factory: str, tmp_path: Path) -> None:
    path = tmp_path / "index.faiss"
    data = saved(factory, path)
    layout = check_index(path, COLUMNS, ENTRIES)
    assert layout.kind == KINDS[factory] and layout.lists == layout.centres == (8 if "IVF" in factory else 0)
    for columns, entries in ((COLUMNS + 1, ENTRIES), (COLUMNS, ENTRIES - 1)):
        with pytest.raises(DatastoreError, match=r"not a readable index \(.* instead of"):
            check_index(path, columns, entries)
    with pytest.raises(DatastoreError, match="run `nearmt reindex`"):
        check_index(path, COLUMNS, ENTRIES, centres=4)
    for other in (data[:-1], data[: len(data) // 2], data[:3], b"", data + b"\0"):
        path.write_bytes(other)
        with pytest.raises(DatastoreError, match="not a readable index"):
            read_layout(path)


@pytest.mark.parametrize("factory", KINDS)
def test_altered_bytes_are_refused_or_read(factory: str, tmp_path: Path) -> None:
    """Whatever sizes and numbers say, they are compared with the file: nothing is allocated, no other error raised."""
    path, random = tmp_path / "index.faiss", Random(factory)
    data = saved(factory, path)
    refused = 0
    for _ in range(150):
        altered = bytearray(data)
        offset = random.randrange(min(len(data), 300) if random.random() < 0.7 else len(data) - 8)
        value = random.choice([-1, 0, 1, 2**31, 2**62, 2**63 - 1, random.getrandbits(60)])
        struct.pack_into("<q", altered, offset, value)
        path.write_bytes(altered)
        try:
            check_index(path, COLUMNS, ENTRIES)
        except DatastoreError:
            refused += 1
    assert refused > 20


def test_entries_of_cells_are_those_that_exist(tmp_path: Path) -> None:
    path = tmp_path / "index.faiss"
    data = saved("IVF8,SQ8", path)
    for value in (-1, ENTRIES, 0):
        altered = bytearray(data)
        # The last entry of the last cell stands last.
        assert 0 <= struct.unpack("<q", altered[-8:])[0] < ENTRIES
        altered[-8:] = struct.pack("<q", value)
        path.write_bytes(altered)
        with pytest.raises(DatastoreError, match=r"entries that (do not exist|are missing)"):
            read_layout(path)


@pytest.mark.parametrize("factory", ["IVF4,PQ4x4fs", "IMI2x2,Flat", "LSH", "IVF4,SQ8,RFlat", "IDMap,Flat"])
def test_other_kinds_are_neither_made_nor_read(factory: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot check such a file; use Flat, IVF"):
        make_index(factory, COLUMNS)
    faiss = import_faiss()
    faiss.write_index(faiss.index_factory(COLUMNS, factory), str(tmp_path / "index.faiss"))
    with pytest.raises(DatastoreError, match=r"not a readable index"):
        read_layout(tmp_path / "index.faiss")


def test_an_index_is_searched_as_it_is_described(tmp_path: Path) -> None:
    path = tmp_path / "index.faiss"
    for factory, described, effort in (("Flat", "HNSW4", 0), ("HNSW4", "Flat", 0), ("IVF8,SQ8", "IVF8,SQ8", 0)):
        saved(factory, path)
        with pytest.raises(DatastoreError, match=r"it is described as|its effort is 0"):
            FaissIndex.load(path, {"factory": described, "effort": effort}, COLUMNS, ENTRIES)


#: Two levels: entry 1 is on both, entries 0 and 2 on the lower one; two links on the lower level, one above.
GRAPH = Graph(
    bound_L=np.array([0, 2, 3], dtype=np.int32),
    level_N=np.array([1, 2, 1], dtype=np.int32),
    offset_N=np.array([0, 2, 5, 7], dtype=np.uint64),
    link_X=np.array([1, 2, 0, 2, -1, 1, -1], dtype=np.int32),
    entry=1,
    highest=1,
)


@pytest.mark.parametrize(
    ("name", "index", "value"),
    [
        ("link_X", 0, 3), ("link_X", 0, -2), ("link_X", 4, 0), ("level_N", 0, 0), ("level_N", 0, 3), ("offset_N", 1, 3),
        ("offset_N", 3, 8), ("bound_L", 0, 1), ("bound_L", 2, 1),
    ],
)  # fmt: skip
def test_links_lead_to_entries_of_their_level(name: str, index: int, value: int) -> None:
    GRAPH.check()
    numbers = getattr(GRAPH, name).copy()
    numbers[index] = value
    with pytest.raises(ValueError, match=r"links|levels"):
        GRAPH._replace(**{name: numbers}).check()


@pytest.mark.parametrize(("entry", "highest"), [(0, 1), (3, 1), (-1, -1), (1, 0)])
def test_a_search_begins_on_the_highest_level(entry: int, highest: int) -> None:
    with pytest.raises(ValueError, match="first entry"):
        GRAPH._replace(entry=entry, highest=highest).check()
