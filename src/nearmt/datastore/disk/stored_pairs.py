"""The pairs of a store as text: all that is needed to export it, or to build it anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nearmt.contracts import Pair
from nearmt.datastore.disk.live_segment import check_logged, read_blocks
from nearmt.datastore.disk.log import Added, Operation, read_named_log
from nearmt.datastore.disk.manifest import Manifest, live_names
from nearmt.datastore.disk.segment import PAIRS, numbers, read_pairs


def stored_pairs(folder: Path, manifest: Manifest) -> Iterator[Pair]:
    """All pairs, in corpus order. Needs neither keys nor a model: what else is damaged does not matter."""
    needed = {PAIRS, *(record.deleted["file"] for record in manifest.segments if record.deleted)}
    manifest.check_files(folder, only=needed)
    added, touched = replayed(_operations(folder, manifest))
    for record in manifest.segments:
        deleted = set[int]()
        if record.deleted:
            deleted = set(numbers(folder / record.name / record.deleted["file"]).tolist())
        for number, pair in enumerate(read_pairs(folder / record.name / PAIRS)):
            if number not in deleted and pair.id not in touched:
                yield pair
    yield from added


def _operations(folder: Path, manifest: Manifest) -> list[Operation]:
    """What the log says, if there is one and it has all that was computed from it."""
    if manifest.log is None:
        return []
    log, live = (folder / name for name in live_names(manifest.log))
    blocks = [block for block, _ in read_blocks(live, manifest.columns)]
    operations = read_named_log(log).operations
    check_logged(blocks, 0, [operation.pair for operation in operations if isinstance(operation, Added)], log)
    return operations


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
