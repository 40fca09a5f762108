"""The weights of a pruned segment: the number of entries merged into each kept entry, itself included."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nearmt.datastore.disk import AnySegment, FileRecord, SegmentRecord
from nearmt.datastore.disk.files import sync
from nearmt.errors import writing


def with_weights(folder: Path, record: SegmentRecord, weight_N: np.ndarray, how: dict[str, Any]) -> SegmentRecord:
    """The record of a segment with these weights; writes them to a new file of the segment."""
    record = without_weights(record)
    # A new name: until the manifest is replaced, the old weights must stay as they are.
    name = f"weight-{secrets.token_hex(4)}.i32"
    file = folder / record.name / name
    with writing(file):
        file.write_bytes(weight_N.astype("<i4").tobytes())
        sync(file)
    kept, largest = int((weight_N > 0).sum()), int(weight_N.max(initial=0))
    pruned = {**how, "file": name, "kept": kept, "largest": largest}
    return replace(record, files={**record.files, name: FileRecord.of(file)}, index={**record.index, "pruned": pruned})


def without_weights(record: SegmentRecord) -> SegmentRecord:
    pruned = record.pruned
    if pruned is None:
        return record
    files = {name: file for name, file in record.files.items() if name != pruned["file"]}
    index = {name: value for name, value in record.index.items() if name != "pruned"}
    return replace(record, files=files, index=index)


def with_weights_of(
    folder: Path, record: SegmentRecord, merged: Sequence[tuple[AnySegment, np.ndarray]]
) -> SegmentRecord:
    """The record of a segment merged from others (segment, which of its pairs), with their weights."""
    how = next((segment.record.pruned for segment, _ in merged if segment.record.pruned), None)
    if how is None:
        return record
    weights = []
    for segment, wanted_P in merged:
        wanted_N = np.repeat(wanted_P, np.diff(segment.end_P, prepend=0))
        whole_N = np.ones(len(wanted_N), dtype="<i4")
        weights.append((whole_N if segment.weight_N is None else segment.weight_N)[wanted_N])
    return with_weights(folder, record, np.concatenate(weights), how)
