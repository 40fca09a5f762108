"""A store opened without its keys: its pairs, and changes to them. Needs no model and no tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nearmt.contracts import Pair, Progress
from nearmt.datastore.disk.changes import ChangeWriter
from nearmt.datastore.disk.content import Content, PlainPart
from nearmt.datastore.disk.files import WriterLock, writer_lock
from nearmt.datastore.disk.manifest import Manifest
from nearmt.datastore.disk.replay import replayed


class Ledger:
    """The pairs of a store. Added pairs are pending until a model encodes them; deletions take effect at once."""

    def __init__(self, folder: Path, lock: WriterLock | None = None) -> None:
        """Without a lock the ledger is read-only."""
        self.folder, self.manifest = folder, Manifest.load(folder)
        self.manifest.check_files(folder, thorough=False)
        self._store = replayed(folder, self.manifest)
        self._lock = lock

    @classmethod
    @contextmanager
    def changing(cls, folder: Path) -> Iterator[Ledger]:
        """Open a store as its only writer."""
        Manifest.load(folder)  # a folder that is not a datastore gets no lock file
        with writer_lock(folder) as lock:
            yield cls(folder, lock)

    @property
    def content(self) -> Content[PlainPart]:
        return self._store.content

    @property
    def pairs(self) -> int:
        """Number of pairs, pending ones included."""
        return self.content.pair_count

    @property
    def pending(self) -> int:
        """Number of pairs that are not encoded yet."""
        return len(self.content.pending())

    def find(self, identity: str) -> Pair | None:
        return self.content.find(identity)

    def add(self, pairs: Iterable[Pair], progress: Progress | None = None, *, skip_unchanged: bool = False) -> int:
        """Log pairs and return their number; a pair replaces the pair with its id."""
        added = 0
        for block in self._changes().add(pairs, skip_unchanged=skip_unchanged):
            added += len(block)
            if progress:
                progress(added, 0)
        return added

    def update(self, identity: str, target: str) -> Pair:
        """Give a pair a new target, and return the new pair."""
        return self._changes().update(identity, target)

    def delete(self, ids: Iterable[str]) -> int:
        """Delete pairs and return their number."""
        return self._changes().delete(ids)

    def _changes(self) -> ChangeWriter:
        assert self._lock is not None, "opened for reading only"
        return ChangeWriter(self._store, self._lock)
