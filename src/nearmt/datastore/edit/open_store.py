"""An open store: it follows the files on disk and publishes snapshots for searches."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from nearmt.datastore.disk import Manifest, Segment, SegmentRecord
from nearmt.datastore.disk.files import size_of, stamp_of
from nearmt.datastore.disk.ids import content_id
from nearmt.datastore.disk.log import Deleted, Operation
from nearmt.datastore.disk.manifest import FILE_NAME
from nearmt.datastore.disk.replay import ReplayedStore
from nearmt.datastore.search.checks import check_keys
from nearmt.datastore.search.snapshot import Part, Snapshot
from nearmt.errors import DatastoreError
from nearmt.index.milvus import RemoteUse
from nearmt.reduction import Reduction

#: Share of the time for which replaced files stay after which an open store looks for a new manifest.
_LOOK_AGAIN = 1 / 4
#: Attempts to open a store whose manifest another process replaces meanwhile.
_ATTEMPTS = 5


class OpenStore(ReplayedStore[Part]):
    """Segments, reduction and log of a store. Only `current` is handed out, and a snapshot never changes."""

    def __init__(
        self,
        path: Path,
        nominate: str,
        device: torch.device,
        verify: bool | None = None,
        remote: RemoteUse | None = None,
    ) -> None:
        self.path, self.nominate, self.device, self.remote = path, nominate, device, remote
        #: Held by the thread of this process that changes the store.
        self.changing = threading.RLock()
        #: When to look at the disk again at the latest: replaced files, which snapshots read, are removed later.
        self._renew_at = math.inf
        #: Whether a thread of this process is the writer, so that no other process replaces files.
        self._writing = False
        self._parts: dict[str, Part] = {}
        looked = time.monotonic()
        self._load(verify)
        self._look_again(looked)

    def _load(self, verify: bool | None = False) -> None:
        """Read the manifest and the files it names; segments that are open stay open.

        `verify`: whether to compare checksums; None: depending on the size of the store.
        """
        for left in reversed(range(_ATTEMPTS)):
            stamp = stamp_of(self.path / FILE_NAME)
            manifest = Manifest.load(self.path)
            try:
                with manifest.checking_files(self.path, thorough=verify):
                    self._parts = {record.name: self._part(record, manifest) for record in manifest.segments}
                    check_keys((part.segment for part in self._parts.values()), verify)
                    reduction = Reduction.load(self.path / manifest.reduction_name, manifest.columns)
                self.reduction = reduction.to(self.device)
                self._reset(manifest, list(self._parts.values()))
                self._manifest_stamp, self._history = stamp, ""
                self.follow()
                self.publish()
                return
            except (DatastoreError, OSError):
                if not left or stamp_of(self.path / FILE_NAME) == stamp:
                    raise

    def _part(self, record: SegmentRecord, manifest: Manifest) -> Part:
        known = self._parts.get(record.name)
        if known is not None and _without_deleted(known.segment.record) == _without_deleted(record):
            assert isinstance(known.segment, Segment)
            return known.with_segment(known.segment.with_deleted(record))
        return Part(Segment(self.path / record.name, record, manifest.columns), self.device, self.nominate, self.remote)

    def refresh(self, *, wait: bool = True) -> bool:
        """Load changes that were made on disk since; returns whether there were any.

        Without `wait`, nothing is loaded while another thread changes the store.
        """
        if not self.changing.acquire(blocking=wait):
            return False
        try:
            return self._refreshed()
        finally:
            self.changing.release()

    def renew(self) -> None:
        """Follow the disk if that is due: one who keeps on reading would end with files that are removed."""
        if self._writing or time.monotonic() < self._renew_at:
            return
        before = self.manifest.fingerprint
        self.refresh(wait=False)
        if self.manifest.fingerprint != before:
            raise DatastoreError(f"{self.path}: was encoded again with another model meanwhile; open it again")

    @contextmanager
    def held(self) -> Iterator[None]:
        """No other process replaces files while the block runs."""
        self._writing = True
        try:
            yield
        finally:
            self._writing = False

    def _refreshed(self) -> bool:
        looked = time.monotonic()
        changed = self._followed()
        self._look_again(looked)
        return changed

    def _look_again(self, looked: float) -> None:
        """Have `renew` look again some time after it looked last: never where no replaced files stay for others."""
        seconds = self.manifest.keep_replaced
        self._renew_at = looked + seconds * _LOOK_AGAIN if seconds else math.inf

    def _followed(self) -> bool:
        if stamp_of(self.path / FILE_NAME) != self._manifest_stamp:
            self._load()
            return True
        log_path = self.log_path
        if log_path is None or (size_of(log_path) == self.log_end and size_of(self.live_path) <= self.live_end):
            return False
        before = self.current.identity
        try:
            if size_of(log_path) < self.log_end:
                raise DatastoreError(f"{log_path}: a change that was read and not acknowledged was taken back")
            self.follow()
        except DatastoreError:
            # Either the log was replaced between two reads, or it is damaged; loading tells.
            self._load()
        if self.current.identity == self._identity():
            return self.current.identity != before
        self.publish()
        return True

    def set_log(self, manifest: Manifest) -> None:
        self.refresh()

    def apply(self, operations: Sequence[Operation], end: int) -> None:
        super().apply(operations, end)
        for operation in operations:
            if isinstance(operation, Deleted):
                change = operation.ids
            else:
                change = operation.pair.id, content_id(operation.pair)
            self._history = hashlib.sha256(f"{self._history}|{change}".encode(errors="surrogatepass")).hexdigest()

    def publish(self) -> None:
        """Make the present content the snapshot that new searches see."""
        content, manifest = self.content, self.manifest
        live = [Part(content.live.frozen(), self.device, self.nominate)] if content.encoded else []
        self.current = Snapshot(
            self._identity(),
            [*content.parts, *live],
            self.reduction,
            manifest.calibration,
            manifest.cache_columns,
            self.device,
            content.visible(),
        )

    def _identity(self) -> str:
        identity = self.manifest.identity
        if not self._history:
            return identity
        changes = f"{identity}|{self._history}|{self.content.encoded}"
        return hashlib.sha256(changes.encode()).hexdigest()[:12]


def _without_deleted(record: SegmentRecord) -> SegmentRecord:
    """The part of a record that keys and index depend on."""
    files = {name: file for name, file in record.files.items() if not name.startswith("deleted")}
    return dataclasses.replace(record, files=files, deleted=None)
