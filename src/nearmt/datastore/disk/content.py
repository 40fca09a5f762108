"""The pairs of a store: sealed segments, the changes that the log makes to them, and which pairs are visible.

Needs no model and no tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np

from nearmt.contracts import Pair
from nearmt.datastore.disk.ids import DigestIndex, digest_of
from nearmt.datastore.disk.live_segment import Block, FrozenLive, LiveSegment, mark_of
from nearmt.datastore.disk.log import Deleted, Operation
from nearmt.datastore.disk.segment import Segment
from nearmt.errors import DatastoreError


class Part(Protocol):
    """A segment with an index of its pair ids."""

    @property
    def segment(self) -> Segment | FrozenLive: ...

    @property
    def ids(self) -> DigestIndex: ...


class PlainPart:
    """A segment with an index of its pair ids and nothing else."""

    def __init__(self, segment: Segment) -> None:
        self.segment: Segment | FrozenLive = segment

    @cached_property
    def ids(self) -> DigestIndex:
        return DigestIndex(self.segment.id_P)


SomePart = TypeVar("SomePart", bound=Part)
#: (part, number within it). Part LOG numbers the additions of the log; the first of them are in the live segment.
Position = tuple[int, int]
LOG = -1


def deleted_mask(segment: Segment | FrozenLive) -> np.ndarray:
    """Which pairs of a sealed segment are deleted, [P]."""
    deleted_P = np.zeros(segment.record.pairs, dtype=bool)
    deleted_P[segment.deleted_X] = True
    return deleted_P


class Content(Generic[SomePart]):
    """The result of applying the operations of a log, in order, to sealed segments.

    When a pair is replaced, its old version stays visible until the new one is encoded.
    """

    def __init__(self, parts: Sequence[SomePart], columns: int) -> None:
        self.parts = list(parts)
        self.live = LiveSegment(columns)
        #: Pairs that the log adds, in order; the first `encoded` of them are in the live segment.
        self.added: list[Pair] = []
        self._deleted = [deleted_mask(part.segment) for part in self.parts]
        self._deleted_added: set[int] = set()
        self._number_of: dict[str, int] = {}
        #: By id, oldest first: earlier versions of pairs whose latest version is not encoded yet.
        self._older: dict[str, list[Position]] = {}

    # Changes

    def apply(self, operation: Operation) -> None:
        """Apply one operation of the log. Adding a pair replaces the pair with its id."""
        if isinstance(operation, Deleted):
            for identity in operation.ids:
                self._remove(identity)
                self._older.pop(identity, None)
            return
        identity = operation.pair.id
        if replaced := self._remove(identity):
            self._older.setdefault(identity, []).extend(replaced)
        self._number_of[identity] = len(self.added)
        self.added.append(operation.pair)

    def append_block(self, block: Block) -> None:
        """Append the entries of pending pairs to the live segment; the versions they replace become invisible."""
        pairs = self.added[block.first : block.first + len(block.tokens)]
        self.live.append(pairs, block)
        for number, pair in enumerate(pairs, block.first):
            if self._number_of.get(pair.id) == number:
                self._older.pop(pair.id, None)

    def accepts(self, block: Block) -> bool:
        """Whether a block holds the entries of the next pairs to be encoded."""
        pairs = self.added[block.first : block.first + len(block.tokens)]
        return block.first == self.encoded and len(pairs) == len(block.tokens) and block.made_of == mark_of(pairs)

    def _remove(self, identity: str) -> list[Position]:
        """Mark all pairs with this id as deleted and return their positions."""
        removed: list[Position] = []
        # A corpus may hold the same id several times.
        while (where := self._find_sealed(identity)) is not None:
            self._deleted[where[0]][where[1]] = True
            removed.append(where)
        if identity in self._number_of:
            number = self._number_of.pop(identity)
            self._deleted_added.add(number)
            removed.append((LOG, number))
        return removed

    # Encoding

    @property
    def encoded(self) -> int:
        """Number of added pairs that are in the live segment."""
        return self.live.pairs

    @property
    def unencoded(self) -> list[Pair]:
        """Added pairs that are not in the live segment yet, deleted ones included."""
        return self.added[self.encoded :]

    def pending(self) -> list[Pair]:
        """Added pairs that are not in the live segment yet, without deleted ones."""
        numbers = range(self.encoded, len(self.added))
        return [self.added[number] for number in numbers if number not in self._deleted_added]

    def is_deleted(self, number: int) -> bool:
        """Whether an added pair was deleted or replaced later."""
        return number in self._deleted_added

    # Pairs in their latest version, pending ones included

    def find(self, identity: str) -> Pair | None:
        """The pair with this id."""
        if identity in self._number_of:
            return self.added[self._number_of[identity]]
        where = self._find_sealed(identity)
        return None if where is None else self.parts[where[0]].segment.pair(where[1])

    def _find_sealed(self, identity: str) -> Position | None:
        """Position of the latest sealed pair with this id that is not deleted."""
        digest = digest_of(identity)
        for part_number in reversed(range(len(self.parts))):
            part, deleted_P = self.parts[part_number], self._deleted[part_number]
            for number in reversed(part.ids.find(digest)):
                if not deleted_P[number] and part.segment.pair(number).id == identity:
                    return part_number, number
        return None

    def check_known(self, ids: Iterable[str], store: Path) -> None:
        """Refuse ids that no pair has."""
        unknown = [identity for identity in ids if self.find(identity) is None]
        if unknown:
            more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
            named = ", ".join(f"'{identity}'" for identity in unknown[:3])
            raise DatastoreError(f"{store}: has no pair with the id {named}{more}; nothing was changed")

    def pairs(self) -> Iterator[Pair]:
        """All pairs, in corpus order."""
        for part, deleted_P in zip(self.parts, self._deleted, strict=True):
            yield from (part.segment.pair(int(number)) for number in np.flatnonzero(~deleted_P))
        yield from (pair for number, pair in enumerate(self.added) if number not in self._deleted_added)

    @property
    def pair_count(self) -> int:
        sealed = sum(int((~deleted_P).sum()) for deleted_P in self._deleted)
        return sealed + len(self.added) - len(self._deleted_added)

    # Pairs that searches find

    def visible(self) -> np.ndarray:
        """Which pairs searches find, first those of all sealed segments, then those of the live segment, [P]."""
        return np.concatenate([*map(self.visible_in, range(len(self.parts))), self.visible_live()])

    def visible_in(self, part_number: int) -> np.ndarray:
        """Which pairs of a sealed segment searches find, [P]: all but deleted ones, and old versions."""
        visible_P = ~self._deleted[part_number]
        visible_P[[number for part, number in self._old_versions() if part == part_number]] = True
        return visible_P

    def visible_live(self) -> np.ndarray:
        """Which pairs of the live segment searches find, [P]."""
        visible_P = np.ones(self.encoded, dtype=bool)
        visible_P[[number for number in self._deleted_added if number < self.encoded]] = False
        visible_P[[number for part, number in self._old_versions() if part == LOG]] = True
        return visible_P

    def _old_versions(self) -> Iterator[Position]:
        """The visible versions of replaced pairs that are pending: the latest with entries, if one has entries."""
        length_P = np.diff(self.live.frozen().end_P, prepend=0)
        for positions in self._older.values():
            live = [(part, number) for part, number in positions if part == LOG and number < self.encoded]
            sealed = [(part, number) for part, number in positions if part != LOG]
            with_entries = [(part, number) for part, number in live if length_P[number]]
            yield from with_entries[-1:] or sealed or live[-1:]
