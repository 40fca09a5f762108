"""Sentence caches on a GPU: lists of entries whose keys stay in the store.

Nothing synchronises: the number of entries in a cache is known to the device, and to the host as an upper bound. At
every step all rows recall; rows that search get what their search found instead. Searches and the filling of caches
run on a side stream. CUDA graphs hold all of it.

Shapes: U caches, M capacity of a cache, S slots, R rows of each, X entries, P rows of the static buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from nearmt.contracts import Neighbours, Origin
from nearmt.engines.base import CachePlan, Retrieved
from nearmt.engines.cuda.graphs import GraphRunner, Pool, SideStream
from nearmt.engines.cuda.keys import COLUMNS, SegmentedKeys
from nearmt.engines.cuda.sizes import padded_size, power_of_two
from nearmt.engines.reference.cache import CacheSlots, CacheStore, nominees
from nearmt.engines.reference.rows import on_device
from nearmt.engines.reference.topk import smallest
from nearmt.timing import timed

# Capacity grows by this many entries, and the number of caches by this many.
_CAPACITY, _CACHES = 1024, 16
# Entries that a program of a kernel compares, or appends, at a time.
_COMPARED, _APPENDED = 64, 1024
# The fewest rows of a product on tensor cores.
_FEWEST_ROWS = 16
# Counts are synced to the host every N additions; an upper bound is tracked in between.
_COUNTED = 4
_HOST = torch.device("cpu")


class StepBuffers(NamedTuple):
    """Static tensors of a step: CUDA graphs read queries from them and write neighbours to them.

    There is one row more than queries: results of padding go there.
    """

    query_PD: Tensor
    found: Retrieved
    #: Caches, then rows, of the sentences that search; and the results of the searches, one row after the other.
    number_X: Tensor
    searched: Neighbours

    @classmethod
    def blank(cls, rows: int, columns: int, k: int, searched: int, device: torch.device) -> StepBuffers:
        entry_PW = torch.full((rows + 1, searched), -1, device=device)
        return cls(
            query_PD=torch.zeros(rows + 1, columns, device=device),
            found=Retrieved.nothing(rows + 1, k, device),
            number_X=torch.zeros(2 * rows, dtype=torch.long, device=device),
            searched=Neighbours(entry_PW, torch.zeros(entry_PW.shape, device=device)),
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Identifies the buffers of a cache."""
        return *self.found.entry_BK.shape, self.searched.entry_BK.shape[1]

    @property
    def spare_row(self) -> int:
        """The row for results of padding."""
        return len(self.query_PD) - 1

    def put(self, row_R: Tensor) -> None:
        """Copy the results of the searches to these rows."""
        from nearmt.engines.cuda.step_kernels import put_searched

        found, searched, most = self.found, self.searched, self.found.entry_BK.shape[1]
        put_searched[(len(row_R),)](
            row_R, searched.entry_BK, searched.distance_BK, searched.entry_BK.shape[1],
            found.asked_B, found.entry_BK, found.distance_BK, most,
            ORIGIN=int(Origin.SEARCH), POSITIONS=power_of_two(most),
        )  # fmt: skip


