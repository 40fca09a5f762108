"""Merging segments: which ones, and copying their pairs into a new segment."""

from __future__ import annotations

import dataclasses
import itertools
import secrets
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nearmt.datastore.disk import AnySegment, FileRecord, SegmentRecord, SegmentWriter
from nearmt.datastore.disk.pairs import BLOCK
from nearmt.errors import writing

#: Number of sealed segments of about one size that are merged: a store of n entries has about log n segments.
MERGED_TOGETHER = 4


def merge_count(sizes: Sequence[int]) -> int:
    """How many of the last segments to merge into one, given the entries of all.

    Segments of about one size are merged when there are enough of them; the result counts in turn.
    """
    count, total = 1, sizes[-1]
    while True:
        before = sizes[: len(sizes) - count]
        limit = MERGED_TOGETHER * total
        alike = list(itertools.takewhile(limit.__gt__, reversed(before)))
        if len(alike) < MERGED_TOGETHER - 1:
            return count
        count, total = count + len(alike), total + sum(alike)


def copy_pairs(writer: SegmentWriter, segment: AnySegment, wanted_P: np.ndarray) -> None:
    """Append the wanted pairs of a segment to the segment that is being written."""
    end_P, source_end_P, word_N = segment.end_P, segment.source_end_P, segment.word_N
    for number_B in np.array_split(np.flatnonzero(wanted_P), max(1, -(-int(wanted_P.sum()) // BLOCK))):
        spans = [(int(end_P[n - 1]) if n else 0, int(end_P[n])) for n in number_B]
        source_spans = [(int(source_end_P[n - 1]) if n else 0, int(source_end_P[n])) for n in number_B]
        tokens = [segment.token_N[start:end].tolist() for start, end in spans]
        if len(number_B):
            writer.append(
                [segment.pair(int(n)) for n in number_B],
                [segment.key_ND[start:end] for start, end in spans],
                tokens,
                [segment.source_S[start:end].tolist() for start, end in source_spans],
                sum(not part for part in tokens),
                [word_N[start:end] for start, end in spans],
            )


def with_deleted(folder: Path, segment: AnySegment, deleted_X: np.ndarray) -> SegmentRecord:
    """The record of a segment with these pair numbers deleted; writes the numbers to a new file of the segment."""
    record = segment.record
    files = {known: file for known, file in record.files.items() if not known.startswith("deleted")}
    if not len(deleted_X):
        return dataclasses.replace(record, files=files, deleted=None)
    # A new name: until the manifest is replaced, the old file must stay as it is.
    name = f"deleted-{secrets.token_hex(4)}.i64"
    path = folder / record.name / name
    with writing(path):
        path.write_bytes(deleted_X.astype("<i8").tobytes())
    entries = int(np.diff(segment.end_P, prepend=0)[deleted_X].sum())
    return dataclasses.replace(
        record,
        files={**files, name: FileRecord.of(path)},
        deleted={"file": name, "pairs": len(deleted_X), "entries": entries},
    )
