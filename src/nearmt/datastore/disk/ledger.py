"""A store without its keys: what it holds, and the log of what is done to it. Needs no model and loads no tensors."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nearmt.contracts import Pair, Progress
from nearmt.datastore.disk.content import Content, PlainPart
from nearmt.datastore.disk.files import WriterLock, writer_lock
from nearmt.datastore.disk.ids import with_ids
from nearmt.datastore.disk.live_segment import check_logged, read_blocks
from nearmt.datastore.disk.log import Added, Deleted, Log, Operation, begin_log, read_named_log
from nearmt.datastore.disk.manifest import Manifest, live_names
from nearmt.datastore.disk.pairs import blocks_of
from nearmt.datastore.disk.segment import Segment


class Ledger:
    """What is logged here waits for somebody with a model; what is deleted here is gone for everybody."""

    def __init__(self, folder: Path, lock: WriterLock | None = None) -> None:
        """Without a lock it can only be read."""
        self._lock = lock
        self.folder, self.manifest = folder, Manifest.load(folder)
        self.manifest.check_files(folder, thorough=False)
        self.content = replayed_content(folder, self.manifest)

    @classmethod
    @contextmanager
    def changing(cls, folder: Path) -> Iterator[Ledger]:
        """Be the only writer of a store."""
        Manifest.load(folder)  # a folder that is no datastore gets no lock
        with writer_lock(folder) as lock:
            yield cls(folder, lock)

    @property
    def pairs(self) -> int:
        """Pairs that are there, those that wait for a model among them."""
        return self.content.count

    @property
    def pending(self) -> int:
        return len(self.content.waiting())

    def find(self, identity: str) -> Pair | None:
        return self.content.find(identity)

    def add(self, pairs: Iterable[Pair], progress: Progress | None = None) -> int:
        """Log pairs and return how many; one whose id is known takes the place of the old one."""
        added = 0
        for block in blocks_of(with_ids(pairs, lambda known: self.find(known) is not None)):
            self._log([Added(pair) for pair in block])
            added += len(block)
            if progress:
                progress(added, 0)
        return added

    def update(self, identity: str, target: str) -> Pair:
        """Give a pair another target, and return the pair as it is now."""
        self.content.check_known([identity], self.folder)
        known = self.find(identity)
        assert known is not None
        pair = dataclasses.replace(known, target=target)
        self._log([Added(pair)])
        return pair

    def delete(self, ids: Iterable[str]) -> int:
        """Delete pairs and return how many."""
        wanted = tuple(dict.fromkeys(ids))
        self.content.check_known(wanted, self.folder)
        if wanted:
            self._log([Deleted(wanted)])
        return len(wanted)

    def _log(self, operations: Sequence[Operation]) -> None:
        """Acknowledge operations: they are on disk when this returns."""
        assert self._lock is not None
        self._lock.check()
        if self.manifest.log is None:
            self.manifest = dataclasses.replace(self.manifest, log=begin_log(self.folder))
            self.manifest.save(self.folder)
        assert self.manifest.log is not None
        with Log(self.folder / self.manifest.log) as log:
            log.append(operations)
        self._lock.check()
        for operation in operations:
            self.content.apply(operation)


def replayed_content(folder: Path, manifest: Manifest) -> Content[PlainPart]:
    """What a store holds, its log included."""
    parts = [PlainPart(Segment(folder / record.name, record, manifest.columns)) for record in manifest.segments]
    content = Content(parts, manifest.columns)
    if manifest.log is None:
        return content
    log, live = (folder / name for name in live_names(manifest.log))
    blocks = [block for block, _ in read_blocks(live, manifest.columns)]
    for operation in read_named_log(log).operations:
        content.apply(operation)
    check_logged(blocks, 0, content.added, log)
    for block in itertools.takewhile(content.fits, blocks):
        content.take_in(block)
    return content
