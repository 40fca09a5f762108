"""All entries of all segments under one numbering, on one device."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nearmt.contracts import Neighbours, Pair
from nearmt.datastore.disk import AnySegment
from nearmt.engines.cpu.nearest import KeyRows
from nearmt.engines.cuda.gathered import GatheredKeys, nearest_of
from nearmt.engines.reference.distances import first_of, squared_l2


class Entries:
    """Tokens, keys and pairs by entry. On a CPU keys stay memory-mapped; on a GPU they move there."""

    def __init__(self, segments: Sequence[AnySegment], device: torch.device, keys: list[Tensor] | None = None) -> None:
        """`keys` are those of the segments where they are on the device already."""
        self.device = device
        self._segments = segments
        self.keys_by_segment = keys or [torch.from_numpy(segment.key_ND).to(device) for segment in segments]
        #: The same for kernels, where there are any.
        self.gathered = GatheredKeys.of(self.keys_by_segment)
        sizes = torch.tensor([segment.record.entries for segment in segments], dtype=torch.long)
        self.offsets = [0, *torch.cumsum(sizes, 0).tolist()]
        #: Those that lie on a CPU, for kernels there, where there are any.
        self.key_rows = KeyRows.of(self.keys_by_segment, self.offsets)
        tokens = [torch.from_numpy(segment.token_N) for segment in segments]
        self.token_N = _join(tokens, torch.int32).to(device)
        ends = [torch.from_numpy(segment.end_P) + start for segment, start in zip(segments, self.offsets, strict=False)]
        #: Where the entries of each pair end.
        self.end_P = _join(ends, torch.long).to(device)
        self._weight_N = self._read_weights()
        #: Which entries can be found; None stands for all.
        self.kept_N = None if self._weight_N is None else self._weight_N > 0
        #: How many these are.
        self.kept = len(self) if self.kept_N is None else int(self.kept_N.sum())

    def _read_weights(self) -> Tensor | None:
        """The weights of a pruned store; entries of segments that are whole stand for themselves."""
        if all(segment.weight_N is None for segment in self._segments):
            return None
        weight_N = torch.ones(len(self))
        for segment, start in zip(self._segments, self.offsets, strict=False):
            if segment.weight_N is not None:
                weight_N[start : start + len(segment.weight_N)] = torch.from_numpy(segment.weight_N)
        return weight_N.to(self.device)

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def tokens(self, entry: Tensor) -> Tensor:
        """Target tokens (0 for entry -1, which callers give no weight)."""
        if not len(self):
            return torch.zeros_like(entry)
        return self.token_N[entry.clamp(min=0)].long()

    def weights(self, entry: Tensor) -> Tensor | None:
        """How many entries each stands for: 0 for one that was merged into another (1 for entry -1).

        None where the store is not pruned.
        """
        if self._weight_N is None:
            return None
        return torch.where(entry < 0, 1.0, self._weight_N[entry.clamp(min=0)])

    def keys(self, entry_M: Tensor, columns: int) -> Tensor:
        """fp32 keys [M, columns]."""
        if len(self.keys_by_segment) == 1:
            return self.keys_by_segment[0][:, :columns].index_select(0, entry_M).float()
        key_ME = torch.empty(len(entry_M), columns, device=self.device)
        for key_ND, start in zip(self.keys_by_segment, self.offsets, strict=False):
            inside = (entry_M >= start) & (entry_M < start + len(key_ND))
            if not inside.is_cuda:
                key_ME[inside] = key_ND[:, :columns].index_select(0, entry_M[inside] - start).float()
            elif len(key_ND):
                # To know how many are inside the program would have to wait: all read something, some in vain.
                local_M = (entry_M - start).clamp(0, len(key_ND) - 1)
                key_ME = torch.where(inside[:, None], key_ND[:, :columns].index_select(0, local_M).float(), key_ME)
        return key_ME

    def nearest(self, query_BE: Tensor, candidate_BX: Tensor, k: int) -> Neighbours:
        """The k nearest of each row's candidates (-1: none) by squared distance, on the query's columns.

        Equal distances come in corpus order, so that ties are always broken alike.
        """
        if self.gathered is not None:
            return nearest_of(query_BE, self.gathered, candidate_BX, k)
        if self.key_rows is not None:
            return Neighbours(*self.key_rows.nearest(query_BE, candidate_BX, k))
        entry_BX, columns = candidate_BX.sort(dim=1).values, query_BE.shape[1]
        key_BXE = self.keys(entry_BX.clamp(min=0).flatten(), columns).view(*entry_BX.shape, columns)
        return first_of(entry_BX, squared_l2(query_BE, key_BXE), k)

    @property
    def pair_count(self) -> int:
        return len(self.end_P)

    def of_pair(self, number: int) -> Tensor:
        """The entries of a pair."""
        return self.of_pairs_each(torch.tensor([[number]]))[0]

    def of_pairs_each(self, number_SP: Tensor) -> Tensor:
        """The entries of some pairs (-1: none) of each of several sentences, one pair after the other: [S, X].

        -1 fills up; what there is depends on the lengths of pairs, so on a GPU the program waits for it.
        """
        number_SP = number_SP.to(self.device)
        if not number_SP.numel() or not len(self):
            return torch.full((len(number_SP), 0), -1, device=self.device)
        first_SP = torch.where(number_SP > 0, self.end_P[(number_SP - 1).clamp(min=0)], 0)
        length_SP = torch.where(number_SP >= 0, self.end_P[number_SP.clamp(min=0)] - first_SP, 0)
        end_SP = length_SP.cumsum(dim=1)
        place_SX = torch.arange(int(end_SP[:, -1].max()), device=self.device).expand(len(number_SP), -1).contiguous()
        # The pair that a place falls to, and how far the place is behind where that pair's entries begin.
        pair_SX = torch.searchsorted(end_SP, place_SX, right=True)
        inside_SX = pair_SX < number_SP.shape[1]
        shift_SX = (first_SP - (end_SP - length_SP)).gather(1, pair_SX.clamp(max=number_SP.shape[1] - 1))
        return torch.where(inside_SX, place_SX + shift_SX, -1)

    def pair_numbers(self, entry: Tensor) -> Tensor:
        """The number of the pair that each entry belongs to."""
        return torch.searchsorted(self.end_P, entry, right=True)

    def chunks(self, entry_BK: Tensor, size: int) -> Tensor:
        """Entry n and those behind it in its sentence, [B, K, size]; -1 where the sentence has ended."""
        if not len(self):
            return torch.full((*entry_BK.shape, size), -1, device=self.device)
        end_BK = self.end_P[self.pair_numbers(entry_BK.clamp(min=0))]
        entry_BKC = entry_BK[..., None] + torch.arange(size, device=self.device)
        inside = (entry_BKC < end_BK[..., None]) & (entry_BK[..., None] >= 0)
        return torch.where(inside, entry_BKC, -1)

    def pair(self, number: int) -> Pair:
        for segment in self._segments:
            if number < segment.record.pairs:
                return segment.pair(number)
            number -= segment.record.pairs
        raise IndexError(number)


def _join(parts: list[Tensor], dtype: torch.dtype) -> Tensor:
    """One tensor; a single part is not copied."""
    if len(parts) == 1:
        return parts[0]
    return torch.cat(parts) if parts else torch.zeros(0, dtype=dtype)
