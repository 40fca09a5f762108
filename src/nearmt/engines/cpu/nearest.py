"""Nearest neighbours by kernels, on a CPU."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref, c_void_p
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nearmt.engines.cpu.library import Held, Keys, address, addresses, loaded


class KeyRows:
    """The keys of all entries, in segments, where they are."""

    def __init__(self, keys: Sequence[Tensor], starts: Sequence[int]) -> None:
        self._keys, self._start = keys, np.array(starts, dtype=np.int64)  # they have to live as long
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

        Equal distances come in corpus order; -1 and infinity fill up.
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
        (_, capacity, held_columns), library = key_UMN.shape, loaded()
        number_3G = np.array([cached.caches, cached.ends, cached.slots], dtype=np.int64)
        unit_G = np.array(cached.units, dtype=np.float32)
        cache_G, end_G, slot_G = addresses(number_3G)
        scratch = torch.empty(library.nominate_room(held_columns, count), dtype=torch.uint8)
        library.recall(
            byref(self.layout), address(key_UMN), address(half_UM), address(entry_UM), capacity, held_columns, cache_G,
            unit_G.ctypes.data, end_G, slot_G, len(unit_G), rows, address(query_BD), query_BD.stride(0), columns,
            count, entry_BK.shape[1], address(entry_BK), address(distance_BK), address(scratch),
        )  # fmt: skip

    def largest(self, entry_X: Tensor, columns: int) -> float:
        """The largest number, whatever its sign, in the first columns of some entries' keys."""
        library = loaded()
        found: float = library.largest_of(byref(self.layout), columns, address(entry_X), len(entry_X))
        return found

    def hold(self, key_MN: Tensor, half_M: Tensor, start: int, entry_X: Tensor, unit: float, columns: int) -> None:
        """What `hold` does, for the first columns of the keys of entries, filled up with zeros."""
        library = loaded()
        library.hold_entries(
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

    def struct(self) -> Held:
        return Held(
            table=address(self.hash_UT), places=self.hash_UT.shape[1], entry=address(self.entry_UM),
            key=address(self.key_UMN), half=address(self.half_UM), room=self.entry_UM.shape[1],
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
    loaded().keep_chunks(
        byref(keys.layout), byref(tables.struct()), columns, cache_S, start_S, unit_S, len(entry_SX), address(entry_SX),
        entry_SX.shape[1], chunk, address(end_P), len(end_P), new_S, largest_S,
    )  # fmt: skip
    return number_3S[2].tolist(), real_2S[1].tolist()


def mark(table_T: Tensor, entry_X: Tensor) -> Tensor:
    """Those of some entries (-1: none) that a table of hashes does not have yet, in their order; now it has them.

    The table begins with zeros; its size is a power of two and more than it will ever hold.
    """
    library = loaded()
    fresh_X = torch.empty_like(entry_X)
    count = library.mark(address(table_T), len(table_T), address(entry_X), len(entry_X), address(fresh_X))
    return fresh_X[:count]


def hold(key_MN: Tensor, half_M: Tensor, start: int, key_XN: Tensor, unit: float) -> None:
    """Keys of a holder, rounded to multiples of a unit, for places from `start` on, and halves of squared lengths.

    They lie as [M / 16, N / 4, 16, 4], each number plus 128.
    """
    library = loaded()
    (count, columns), key_XN = key_XN.shape, key_XN.contiguous()
    library.hold(address(key_MN), address(half_M), columns, start, address(key_XN), count, unit)


def nominate(
    key_UMN: Tensor, half_UM: Tensor, name_UM: Tensor, holders: Sequence[int], units: Sequence[float],
    ends: Sequence[int], query_GRN: Tensor, count: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The names of `count` places of each holder that are likely to be nearest to its queries, [G, R, count].

    And q . k - |k|^2 / 2 of each in whole numbers, to which 128 times the sum of q is added. No holder has fewer.
    """
    library = loaded()
    (groups, rows, _), (_, room, columns) = query_GRN.shape, key_UMN.shape
    holder_G, end_G = np.array(holders, dtype=np.int64), np.array(ends, dtype=np.int64)
    unit_G = np.array(units, dtype=np.float32)
    name_GRX = torch.empty(groups, rows, count, dtype=torch.long)
    score_GRX = torch.empty(groups, rows, count, dtype=torch.int32)
    meanwhile = torch.empty(library.nominate_room(columns, count), dtype=torch.uint8)
    query_GRN = query_GRN.contiguous()
    library.nominate(
        address(key_UMN), address(half_UM), room, columns, holder_G.ctypes.data, unit_G.ctypes.data,
        end_G.ctypes.data, groups, rows, address(query_GRN), query_GRN.stride(1), count, address(name_UM),
        address(name_GRX), address(score_GRX), address(meanwhile),
    )  # fmt: skip
    return name_GRX, score_GRX
