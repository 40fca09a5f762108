"""The pairs of a store as text: enough to export it, or to build it again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nearmt.contracts import Pair
from nearmt.datastore.disk.content import PlainPart
from nearmt.datastore.disk.log import ids_of
from nearmt.datastore.disk.manifest import Manifest
from nearmt.datastore.disk.replay import ReplayedStore
from nearmt.datastore.disk.segment import PAIRS, numbers, read_pairs


def stored_pairs(folder: Path, manifest: Manifest) -> Iterator[Pair]:
    """Yield all pairs, pending ones included, in corpus order.

    Reads the text of segments and the log only, so damage to other files does not matter.
    """
    needed = {PAIRS, *(record.deleted["file"] for record in manifest.segments if record.deleted)}
    manifest.check_files(folder, only=needed)
    log = ReplayedStore[PlainPart](folder, manifest, [])
    changed = {identity for operation in log.follow() for identity in ids_of(operation)}
    for record in manifest.segments:
        deleted = set[int]()
        if record.deleted:
            deleted = set(numbers(folder / record.name / record.deleted["file"]).tolist())
        for number, pair in enumerate(read_pairs(folder / record.name / PAIRS)):
            if number not in deleted and pair.id not in changed:
                yield pair
    yield from log.content.pairs()