class CacheBuffers:
    """The caches of one request at a time. Cache 0 is for padding and stays empty."""

    def __init__(self, keys: SegmentedKeys, device: torch.device) -> None:
        self.keys, self.device = keys, device
        #: Graphs read and write these caches.
        self.graphs, self.side = GraphRunner(device), SideStream(device)
        self._steps: dict[tuple[int, ...], StepBuffers] = {}
        self._entry_UM = torch.full((_CACHES, _CAPACITY), -1, device=device)
        self._count_U = torch.zeros(_CACHES, dtype=torch.long, device=device)
        #: A bit for each entry of the store that a cache has.
        words = -(-(len(keys.key_ND) + len(keys.more_MD)) // 32)
        self._known_UW = torch.zeros(_CACHES, words, dtype=torch.int32, device=device)
        self.reset()

    def reset(self) -> None:
        """Empty all caches."""
        self.side.join()
        self._entry_UM.fill_(-1)
        self._count_U.zero_()
        self._known_UW.zero_()
        #: Upper bounds of the counts: what the device counted last, and what may have been added since.
        self._most = [0] * len(self._count_U)
        self._since = [0] * len(self._count_U)
        #: Upper bounds that do not depend on when counts arrive.
        self._given = [0] * len(self._count_U)
        self._arriving: ArrivingNumbers | None = None
        self._uncounted = 0
        self._slots = CacheSlots()
        self._slots.assign([-1])  # cache 0
        #: Released caches that still have entries: sentences mostly begin together, and so they are cleared.
        self._stale = set[int]()

    def step(self, rows: int, k: int, searched: int) -> StepBuffers:
        """Static buffers for queries, k neighbours of each, and results of a search; one set per combination."""
        if (rows, k, searched) not in self._steps:
            columns = self.keys.key_ND.shape[1]
            self._steps[rows, k, searched] = StepBuffers.blank(rows, columns, k, searched, self.device)
        return self._steps[rows, k, searched]

    def caches(self, sentences: Sequence[int]) -> list[int]:
        """The caches of sentences; those that have none get one."""
        caches = self._slots.assign(sentences)
        if self._slots.count > len(self._most):
            self._add_caches(self._slots.count - len(self._most))
        if self._stale:
            self._clear([cache for cache in dict.fromkeys(caches) if cache in self._stale])
        return caches

    def release(self, sentences: Sequence[int]) -> None:
        self._stale.update(self._slots.release(sentences))

    @property
    def sentences(self) -> set[int]:
        """Sentences that have a cache."""
        return self._slots.sentences - {-1}

    def held(self, sentences: Sequence[int]) -> list[int]:
        """How many entries the caches of sentences have at most: an entry counts as often as it was appended."""
        return self._slots.counts(sentences, self._given)

    def reserve(self, caches: Sequence[int], more: int) -> None:
        """Make capacity for `more` entries of each of these caches."""
        self._sync_counts()
        for cache in caches:
            self._most[cache] += more
            self._since[cache] += more
            self._given[cache] += more
        missing = max(self._most[cache] for cache in caches) - self._entry_UM.shape[1]
        if missing > 0:
            self.side.join()
            self._entry_UM = pad(self._entry_UM, (0, -(-missing // _CAPACITY) * _CAPACITY), value=-1)
            self._invalidate()

    def append(self, cache_G: Tensor, entry_GX: Tensor) -> None:
        """Append the entries (-1: none) that these caches, which have the capacity, do not have yet."""
        from nearmt.engines.cuda.step_kernels import append_new

        caches, width = entry_GX.shape
        append_new[(caches,)](
            self._entry_UM, self._entry_UM.shape[1], self._count_U, self._known_UW, self._known_UW.shape[1], cache_G,
            entry_GX.sort(dim=1).values, width, POSITIONS=_APPENDED,
        )  # fmt: skip

    def count(self) -> None:
        """Start a copy of the counts to the host every few calls; called after something was appended."""
        self._uncounted += 1
        if self._uncounted >= _COUNTED and self._arriving is None:
            self._arriving, self._since, self._uncounted = ArrivingNumbers(self._count_U), [0] * len(self._most), 0

    def width(self, caches: Sequence[int]) -> int:
        """Capacity beyond which none of these caches has an entry."""
        self._sync_counts()
        most = max(self._most[cache] for cache in caches)
        return min(self._entry_UM.shape[1], -(-max(1, most) // _CAPACITY) * _CAPACITY)

    def recall(self, found: Retrieved, query_BE: Tensor, cache_S: Tensor, width: int, k: int) -> None:
        """Put the k nearest cached entries of each row and their distances, not squared, into the first rows of
        `found`. Rows of a sentence are adjacent, equally many of each."""
        from nearmt.engines.cuda.step_kernels import compare, measure

        keys, (rows, columns), slots = self.keys, query_BE.shape, len(cache_S)
        each, stride = rows // slots, query_BE.stride(0)
        near_BM = torch.empty(rows, width, device=query_BE.device)
        compare[(slots, -(-width // _COMPARED))](
            query_BE, *keys.arguments(), self._entry_UM, self._entry_UM.shape[1], self._count_U, cache_S,
            near_BM, width, each, stride, columns=columns,
            ROWS=max(_FEWEST_ROWS, power_of_two(each)), POSITIONS=_COMPARED, COLUMNS=COLUMNS, MORE=keys.more,
        )  # fmt: skip
        position_BX = smallest(near_BM, min(nominees(k), width))[1]
        nominated, most = position_BX.shape[1], found.entry_BK.shape[1]
        measure[(rows,)](
            query_BE, *keys.arguments(), self._entry_UM, self._entry_UM.shape[1], cache_S, each,
            position_BX.contiguous(), nominated, found.asked_B, found.entry_BK, found.distance_BK, k, most, stride,
            columns=columns, ORIGIN=int(Origin.CACHE), POSITIONS=power_of_two(max(nominated, most)), COLUMNS=COLUMNS,
            MORE=keys.more,
        )  # fmt: skip

    def _clear(self, caches: list[int]) -> None:
        """Empty caches."""
        if caches:
            self.side.join()
            cache_G = on_device(caches, self.device)
            self._entry_UM.index_fill_(0, cache_G, -1)
            self._count_U.index_fill_(0, cache_G, 0)
            self._known_UW.index_fill_(0, cache_G, 0)
            self._stale.difference_update(caches)
            self._arriving = None  # counts from before
            for cache in caches:
                self._most[cache] = self._given[cache] = 0

    def _add_caches(self, count: int) -> None:
        self.side.join()
        count = -(-count // _CACHES) * _CACHES
        self._most, self._since = self._most + [0] * count, self._since + [0] * count
        self._given += [0] * count
        self._entry_UM = pad(self._entry_UM, (0, 0, 0, count), value=-1)
        self._count_U = pad(self._count_U, (0, count))
        self._known_UW = pad(self._known_UW, (0, 0, 0, count))
        self._invalidate()

    def _invalidate(self) -> None:
        """Caches were reallocated."""
        self.graphs.invalidate()
        self.side.graphs.invalidate()

    def _sync_counts(self) -> None:
        """Take over counts that have arrived."""
        if self._arriving is not None and self._arriving.have_arrived():
            counts = self._arriving.numbers()
            counts += [0] * (len(self._most) - len(counts))
            self._most = [count + more for count, more in zip(counts, self._since, strict=True)]
            self._arriving = None


class ArrivingNumbers:
    """An asynchronous copy of numbers from a device."""

    def __init__(self, number_X: Tensor) -> None:
        on_gpu = number_X.is_cuda
        self._number_X = torch.empty(number_X.shape, dtype=number_X.dtype, pin_memory=on_gpu)
        self._number_X.copy_(number_X, non_blocking=True)
        self._event = torch.cuda.Event() if on_gpu else None
        if self._event is not None:
            self._event.record()

    def have_arrived(self) -> bool:
        return self._event is None or self._event.query()

    def numbers(self) -> list[int]:
        found: list[int] = self._number_X.tolist()
        return found


class CudaCache:
    """One request; its buffers and graphs go to a later request when it ends."""

    def __init__(
        self, store: CacheStore, plan: CachePlan, pool: Pool[CacheBuffers], make: Callable[[], CacheBuffers]
    ) -> None:
        self._store, self._plan = store, plan
        self._buffers = pool.take(self, make)
        self._buffers.reset()

    @property
    def sentences(self) -> set[int]:
        """Sentences that have a cache."""
        return self._buffers.sentences

    def seed(self, sentences: Sequence[int], entry_SX: Tensor) -> None:
        buffers = self._buffers
        caches = buffers.caches(sentences)
        buffers.reserve(caches, entry_SX.shape[1])
        buffers.side.join()
        buffers.append(on_device(caches, buffers.device), entry_SX)

    def step(self, query_BD: Tensor, sentences: Sequence[int], due: Sequence[int], rows: int) -> Retrieved:
        plan, buffers, count = self._plan, self._buffers, len(query_BD)
        each = count // len(sentences)
        rows = min(rows, each)
        if not plan.chunk and rows == each and len(due) == len(sentences):
            return self._search_all(query_BD, len(sentences))
        step = buffers.step(padded_size(len(sentences)) * each, plan.width, searched=plan.k)
        buffers.side.join()
        step.query_PD[:count].copy_(query_BD)
        searching = [sentences[slot] for slot in due]
        if due:
            self._search(step, searching, [slot * each + row for slot in due for row in range(rows)])
        if len(due) < len(sentences) or rows < each:
            self._recall(step, sentences, each)
        if due:
            self._take(step, searching, rows)
        return step.found.first(count)

    def held(self, sentences: Sequence[int]) -> list[int]:
        return self._buffers.held(sentences)

    def release(self, sentences: Sequence[int]) -> None:
        self._buffers.release(sentences)

    def reorder(self, row_B: Tensor) -> None:
        """Caches belong to sentences."""

    def _search_all(self, query_BD: Tensor, slots: int) -> Retrieved:
        """All rows search, and nothing is kept."""
        store, k = self._store, self._plan.k

        def search(query_BD: Tensor) -> tuple[Tensor, ...]:
            found = store.search(query_BD, k)
            return found.entry_BK, found.distance_BK

        entry_BK, distance_BK = self._buffers.graphs(("search all", k), search, query_BD, slots=slots)
        return Retrieved.all_of(Origin.SEARCH, Neighbours(entry_BK, distance_BK), self._plan.width)

    def _recall(self, step: StepBuffers, sentences: Sequence[int], each: int) -> None:
        """All rows recall."""
        k, columns, buffers = self._plan.cache_k, self._plan.columns, self._buffers
        with timed("cache/search"):
            caches = buffers.caches(sentences)
            width = buffers.width(caches)

            def recall(cache_S: Tensor) -> tuple[Tensor, ...]:
                buffers.recall(step.found, step.query_PD[: len(cache_S) * each, :columns], cache_S, width, k)
                return ()

            name = "recall", k, columns, width, *step.shape
            buffers.graphs(name, recall, on_device(caches, _HOST), slots=len(sentences))

    def _search(self, step: StepBuffers, sentences: Sequence[int], rows: list[int]) -> None:
        """Start a search for some rows on the side stream."""
        store, buffers, each = self._store, self._buffers, len(rows) // len(sentences)
        # Padding to one of a few captured sizes.
        size = padded_size(len(sentences))
        spare = size - len(sentences)
        numbers = [*buffers.caches(sentences), *[0] * spare, *rows, *[step.spare_row] * (spare * each)]

        def search() -> tuple[Tensor, ...]:
            entry_PW, distance_PW = step.searched.entry_BK, step.searched.distance_BK
            row_R = step.number_X[size : size + size * each]
            found = store.search(step.query_PD.index_select(0, row_R), entry_PW.shape[1])
            entry_PW[: len(row_R)], distance_PW[: len(row_R)] = found.entry_BK, found.distance_BK
            return ()

        with buffers.side.working():
            step.number_X[: len(numbers)].copy_(on_device(numbers, _HOST), non_blocking=True)
            buffers.side.graphs(("search", size, each, *step.shape), search)
            buffers.side.mark()

    def _take(self, step: StepBuffers, sentences: Sequence[int], each: int) -> None:
        """Take over what the search found, and append its chunks to the caches on the side stream."""
        plan, store, buffers, size = self._plan, self._store, self._buffers, padded_size(len(sentences))

        def put() -> tuple[Tensor, ...]:
            step.put(step.number_X[size : size + size * each])
            return ()

        def append() -> tuple[Tensor, ...]:
            entry_RK = step.searched.entry_BK[: size * each]
            buffers.append(step.number_X[:size], store.chunks(entry_RK, plan.chunk).view(size, -1))
            return ()

        buffers.side.wait()
        buffers.graphs(("put", size, each, *step.shape), put)
        if not plan.chunk:
            return
        buffers.reserve(buffers.caches(sentences), each * plan.k * plan.chunk)
        with buffers.side.working():
            buffers.side.graphs(("append", plan.chunk, size, each, *step.shape), append)
            buffers.count()
