"""Nearest neighbours by kernels, on a CPU."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref, c_void_p
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nearmt.engines.cpu.library import Caches, Keys, address, addresses, loaded


class KeyRows:
    """The keys of all entries, in segments; they are read in place."""

    def __init__(self, keys: Sequence[Tensor], starts: Sequence[int]) -> None:
        self._keys, self._start = keys, np.array(starts, dtype=np.int64)  # kept alive: the kernels have their addresses
        pointers = (c_void_p * len(keys))(*(key_ND.data_ptr() for key_ND in keys))
        columns = keys[0].shape[1]
        self.layout = Keys(segments=len(keys), columns=columns, key=pointers, start=self._start.ctypes.data)

    @staticmethod
    def fits(keys: Sequence[Tensor]) -> bool:
        """Whether kernels can read these keys."""
        return bool(keys) and all(
            key_ND.device.type == "cpu" and key_ND.dtype == torch.float16 and key_ND.is_contiguous() for key_ND in keys
        )

    def nearest(self, query_BE: Tensor, candidate_BX: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Entries and squared distances of the k nearest of each row's candidates (-1: none), on the query's columns.

        Equal distances come in corpus order; padded with -1 and infinity.
        """
        library = loaded()
        rows, columns = query_BE.shape
        if query_BE.dtype != torch.float32 or query_BE.stride(1) != 1:
            query_BE = query_BE.float().contiguous()
        candidate_BX = candidate_BX.contiguous()
        entry_BK, distance_BK = torch.empty(rows, k, dtype=torch.long), torch.empty(rows, k)
        library.nearest(
            byref(self.layout), query_BE.data_ptr(), query_BE.stride(0), columns, rows,
            address(candidate_BX), candidate_BX.shape[1], k, address(entry_BK), address(distance_BK),
        )  # fmt: skip
        return entry_BK, distance_BK

    def recall(
        self, cached: CachedRows, query_BD: Tensor, rows: int, columns: int, count: int, entry_BK: Tensor,
        distance_BK: Tensor,
    ) -> None:  # fmt: skip
        """Nominate `count` cached entries for each of the `rows` adjacent rows of some slots and measure the nearest.

        Entries and distances, not squared, are written to their rows.
        """
        key_UMN, half_UM, entry_UM = cached.key_UMN, cached.half_UM, cached.entry_UM
        (_, capacity, cached_columns), library = key_UMN.shape, loaded()
        number_3G = np.array([cached.caches, cached.ends, cached.slots], dtype=np.int64)
        unit_G = np.array(cached.units, dtype=np.float32)
        cache_G, end_G, slot_G = addresses(number_3G)
        scratch = torch.empty(library.nominate_scratch(cached_columns, count), dtype=torch.uint8)
        library.recall(
            byref(self.layout), address(key_UMN), address(half_UM), address(entry_UM), capacity, cached_columns,
            cache_G, unit_G.ctypes.data, end_G, slot_G, len(unit_G), rows, address(query_BD), query_BD.stride(0),
            columns, count, entry_BK.shape[1], address(entry_BK), address(distance_BK), address(scratch),
        )  # fmt: skip

    def largest(self, entry_X: Tensor, columns: int) -> float:
        """The largest absolute number in the first columns of some entries' keys."""
        library = loaded()
        found: float = library.largest_of(byref(self.layout), columns, address(entry_X), len(entry_X))
        return found

    def write_keys(
        self, key_MN: Tensor, half_M: Tensor, start: int, entry_X: Tensor, unit: float, columns: int
    ) -> None:
        """Like the function `write_keys`, for the first columns of the keys of entries, padded with zeros."""
        library = loaded()
        library.write_entry_keys(
            address(key_MN), address(half_M), key_MN.shape[1], start, byref(self.layout), columns, address(entry_X),
            len(entry_X), unit,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class CachedRows:
    """The caches of some sentences of a batch, among all caches: rounded keys, half squared lengths, entries."""

    key_UMN: Tensor
    half_UM: Tensor
    entry_UM: Tensor
    #: Of each sentence: its cache, the unit of its rounded keys, its number of entries, and its slot in the batch.
    caches: Sequence[int]
    units: Sequence[float]
    ends: Sequence[int]
    slots: Sequence[int]


@dataclass(frozen=True, eq=False)
class CacheTables:
    """All caches as a kernel fills them: hash tables of their entries, entries, rounded keys, half squared lengths."""

    hash_UT: Tensor
    entry_UM: Tensor
    key_UMN: Tensor
    half_UM: Tensor

    def struct(self) -> Caches:
        return Caches(
            table=address(self.hash_UT), table_size=self.hash_UT.shape[1], entry=address(self.entry_UM),
            key=address(self.key_UMN), half=address(self.half_UM), capacity=self.entry_UM.shape[1],
            columns=self.key_UMN.shape[2],
        )  # fmt: skip


def add_chunks(
    keys: KeyRows, tables: CacheTables, caches: Sequence[int], starts: Sequence[int], units: Sequence[float],
    entry_SX: Tensor, chunk: int, end_P: Tensor, columns: int,
) -> tuple[list[int], list[float]]:  # fmt: skip
    """Append the chunks that begin with these entries (-1: none) to the caches of some sentences.

    A chunk ends with its pair (`end_P`). Returns how many entries of each sentence are new and, where keys exceed the
    range of a cache's unit, their largest absolute number (else -1): the keys of these entries are not written.
    """
    number_3S = np.array([caches, starts, starts], dtype=np.int64)
    real_2S = np.array([units, units])
    (cache_S, start_S, new_S), (unit_S, largest_S) = addresses(number_3S), addresses(real_2S)
    loaded().append_chunks(
        byref(keys.layout), byref(tables.struct()), columns, cache_S, start_S, unit_S, len(entry_SX), address(entry_SX),
        entry_SX.shape[1], chunk, address(end_P), len(end_P), new_S, largest_S,
    )  # fmt: skip
    return number_3S[2].tolist(), real_2S[1].tolist()


def mark(table_T: Tensor, entry_X: Tensor) -> Tensor:
    """Insert entries (-1: none) into a hash table and return the new ones, in their order.

    An empty table is all zeros; its size is a power of two and larger than the number of its entries.
    """
    library = loaded()
    fresh_X = torch.empty_like(entry_X)
    count = library.mark(address(table_T), len(table_T), address(entry_X), len(entry_X), address(fresh_X))
    return fresh_X[:count]


def write_keys(key_MN: Tensor, half_M: Tensor, start: int, key_XN: Tensor, unit: float) -> None:
    """Write keys to a cache from position `start` on, rounded to multiples of a unit, and half their squared lengths.

    The layout is [M / 16, N / 4, 16, 4], each number plus 128.
    """
    library = loaded()
    (count, columns), key_XN = key_XN.shape, key_XN.contiguous()
    library.write_keys(address(key_MN), address(half_M), columns, start, address(key_XN), count, unit)


def nominate(
    key_UMN: Tensor, half_UM: Tensor, entry_UM: Tensor, caches: Sequence[int], units: Sequence[float],
    ends: Sequence[int], query_GRN: Tensor, count: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The `count` entries of each cache that are likely to be nearest to its queries, [G, R, count].

    Also returns q . k - |k|^2 / 2 of each as integers, plus 128 times the sum of q. No cache may have fewer entries.
    """
    library = loaded()
    (groups, rows, _), (_, capacity, columns) = query_GRN.shape, key_UMN.shape
    cache_G, end_G = np.array(caches, dtype=np.int64), np.array(ends, dtype=np.int64)
    unit_G = np.array(units, dtype=np.float32)
    entry_GRX = torch.empty(groups, rows, count, dtype=torch.long)
    score_GRX = torch.empty(groups, rows, count, dtype=torch.int32)
    scratch = torch.empty(library.nominate_scratch(columns, count), dtype=torch.uint8)
    query_GRN = query_GRN.contiguous()
    library.nominate(
        address(key_UMN), address(half_UM), capacity, columns, cache_G.ctypes.data, unit_G.ctypes.data,
        end_G.ctypes.data, groups, rows, address(query_GRN), query_GRN.stride(1), count, address(entry_UM),
        address(entry_GRX), address(score_GRX), address(scratch),
    )  # fmt: skip
    return entry_GRX, score_GRX
