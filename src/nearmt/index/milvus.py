"""An index in Milvus: the keys of sealed segments are rows of a collection that many memories share.

Each segment is a part, with a number that no other part has; the manifest names the parts of a memory, and searches
see no others. So rows that an unfinished build has left are never found. A row's number is that of its part and that
of its entry.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from nearmt.errors import ConfigError, IndexServerError
from nearmt.index.milvus_client import MilvusServer
from nearmt.index.vector_server import EFFORTS, Address, Progress, VectorServer

#: Seconds until an answer, or progress of a build, while searching and while building.
PATIENCE, BUILDING_PATIENCE = 10.0, 600.0
#: Seconds of one call at most while building, where most of the time is waiting for progress.
_CALL = 60.0
#: Seconds without progress until indexes that were made are used.
_HANDING_OVER = 60.0
#: Candidates per neighbour asked for: rounded vectors blur the order, stored keys restore it.
_OVERSAMPLING = {"IVF_SQ8": 2}
#: Where entries are hidden, so many times more are asked for, again and again, up to the most of a search.
_MORE, _MOST = 4, 4096
#: The number of a row is that of its part, in these bits, and that of its entry.
_SHIFT, _PART_BITS = 32, 31
_ENTRY_MASK = (1 << _SHIFT) - 1
#: Bytes of an inserted block of vectors. A call takes at most 64 MB.
_BLOCK_BYTES = 1 << 23
#: Seconds between questions about progress; seconds after a failure in which nothing is asked.
_POLL, _PAUSE = 0.3, 5.0

Result = TypeVar("Result")
#: Told what is being waited for.
Tell = Callable[[str], None]


def connect(address: Address) -> VectorServer:
    """A client of the server; tests have one of their own."""
    return MilvusServer(address)


@dataclass(frozen=True)
class RemoteUse:
    """How a server of an index is used."""

    #: Seconds until an answer has to be there.
    timeout: float = PATIENCE
    #: Whether searches find nothing, instead of failing, where the server does not answer.
    optional: bool = False
    #: Address of the server, if it is not the one that a datastore names.
    server: str | None = None


def _silent(_: str) -> None:
    """Ignore the message."""


class Collection:
    """The collection of a memory's model, reduction and languages on a server."""

    def __init__(self, address: Address, name: str, use: RemoteUse | None = None) -> None:
        self.address, self.name, self.use = address, name, use or RemoteUse()
        self._server = connect(address)
        self._lock = threading.Lock()
        #: Rows of each part that were counted since the last failure.
        self._counted: dict[int, int] = {}
        self._failure: tuple[float, IndexServerError] | None = None

    # Searching

    def search(self, query_BD: np.ndarray, count: int, parts: dict[int, int], effort: int) -> np.ndarray:
        """The numbers of up to `count` rows of these parts (with their numbers of rows) near each query; -1 pads."""
        if self._failure is not None and time.monotonic() < self._failure[0]:
            raise self._failure[1].again()
        deadline = Deadline(self.use.timeout)
        try:
            self._check_whole(parts, deadline)
            found_BX = self._patiently(
                lambda left: self._server.search(self.name, query_BD, count, _among(parts), effort, left), deadline
            )
        except IndexServerError as error:
            with self._lock:
                self._counted, self._failure = {}, (time.monotonic() + min(_PAUSE, self.use.timeout), error)
            raise
        self._failure = None
        return found_BX

    def _check_whole(self, parts: dict[int, int], deadline: Deadline) -> None:
        """Refuse parts of which rows are missing: once, and again after a failure."""
        for part, rows in parts.items():
            if self._counted.get(part) != rows:
                self._wait_for_rows(part, rows, deadline)
                with self._lock:
                    self._counted[part] = rows

    def _wait_for_rows(self, part: int, rows: int, deadline: Deadline) -> None:
        """What was written lately, or is loaded after a restart, takes a moment to be found."""
        while (found := self._patiently(partial(self._count, part), deadline)) != rows:
            if not deadline.wait(_POLL):
                raise IndexServerError(
                    f"{self.address.server}: has {found:,} of {rows:,} keys; `nearmt reindex DIR` writes them again",
                    lost=True,
                )

    def _count(self, part: int, left: float) -> int:
        return self._server.count(self.name, f"part == {part}", left)

    def _patiently(self, ask: Callable[[float], Result], deadline: Deadline) -> Result:
        """An answer, waiting until the collection is loaded: a server that was restarted loads it again."""
        while True:
            try:
                self._server.connect(deadline.left)
                return ask(deadline.left)
            except IndexServerError as error:
                if not error.loading or not deadline.wait(_POLL):
                    raise
                self._server.load(self.name, deadline.left)

    def wait_for(self, parts: dict[int, int], timeout: float = _CALL) -> None:
        """Wait until all rows of these parts are found; an error if they are not."""
        self._check_whole(parts, Deadline(min(timeout, self.use.timeout)))

    # Building

    def prepare(self, columns: int) -> None:
        """Make the collection if it is not there, and refuse one with another index."""
        deadline = self._call()
        self._server.connect(deadline.left)
        found = self._server.parameters(self.name, deadline.left)
        if found is None or not found[0]:
            self._server.create(self.name, columns, self.address, deadline.left)
            return
        kind, parameters = found
        if (kind, parameters) != (self.address.kind, dict(self.address.parameters)):
            has = "&".join(f"{name}={value}" for name, value in (("type", kind), *parameters.items()))
            raise ConfigError(
                f"index: collection {self.name} of {self.address.server} has {has}; give the same, or another database"
            )

    def new_part(self) -> int:
        """A number that no part has."""
        while True:
            part = 1 + secrets.randbelow((1 << _PART_BITS) - 1)
            if not self._patiently(partial(self._count, part), self._call()):
                return part

    def insert(self, memory: int, part: int, key_ND: np.ndarray, tell: Tell = _silent) -> None:
        """Add the keys of a part; they are found some time later (`settle`)."""
        rows, columns = key_ND.shape
        block = max(1, _BLOCK_BYTES // (4 * columns))
        for start in range(0, rows, block):
            key_XD = key_ND[start : start + block]
            self._server.insert(self.name, (part << _SHIFT) + start, memory, part, key_XD, self._call().left)
            tell(f"Milvus has {min(start + block, rows):,} of {rows:,} keys")

    def settle(self, parts: dict[int, int], tell: Tell = _silent) -> None:
        """Wait until these parts are indexed, loaded and found. While there is progress, there is no deadline."""
        self._server.flush(self.name, self.use.timeout)
        deadline, before = Deadline(self.use.timeout), None
        while True:
            now = self._server.progress(self.name, min(_CALL, deadline.left))
            if now.indexed >= now.rows and now.loaded == 100:
                break
            if now != before:
                deadline, before = Deadline(self.use.timeout), now
                tell(_told(now))
            if not deadline.wait(_POLL):
                raise IndexServerError(f"{self.address.server}: no progress for {self.use.timeout:g} s ({_told(now)})")
        self._hand_over(tell)
        self.wait_for(parts)

    def _hand_over(self, tell: Tell) -> None:
        """Wait until searches use the indexes that were made, since recall and effort are measured then: before, Milvus
        compares rows in another way, which finds more. A server that makes no progress is not waited for long."""
        deadline, before = Deadline(_HANDING_OVER), None
        with suppress(IndexServerError):  # it cannot tell
            while left := self._server.unindexed(self.name, _CALL):
                if left != before:
                    deadline, before = Deadline(_HANDING_OVER), left
                    tell(f"Milvus loads the index of {left:,} keys")
                if not deadline.wait(_POLL):
                    return

    def drop(self, part: int) -> None:
        """Delete the rows of a part."""
        self._server.delete(self.name, f"part == {part}", self._call().left)

    def keep_only(self, memory: int, parts: Sequence[int]) -> None:
        """Delete all rows of a memory but those of these parts: what was replaced, and what unfinished builds left."""
        others = f" and part not in {sorted(parts)}" if parts else ""
        deadline = self._call()
        self._server.connect(deadline.left)
        if self._server.parameters(self.name, deadline.left) is not None:
            self._server.delete(self.name, f"memory == {memory}{others}", deadline.left)

    def _call(self) -> Deadline:
        """For what takes seconds."""
        return Deadline(min(_CALL, self.use.timeout))


class Deadline:
    """Some seconds from now."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds left; a little where there are none, so that the server still reports what is wrong."""
        return max(0.05, self._end - time.monotonic())

    def wait(self, seconds: float) -> bool:
        """Wait, if there is time for it."""
        if time.monotonic() + seconds > self._end:
            return False
        time.sleep(seconds)
        return True


def _among(parts: dict[int, int]) -> str:
    return f"part in {sorted(parts)}"


def _told(now: Progress) -> str:
    return f"Milvus has indexed {now.indexed:,} of {now.rows:,} keys and loaded {now.loaded}%"


#: Collections in use, so that all segments of all open memories are searched by one call.
_OPENED: WeakValueDictionary[tuple[Address, str, RemoteUse], Collection] = WeakValueDictionary()


def open_collection(address: Address, name: str, use: RemoteUse) -> Collection:
    key = address, name, use
    found = _OPENED.get(key)
    if found is None:
        found = _OPENED[key] = Collection(address, name, use)
    return found


class MilvusIndex:
    """The rows of a segment: it is not asked before the first search."""

    #: Graphs and lists may miss some.
    complete = False
    lists, scan = None, None

    def __init__(self, collection: Collection, part: int, rows: int, effort: int = 0, refusal: str = "") -> None:
        """`refusal`: why the server must not be asked, if it must not."""
        self.collection, self.part, self.rows = collection, part, rows
        self.effort, self._refusal = effort or self.efforts[0], refusal

    def check_allowed(self) -> None:
        if self._refusal:
            raise ConfigError(self._refusal)

    @property
    def efforts(self) -> list[int]:
        """Settings from fast to thorough: candidates (HNSW) or probed lists (IVF)."""
        kind, parameters = self.collection.address.kind, dict(self.collection.address.parameters)
        return [effort for effort in EFFORTS[kind] if effort <= parameters.get("nlist", effort)] or [1]

    def describe(self, memory: int) -> dict[str, Any]:
        """What opening it needs, for the manifest."""
        where = {"factory": str(self.collection.address), "collection": self.collection.name}
        return {"kind": "milvus", **where, "memory": memory, "part": self.part, "effort": self.effort}

    def nominate(self, query_BD: Tensor, count: int, allowed_N: Tensor | None) -> Tensor:
        return nominate_rows([Rows(self, 0, allowed_N)], query_BD, count)


@dataclass(frozen=True)
class Rows:
    """A segment among those that are searched by one call: where its entries begin, and which of them are allowed."""

    index: MilvusIndex
    start: int
    allowed_X: Tensor | None
    #: Numbers of the entries that are rows; None for all.
    kept_M: Tensor | None = None

    def entries(self, local_X: Tensor) -> Tensor:
        """The entries of rows; -1 for numbers that no row has, and for entries that are not allowed."""
        there_X = local_X < self.index.rows
        entry_X = local_X.clamp(max=self.index.rows - 1)
        entry_X = entry_X if self.kept_M is None else self.kept_M.to(entry_X.device)[entry_X]
        if self.allowed_X is not None:
            there_X &= self.allowed_X.cpu()[entry_X]
        return torch.where(there_X, entry_X + self.start, -1)


def nominate_rows(rows: Sequence[Rows], query_BD: Tensor, count: int) -> Tensor:
    """Candidates of segments in one collection, by one call; by more where entries are hidden."""
    collection = rows[0].index.collection
    for part in rows:
        part.index.check_allowed()
    query = np.ascontiguousarray(query_BD.detach().cpu().numpy(), dtype=np.float32)
    wanted = count * _OVERSAMPLING.get(collection.address.kind, 1)
    hides = any(part.allowed_X is not None for part in rows)
    found_BX = _search(rows, query, _MORE * wanted if hides else wanted)
    while hides and found_BX.shape[1] < min(_MOST, sum(part.index.rows for part in rows)):
        short_B = ((found_BX >= 0).sum(dim=1) < count).numpy()
        if not short_B.any():
            break
        more = min(_MOST, sum(part.index.rows for part in rows), _MORE * found_BX.shape[1])
        found_BX = torch.nn.functional.pad(found_BX, (0, more - found_BX.shape[1]), value=-1)
        found_BX[torch.from_numpy(short_B)] = _search(rows, query[short_B], more)
    missing = max(0, count - found_BX.shape[1])
    return torch.nn.functional.pad(found_BX, (0, missing), value=-1).to(query_BD.device)


def _search(rows: Sequence[Rows], query_BD: np.ndarray, count: int) -> Tensor:
    """Entries under the numbers of the store, [B, X]; -1 where there are fewer, or where they are hidden."""
    collection, effort = rows[0].index.collection, max(part.index.effort for part in rows)
    count = max(1, min(count, _MOST, sum(part.index.rows for part in rows)))
    parts = {part.index.part: part.index.rows for part in rows}
    number_BX = torch.from_numpy(collection.search(query_BD, count, parts, effort))
    part_BX, local_BX = number_BX >> _SHIFT, number_BX & _ENTRY_MASK
    entry_BX = torch.full_like(number_BX, -1)
    for part in rows:
        mine_BX = (part_BX == part.index.part) & (number_BX >= 0)
        entry_BX[mine_BX] = part.entries(local_BX[mine_BX])
    return entry_BX
