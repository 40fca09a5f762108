"""The pairs of a store as text: all that is needed to export it, or to build it anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nearmt.contracts import Pair
from nearmt.datastore.log import Added, Operation, read_named_log
from nearmt.datastore.manifest import Manifest
from nearmt.datastore.segment import PAIRS, numbers, read_pairs


def stored_pairs(folder: Path, manifest: Manifest) -> Iterator[Pair]:
    """All pairs, in corpus order. Needs neither keys nor a model: what else is damaged does not matter."""
    needed = {PAIRS, *(record.deleted["file"] for record in manifest.segments if record.deleted)}
    manifest.check_files(folder, only=needed)
    operations = read_named_log(folder / manifest.log).operations if manifest.log else []
    added, touched = replayed(operations)
    for record in manifest.segments:
        deleted = set[int]()
        if record.deleted:
            deleted = set(numbers(folder / record.name / record.deleted["file"]).tolist())
        for number, pair in enumerate(read_pairs(folder / record.name / PAIRS)):
            if number not in deleted and pair.id not in touched:
                yield pair
    yield from added


def replayed(operations: list[Operation]) -> tuple[list[Pair], set[str]]:
    """The pairs that operations leave behind, and all ids that they speak of."""
    added: dict[str, Pair] = {}
    touched: set[str] = set()
    for operation in operations:
        ids = (operation.pair.id,) if isinstance(operation, Added) else operation.ids
        for identity in ids:
            added.pop(identity, None)
            touched.add(identity)
        if isinstance(operation, Added):
            added[operation.pair.id] = operation.pair
    return list(added.values()), touched
