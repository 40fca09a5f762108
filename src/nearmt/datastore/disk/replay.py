"""Replaying a log: the content of a store is its sealed segments with the operations of the log applied.

The log says which pairs were added and deleted; the file of live blocks keeps the entries that were computed for
added pairs. Both only grow until a manifest names a new log, so a reader can follow them from one reading to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Generic

from nearmt.contracts import Pair
from nearmt.datastore.disk.content import Content, PlainPart, SomePart
from nearmt.datastore.disk.files import size_of
from nearmt.datastore.disk.live_segment import Block, check_logged, read_blocks
from nearmt.datastore.disk.log import Operation, ids_of, read_named_log
from nearmt.datastore.disk.manifest import Manifest, live_names
from nearmt.datastore.disk.segment import Segment


class ReplayedStore(Generic[SomePart]):
    """The content of a store, as far as its log has been read."""

    def __init__(self, path: Path, manifest: Manifest, parts: Sequence[SomePart]) -> None:
        self.path = path
        self._reset(manifest, parts)

    def _reset(self, manifest: Manifest, parts: Sequence[SomePart]) -> None:
        """Go back to the sealed segments; nothing of the log has been read."""
        self.manifest = manifest
        self.content = Content(parts, manifest.columns)
        #: Bytes of the log and of the live blocks that have been read, and pairs in these blocks.
        self.log_end = self.live_end = self.live_pairs = 0

    @property
    def log_path(self) -> Path | None:
        return None if self.manifest.log is None else self.path / self.manifest.log

    @property
    def live_path(self) -> Path:
        """The file of live blocks; there must be a log."""
        assert self.manifest.log is not None
        return self.path / live_names(self.manifest.log)[1]

    def follow(self) -> list[Operation]:
        """Apply what the log and the live blocks hold behind the last reading, and return the operations."""
        if self.log_path is None:
            return []
        # Blocks first: the log is read later, so it contains every pair that blocks were computed from.
        blocks = self._blocks()
        replay = read_named_log(self.log_path, self.log_end)
        self.apply(replay.operations, replay.end)
        check_logged([block for block, _ in blocks], self.content.encoded, self.content.added, self.log_path)
        if size_of(self.live_path) > (blocks[-1][1] if blocks else self.live_end):
            # Blocks that came in between: without them a change would be seen before earlier ones.
            blocks = self._blocks()
        for block, end in blocks:
            if not self.content.accepts(block):
                break  # the rest is computed again
            self.content.append_block(block)
            self.live_end, self.live_pairs = end, self.content.encoded
        return replay.operations

    def _blocks(self) -> list[tuple[Block, int]]:
        """The blocks behind the last one that was read, each with its end."""
        return read_blocks(self.live_path, self.manifest.columns, self.live_end)

    def apply(self, operations: Sequence[Operation], end: int) -> None:
        """Apply operations that end at byte `end` of the log."""
        for operation in operations:
            self.content.apply(operation)
        self.log_end = end

    def set_log(self, manifest: Manifest) -> None:
        """Go on with a manifest that differs only in naming a new, empty log."""
        self.manifest = manifest


def replayed(path: Path, manifest: Manifest) -> ReplayedStore[PlainPart]:
    """Open the segments of a store without their keys, and replay its log."""
    parts = [PlainPart(Segment(path / record.name, record, manifest.columns)) for record in manifest.segments]
    store = ReplayedStore(path, manifest, parts)
    store.follow()
    return store


def remaining_pairs(operations: Iterable[Operation]) -> tuple[list[Pair], set[str]]:
    """The pairs that operations leave behind, and all ids that they mention."""
    content = Content[PlainPart]([], columns=0)
    mentioned: set[str] = set()
    for operation in operations:
        content.apply(operation)
        mentioned.update(ids_of(operation))
    return list(content.pairs()), mentioned
