"""Checks of segment files beyond their checksums: files may be altered on purpose, or written by a faulty program."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from nearmt.datastore.disk.array_checks import Damage
from nearmt.datastore.disk.manifest import Manifest, SegmentRecord
from nearmt.datastore.disk.segment import PAIRS, Segment, read_pairs, size_damage
from nearmt.errors import DatastoreError


def segment_damage(folder: Path, manifest: Manifest, damaged: Collection[str]) -> dict[str, str]:
    """Damage of segment files, by path within the store; segments with files known to be `damaged` are skipped."""
    found: dict[str, str] = {}
    for record in manifest.segments:
        if not any(f"{record.name}/{name}" in damaged for name in record.files):
            for wrong in _in_segment(folder / record.name, record, manifest.columns):
                found[f"{record.name}/{wrong.file}"] = wrong.reason
    return found


def _in_segment(folder: Path, record: SegmentRecord, columns: int) -> Iterator[Damage]:
    sizes = list(size_damage(folder, record, columns))
    yield from sizes
    if not sizes:
        segment = Segment(folder, record, columns, check=False)
        yield from segment.damage()
        yield from segment.key_damage()
    lines = 0
    try:
        for _ in read_pairs(folder / PAIRS):
            lines += 1
    except DatastoreError:
        yield Damage(PAIRS, f"line {lines + 1} is no pair")
    else:
        if lines != record.pairs:
            yield Damage(PAIRS, f"{lines} lines instead of {record.pairs}")
