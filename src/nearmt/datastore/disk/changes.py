"""Changing a store: every change is an append to its log. Needs no model and no tensors.

A change is acknowledged once its records are synced to disk. Everything else (encoding, sealing, merging) is computed
from the log and can be repeated after a crash.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from nearmt.contracts import Pair
from nearmt.datastore.disk.files import WriterLock
from nearmt.datastore.disk.ids import with_ids
from nearmt.datastore.disk.log import Added, Deleted, Log, Operation, begin_log
from nearmt.datastore.disk.pairs import blocks_of
from nearmt.datastore.disk.replay import ReplayedStore
from nearmt.timing import timed


class ChangeWriter:
    """Appends additions, updates and deletions to the log of a store that is locked for writing."""

    def __init__(self, store: ReplayedStore[Any], lock: WriterLock) -> None:
        self._store, self._lock = store, lock

    def add(self, pairs: Iterable[Pair], *, skip_unchanged: bool = False) -> Iterator[list[Pair]]:
        """Log pairs block by block; each block is on disk when it is yielded.

        A pair replaces the pair with its id. Pairs without an id get one that is not in use. With
        `skip_unchanged`, blocks lack the pairs that the store already has exactly as they are.
        """
        find = self._store.content.find
        for block in blocks_of(with_ids(pairs, lambda identity: find(identity) is not None)):
            changed = list(self._changed(block)) if skip_unchanged else block
            if changed:
                self.append([Added(pair) for pair in changed])
            yield changed

    def _changed(self, block: Sequence[Pair]) -> Iterator[Pair]:
        """The pairs of a block that differ from the present pair with their id."""
        latest: dict[str, Pair] = {}
        for pair in block:
            if (latest.get(pair.id) or self._store.content.find(pair.id)) != pair:
                latest[pair.id] = pair
                yield pair

    def update(self, identity: str, target: str) -> Pair:
        """Log a new target for a pair, and return the new pair."""
        content = self._store.content
        content.check_known([identity], self._store.path)
        known = content.find(identity)
        assert known is not None
        pair = dataclasses.replace(known, target=target)
        self.append([Added(pair)])
        return pair

    def delete(self, ids: Iterable[str]) -> int:
        """Log the deletion of pairs and return their number; all ids must exist."""
        wanted = tuple(dict.fromkeys(ids))
        self._store.content.check_known(wanted, self._store.path)
        if wanted:
            self.append([Deleted(wanted)])
        return len(wanted)

    def append(self, operations: Sequence[Operation]) -> None:
        """Acknowledge operations: they are on disk when this returns, and applied to the content."""
        store = self._store
        self._lock.check()
        if store.log_path is None:
            manifest = dataclasses.replace(store.manifest, log=begin_log(store.path))
            manifest.save(store.path)
            store.set_log(manifest)
        assert store.log_path is not None
        with timed("store/log"), Log(store.log_path) as log:
            end = log.append(operations)
        self._lock.check()
        store.apply(operations, end)
