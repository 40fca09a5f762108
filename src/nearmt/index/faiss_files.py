"""The files that FAISS writes, read without FAISS: sizes, numbers and kinds are checked before it gets to see them.

FAISS believes what a file says: sizes that do not fit, entries that do not exist and links of a graph that lead
nowhere end the program. Only the kinds that nearmt writes are let through: Flat, SQ, IVF and HNSW over Flat, SQ, PQ.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nearmt.errors import DatastoreError
from nearmt.index.faiss_graphs import Graph
from nearmt.opening import opened

#: By FAISS's number of a scalar code: bits a column, and trained numbers (a column, or in all).
_SCALAR = {
    0: (8, 2, 0), 1: (4, 2, 0), 2: (8, 0, 2), 3: (4, 0, 2), 4: (16, 0, 0), 5: (8, 0, 0), 6: (6, 2, 0), 7: (16, 0, 0),
    8: (8, 0, 0),
}  # fmt: skip
#: More bits a code make tables that are out of proportion to the file.
MOST_BITS = 12
#: The table of a graph's codes has the square of their number.
MOST_BITS_IN_GRAPH = 8
_MOST_CANDIDATES = 1 << 16
_MOST_COLUMNS = 1 << 16
_L2 = 1
_STORED = ("IxF2", "IxSQ", "IxPq")
_IVF = ("IwFl", "IwSq", "IwPQ")
#: A graph, and the kind of what it links.
_GRAPHS = {"IHNf": "IxF2", "IHNs": "IxSQ", "IHNp": "IxPq"}


@dataclass(frozen=True)
class Layout:
    """What an index is, as far as its use depends on it."""

    kind: str
    columns: int
    entries: int
    #: Cells, and centres that the file holds for them.
    lists: int = 0
    centres: int = 0

    @property
    def is_graph(self) -> bool:
        return self.kind in _GRAPHS


def check_index(path: Path, columns: int, entries: int, centres: int | None = None) -> Layout:
    """Refuse a file that is no index of `entries` entries; `centres`: the number of centres in another file, if any."""
    found = read_layout(path)
    if (found.columns, found.entries) != (columns, entries):
        raise unreadable(path, f"{found.entries} entries of {found.columns} columns instead of {entries} of {columns}")
    if centres is None and found.lists != found.centres:
        raise unreadable(path, f"{found.lists} cells and {found.centres} centres")
    if centres is not None and (found.lists, found.centres) != (centres, 0):
        raise unreadable(path, "it does not fit the quantiser of the store")
    return found


def read_layout(path: Path) -> Layout:
    """Refuse a file that is no index that nearmt writes."""
    try:
        with opened(path) as file:
            reader = _Reader(np.asarray(np.memmap(file, dtype=np.uint8, mode="r")))
        found = _index(reader, (*_STORED, *_GRAPHS, *_IVF))
        if reader.left:
            raise ValueError(f"{reader.left} bytes behind its end")
    except (ValueError, OSError) as error:  # an empty file cannot be mapped
        raise unreadable(path, str(error)) from error
    return found


def unreadable(path: Path, reason: str) -> DatastoreError:
    return DatastoreError(f"{path}: not a readable index ({reason}); run `nearmt reindex`")


class _Reader:
    """Takes one value after the other; none from behind the end."""

    def __init__(self, data: np.ndarray) -> None:
        self._data, self._place = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._place

    def raw(self, count: int, dtype: str) -> np.ndarray:
        size = count * np.dtype(dtype).itemsize
        if size > self.left:
            raise ValueError("it is cut short")
        found: np.ndarray = self._data[self._place : self._place + size].view(dtype)
        self._place += size
        return found

    def take(self, layout: str) -> tuple[Any, ...]:
        return struct.unpack("<" + layout, self.raw(struct.calcsize("<" + layout), "u1").tobytes())

    def vector(self, dtype: str, unit: int = 1) -> np.ndarray:
        """A vector, whose length comes first, in multiples of `unit`."""
        (count,) = self.take("Q")
        return self.raw(count * unit, dtype)

    def entries(self, counts: list[int], size: int, of_numbers: bool) -> np.ndarray:
        """The entries of all clusters, of which each has `counts` codes of `size` bytes and as many entries."""
        found = [self._data[:0]]
        for count in counts:
            code_X = self.raw(count * size, "u1")
            _expect(not of_numbers or bool(np.isfinite(code_X.view("<f4")).all()), "vectors are no numbers")
            found.append(self.raw(8 * count, "u1"))
        return np.concatenate(found).view("<i8")

    def floats(self, expected: int, what: str) -> None:
        """Read floats, and refuse another number than `expected` or any that is not finite."""
        value_X = self.vector("<f4")
        _expect(len(value_X) == expected, f"{len(value_X)} instead of {expected} numbers of {what}")
        _expect(bool(np.isfinite(value_X).all()), f"{what} are no numbers")


def _expect(right: bool, otherwise: str) -> None:
    if not right:
        raise ValueError(otherwise)


def _index(reader: _Reader, kinds: Iterable[str]) -> Layout:
    """An index of one of these kinds."""
    kind = reader.raw(4, "u1").tobytes().decode("latin-1")
    _expect(kind in kinds, f"its kind is {kind!a}")
    if kind in _IVF:
        return _inverted(reader, kind)
    if kind in _GRAPHS:
        return _graph(reader, kind)
    return _stored(reader, kind)


def _header(reader: _Reader) -> tuple[int, int]:
    """Columns and entries."""
    columns, entries, _, _, trained, metric = reader.take("iqqqBi")
    _expect(0 < columns <= _MOST_COLUMNS, f"{columns} columns")
    _expect(entries >= 0, f"{entries} entries")
    _expect((trained, metric) == (1, _L2), "not trained for L2 distances")
    return columns, entries


def _stored(reader: _Reader, kind: str) -> Layout:
    """All vectors or codes, one behind the other."""
    columns, entries = _header(reader)
    if kind == "IxF2":
        reader.floats(entries * columns, "vectors")
    elif kind == "IxSQ":
        size = _scalar_code(reader, columns)
        _expect(len(reader.vector("u1")) == entries * size, f"codes that are not of {entries} entries")
    else:
        size = _product_code(reader, columns, MOST_BITS_IN_GRAPH)
        _expect(len(reader.vector("u1")) == entries * size, f"codes that are not of {entries} entries")
        search, signs, _ = reader.take("iBi")
        _expect((search, signs) == (0, 0), "another search than by distances")
    return Layout(kind, columns, entries)


def _scalar_code(reader: _Reader, columns: int) -> int:
    """Bytes of a code."""
    code, statistic, _, code_columns, size = reader.take("iifQQ")
    _expect(code in _SCALAR and 0 <= statistic <= 3 and code_columns == columns, f"scalar code {code}")
    bits, each, all_in_all = _SCALAR[code]
    _expect(size == (columns * bits + 7) // 8, f"codes of {size} bytes")
    reader.floats(columns * each + all_in_all, "a scalar code")
    return int(size)


def _product_code(reader: _Reader, columns: int, most_bits: int) -> int:
    """Bytes of a code."""
    code_columns, parts, bits = reader.take("QQQ")
    _expect(code_columns == columns and 0 < parts <= columns and columns % parts == 0, f"codes of {parts} parts")
    _expect(0 < bits <= most_bits, f"codes of {bits} bits")
    reader.floats(columns << bits, "a product code")
    return int(parts * bits + 7) // 8


def _inverted(reader: _Reader, kind: str) -> Layout:
    """Codes by cell."""
    columns, entries = _header(reader)
    lists, _ = reader.take("QQ")
    coarse = _index(reader, ("IxF2", "IHNf"))
    _expect(coarse.columns == columns, f"centres of {coarse.columns} columns")
    direct = reader.take("B")[0], len(reader.vector("<i8"))
    _expect(direct == (0, 0), "a map of entries")
    if kind == "IwFl":
        size = 4 * columns
    elif kind == "IwSq":
        size = _scalar_code(reader, columns)
        written, residual = reader.take("QB")
        _expect(written == size and residual in (0, 1), f"codes of {written} bytes")
    else:
        residual, written = reader.take("BQ")
        size = _product_code(reader, columns, MOST_BITS)
        _expect(written == size and residual in (0, 1), f"codes of {written} bytes")
    _check_lists(reader, lists, size, entries, kind == "IwFl")
    return Layout(kind, columns, entries, int(lists), coarse.entries)


def _check_lists(reader: _Reader, lists: int, size: int, entries: int, of_numbers: bool) -> None:
    """Every entry is in one cell, once."""
    kind, *sizes, form = reader.take("4sQQ4s")
    _expect(kind == b"ilar" and form in (b"full", b"sprs") and lists > 0, "its cells are stored in another way")
    _expect(sizes == [lists, size], f"cells of {sizes[0]} x {sizes[1]} bytes instead of {lists} x {size}")
    count_L = reader.vector("<u8")
    if form == b"sprs":
        _expect(len(count_L) % 2 == 0, "sizes of cells that are cut short")
        cell_L, count_L = count_L[::2], count_L[1::2]
        _expect(bool((cell_L < lists).all() and (cell_L[1:] > cell_L[:-1]).all()), "cells that do not exist")
    else:
        _expect(len(count_L) == lists, f"sizes of {len(count_L)} cells instead of {lists}")
    _expect(bool((count_L <= entries).all()), f"cells not of {entries} entries")
    entry_N = reader.entries(count_L.tolist(), size, of_numbers)
    _expect(len(entry_N) == entries, f"cells not of {entries} entries")
    _expect(bool((entry_N >= 0).all() and (entry_N < entries).all()), "entries that do not exist")
    _expect(bool((np.bincount(entry_N, minlength=entries) == 1).all()), "entries that are missing")


def _graph(reader: _Reader, kind: str) -> Layout:
    """Links between vectors or codes."""
    columns, entries = _header(reader)
    reader.vector("<f8")  # only for adding to it
    bound_L, level_N, offset_N = reader.vector("<i4"), reader.vector("<i4"), reader.vector("<u8")
    link_X = reader.vector("<i4")
    entry, highest, adding, searching, _ = reader.take("iiiii")
    _expect(all(0 < count <= _MOST_CANDIDATES for count in (adding, searching)), f"{searching} candidates")
    _expect(len(level_N) == entries and len(offset_N) == entries + 1, f"links that are not of {entries} entries")
    Graph(bound_L, level_N, offset_N, link_X, entry, highest).check()
    stored = _index(reader, [_GRAPHS[kind]])
    _expect(stored == Layout(_GRAPHS[kind], columns, entries), "links between other vectors")
    return Layout(kind, columns, entries)
