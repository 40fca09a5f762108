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
        end_P = torch.from_numpy(segment.end_P)
        ends.append(end_P + start if start else end_P)  # the first stays memory-mapped
        start += segment.record.entries
    optional = [None if part is None else part.to(device) for part in (_weights(segments), _words(segments))]
    return entry_table(keys, token_N.to(device), _join(ends, torch.long).to(device), *optional)


def _weights(segments: Sequence[AnySegment]) -> Tensor | None:
    """The weights of a pruned store; entries of segments that are not pruned stand for themselves."""
    if all(segment.weight_N is None for segment in segments):
        return None
    parts = [
        torch.ones(segment.record.entries) if segment.weight_N is None else torch.from_numpy(segment.weight_N).float()
        for segment in segments
    ]
    return torch.cat(parts)


def _words(segments: Sequence[AnySegment]) -> Tensor | None:
    """The codes of the source words that entries are aligned with, 16 bits; None if no segment knows them."""
    if not any(segment.knows_words for segment in segments):
        return None
    return _join([torch.from_numpy(segment.word_N.view("<i2")) for segment in segments], torch.int16)


def _join(parts: list[Tensor], dtype: torch.dtype) -> Tensor:
    """One tensor; a single part is not copied."""
    if len(parts) == 1:
        return parts[0]
    return torch.cat(parts) if parts else torch.zeros(0, dtype=dtype)
