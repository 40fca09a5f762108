"""A store that is open: its segments, its log as far as it was read, and the snapshot that searches see."""

from __future__ import annotations

import dataclasses
import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path

import torch

from nearmt.datastore.disk import Manifest, Segment, SegmentRecord
from nearmt.datastore.disk.content import Content
from nearmt.datastore.disk.ids import content_id
from nearmt.datastore.disk.live_segment import Block, check_logged, read_blocks
from nearmt.datastore.disk.log import Deleted, Operation, read_named_log
from nearmt.datastore.disk.manifest import FILE_NAME, live_names
from nearmt.datastore.search.checks import check_keys
from nearmt.datastore.search.snapshot import Part, Snapshot
from nearmt.errors import DatastoreError
from nearmt.reduction import Reduction

#: A writer may replace the manifest while somebody opens the store: then it is opened anew, so many times at most.
_TRIES = 5


class Opened:
    """Follows what is on disk. Only `now` is handed out, and that never changes."""

    def __init__(self, path: Path, search: str, device: torch.device, verify: bool | None = None) -> None:
        self.path, self.search, self.device = path, search, device
        #: One thread of this process changes the store at a time.
        self.changing = threading.RLock()
        self._parts: dict[str, Part] = {}
        self._load(verify)

    def _load(self, verify: bool | None = False) -> None:
        """Read the manifest and what it names; segments that are open stay so. `verify` None: by size."""
        for left in reversed(range(_TRIES)):
            stamp = _stamp(self.path / FILE_NAME)
            manifest = Manifest.load(self.path)
            try:
                manifest.check_files(self.path, thorough=verify)
                self._parts = {record.name: self._part(record, manifest) for record in manifest.segments}
                check_keys((part.segment for part in self._parts.values()), verify)
                self.reduction = Reduction.load(self.path / manifest.reduction_name, manifest.columns).to(self.device)
                self.manifest, self._manifest_stamp = manifest, stamp
                self.content = Content(list(self._parts.values()), manifest.columns)
                self.log_end = self.live_end = self.live_pairs = 0
                self._history = ""
                self._follow()
                self.publish()
                return
            except (DatastoreError, OSError):
                if not left or _stamp(self.path / FILE_NAME) == stamp:
                    raise

    def _part(self, record: SegmentRecord, manifest: Manifest) -> Part:
        known = self._parts.get(record.name)
        segment = Segment(self.path / record.name, record, manifest.columns)
        if known is not None and _without_deleted(known.segment.record) == _without_deleted(record):
            return known.with_segment(segment)
        return Part(segment, self.device, self.search)

    @property
    def log_path(self) -> Path | None:
        return None if self.manifest.log is None else self.path / self.manifest.log

    @property
    def live_path(self) -> Path:
        assert self.manifest.log is not None
        return self.path / live_names(self.manifest.log)[1]

    def refresh(self) -> bool:
        """See what was done to the store since; whether there was anything."""
        with self.changing:
            if _stamp(self.path / FILE_NAME) != self._manifest_stamp:
                self._load()
                return True
            log_path = self.log_path
            if log_path is None or (size_of(log_path) == self.log_end and size_of(self.live_path) <= self.live_end):
                return False
            before = self.now.identity
            try:
                if size_of(log_path) < self.log_end:
                    raise DatastoreError(f"{log_path}: what was read was not acknowledged, and taken back")
                self._follow()
            except DatastoreError:
                # Between two looks there was a new log; or one is damaged, and that is said again.
                self._load()
            if self.now.identity == self._identity():
                return self.now.identity != before
            self.publish()
            return True

    def apply(self, operations: Sequence[Operation], end: int) -> None:
        """Do what the log says up to its byte `end`."""
        for operation in operations:
            self.content.apply(operation)
            said = operation.ids if isinstance(operation, Deleted) else (operation.pair.id, content_id(operation.pair))
            self._history = hashlib.sha256(f"{self._history}|{said}".encode(errors="surrogatepass")).hexdigest()
        self.log_end = end

    def _follow(self) -> None:
        """Read on in the log and in what was computed from it."""
        if self.log_path is not None:
            blocks = read_blocks(self.live_path, self.manifest.columns, self.live_end)
            replay = read_named_log(self.log_path, self.log_end)
            self.apply(replay.operations, replay.end)
            check_logged([block for block, _ in blocks], self.content.encoded, self.content.added, self.log_path)
            self._take_in(blocks)

    def _take_in(self, blocks: Sequence[tuple[Block, int]]) -> None:
        """Take in blocks as far as they continue one another; the rest will be computed again."""
        for block, end in blocks:
            if not self.content.fits(block):
                return
            self.content.take_in(block)
            self.live_end, self.live_pairs = end, self.content.encoded

    def publish(self) -> None:
        """Let searches that start from now on see the content as it is."""
        content, manifest = self.content, self.manifest
        live = [Part(content.live.frozen(), self.device, self.search)] if content.encoded else []
        self.now = Snapshot(
            self._identity(),
            [*content.parts, *live],
            self.reduction,
            manifest.calibration,
            manifest.cache_columns,
            self.device,
            content.seen(),
        )

    def _identity(self) -> str:
        identity = self.manifest.identity
        if not self._history:
            return identity
        changes = f"{identity}|{self._history}|{self.content.encoded}"
        return hashlib.sha256(changes.encode()).hexdigest()[:12]


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Differs whenever a file was replaced."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def size_of(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _without_deleted(record: SegmentRecord) -> SegmentRecord:
    """What a segment's keys and index depend on."""
    files = {name: file for name, file in record.files.items() if not name.startswith("deleted")}
    return dataclasses.replace(record, files=files, deleted=None)
