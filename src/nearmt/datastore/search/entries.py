"""The entries of all segments as one table, on one device."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nearmt.datastore.disk import AnySegment
from nearmt.engines.choose import entry_table
from nearmt.engines.reference.entries import EntryTable


def open_entries(segments: Sequence[AnySegment], device: torch.device, keys: list[Tensor] | None = None) -> EntryTable:
    """The table of segments. On a CPU keys stay memory-mapped; `keys` are those that are on the device already."""
    keys = keys or [torch.from_numpy(segment.key_ND).to(device) for segment in segments]
    token_N = _join([torch.from_numpy(segment.token_N) for segment in segments], torch.int32)
    ends, start = [], 0
    for segment in segments:
        ends.append(torch.from_numpy(segment.end_P) + start)
        start += segment.record.entries
    weight_N = _weights(segments)
    return entry_table(
        keys, token_N.to(device), _join(ends, torch.long).to(device), None if weight_N is None else weight_N.to(device)
    )


def _weights(segments: Sequence[AnySegment]) -> Tensor | None:
    """The weights of a pruned store; entries of segments that are not pruned stand for themselves."""
    if all(segment.weight_N is None for segment in segments):
        return None
    parts = [
        torch.ones(segment.record.entries) if segment.weight_N is None else torch.from_numpy(segment.weight_N).float()
        for segment in segments
    ]
    return torch.cat(parts)


def _join(parts: list[Tensor], dtype: torch.dtype) -> Tensor:
    """One tensor; a single part is not copied."""
    if len(parts) == 1:
        return parts[0]
    return torch.cat(parts) if parts else torch.zeros(0, dtype=dtype)
