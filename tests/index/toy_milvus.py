"""A vector server in this process: rows in numpy arrays, compared one by one; it can fail as real ones do."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field

import numpy as np

from nearmt.errors import IndexServerError
from nearmt.index.vector_server import Address, Progress

ADDRESS = "milvus://toy"


@dataclass
class Rows:
    """A collection."""

    address: Address
    columns: int
    number_N: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    memory_N: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    part_N: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    key_ND: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.float32))

    def chosen(self, filter: str) -> np.ndarray:
        """Which rows a filter of ours lets through."""
        seen_N = np.ones(len(self.number_N), dtype=bool)
        for part in filter.split(" and "):
            name, operator, value = re.fullmatch(r"(\w+) (==|in|not in) (.+)", part).groups()  # type: ignore[union-attr]
            values = [int(number) for number in re.findall(r"\d+", value)]
            found_N = np.isin({"memory": self.memory_N, "part": self.part_N}[name], values)
            seen_N &= ~found_N if operator == "not in" else found_N
        return seen_N


class ToyMilvus:
    """Implements `VectorServer` for every address alike."""

    def __init__(self) -> None:
        self.collections: dict[str, Rows] = {}
        #: What was asked, in order.
        self.calls: list[str] = []
        #: Filters of the searches, and how many queries each had.
        self.searched: list[tuple[str, int]] = []
        #: Calls fail from now on; only those named here, if any are.
        self.is_down, self.down_for = False, frozenset[str]()
        #: The next calls that find the collection loading.
        self.loading = 0
        #: Rows that no search finds although they are there: an approximate index misses some.
        self.missed: set[int] = set()
        #: How often a row is counted wrong: what was inserted takes a while to be found.
        self.late = 0
        #: Pretend to index so many rows between questions; None: all at once.
        self.pace: int | None = None
        self._indexed = 0
        #: Answers to `unindexed`, one after the other, before all rows have their index.
        self.handing_over: list[int] = []
        self._lock = threading.Lock()

    def _asked(self, call: str, collection: str = "") -> Rows:
        with self._lock:
            self.calls.append(call)
        if self.is_down and (not self.down_for or call in self.down_for):
            raise IndexServerError("milvus://toy: no answer within 1 s; index-fallback=model")
        if not collection:
            return Rows(Address("toy", 1), 0)
        if collection not in self.collections:
            raise IndexServerError("milvus://toy: the collection is not there; `nearmt reindex DIR`", lost=True)
        if self.loading and call in ("search", "count"):
            self.loading -= 1
            raise IndexServerError("milvus://toy: the collection is not loaded yet", loading=True)
        return self.collections[collection]

    def connect(self, timeout: float) -> None:
        self._asked("connect")

    def parameters(self, collection: str, timeout: float) -> tuple[str, dict[str, int]] | None:
        self._asked("parameters")
        found = self.collections.get(collection)
        return None if found is None else (found.address.kind, dict(found.address.parameters))

    def create(self, collection: str, columns: int, address: Address, timeout: float) -> None:
        self._asked("create")
        self.collections[collection] = Rows(address, columns, key_ND=np.zeros((0, columns), np.float32))

    def insert(self, collection: str, first: int, memory: int, part: int, key_XD: np.ndarray, timeout: float) -> None:
        rows, count = self._asked("insert", collection), len(key_XD)
        assert key_XD.shape[1] == rows.columns
        rows.number_N = np.append(rows.number_N, np.arange(first, first + count))
        rows.memory_N = np.append(rows.memory_N, np.full(count, memory))
        rows.part_N = np.append(rows.part_N, np.full(count, part))
        rows.key_ND = np.concatenate([rows.key_ND, key_XD.astype(np.float32)])

    def flush(self, collection: str, timeout: float) -> None:
        self._asked("flush", collection)
        self._indexed = 0

    def load(self, collection: str, timeout: float) -> None:
        self._asked("load", collection)

    def progress(self, collection: str, timeout: float) -> Progress:
        total = len(self._asked("progress", collection).number_N)
        self._indexed = total if self.pace is None else min(total, self._indexed + self.pace)
        return Progress(self._indexed, total, 100)

    def unindexed(self, collection: str, timeout: float) -> int:
        self._asked("unindexed", collection)
        return self.handing_over.pop(0) if self.handing_over else 0

    def count(self, collection: str, filter: str, timeout: float) -> int:
        found = int(self._asked("count", collection).chosen(filter).sum())
        if self.late and found:
            self.late -= 1
            return found - 1
        return found

    def delete(self, collection: str, filter: str, timeout: float) -> None:
        rows = self._asked("delete", collection)
        kept_N = ~rows.chosen(filter)
        rows.number_N, rows.memory_N, rows.part_N = rows.number_N[kept_N], rows.memory_N[kept_N], rows.part_N[kept_N]
        rows.key_ND = rows.key_ND[kept_N]

    def search(
        self, collection: str, query_BD: np.ndarray, count: int, filter: str, effort: int, timeout: float
    ) -> np.ndarray:
        rows = self._asked("search", collection)
        self.searched.append((filter, len(query_BD)))
        seen_N = rows.chosen(filter) & ~np.isin(rows.number_N, list(self.missed))
        number_N, key_ND = rows.number_N[seen_N], rows.key_ND[seen_N].astype(np.float64)
        squared_BN = np.square(query_BD.astype(np.float64)[:, None] - key_ND[None]).sum(axis=2)
        found_BX = number_N[squared_BN.argsort(axis=1, kind="stable")[:, :count]]
        return np.pad(found_BX, ((0, 0), (0, count - found_BX.shape[1])), constant_values=-1)
