"""What a store holds: sealed segments, what the log added to them, and which pairs are gone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np

from nearmt.contracts import Pair
from nearmt.datastore.ids import DigestIndex, digest_of
from nearmt.datastore.live import Block, FrozenLive, LiveSegment, mark_of
from nearmt.datastore.log import Added, Deleted
from nearmt.datastore.segment import Segment
from nearmt.errors import DatastoreError


class Part(Protocol):
    """A segment whose pairs can be looked up by their ids."""

    @property
    def segment(self) -> Segment | FrozenLive: ...

    @property
    def ids(self) -> DigestIndex: ...


class PlainPart:
    """No more than that."""

    def __init__(self, segment: Segment) -> None:
        self.segment: Segment | FrozenLive = segment

    @cached_property
    def ids(self) -> DigestIndex:
        return DigestIndex(self.segment.id_P)


SomePart = TypeVar("SomePart", bound=Part)


def gone_of(segment: Segment | FrozenLive) -> np.ndarray:
    """Which pairs of a sealed segment are deleted, [P]."""
    gone_P = np.zeros(segment.record.pairs, dtype=bool)
    gone_P[segment.deleted_X] = True
    return gone_P


class Content(Generic[SomePart]):
    """Changed by one operation of the log after the other, the same way by whoever reads the log."""

    def __init__(self, parts: Sequence[SomePart], columns: int) -> None:
        self.parts = list(parts)
        self.live = LiveSegment(columns)
        #: Pairs of the log, in its order; the first ones are in the live segment, the others wait for a model.
        self.added: list[Pair] = []
        self._gone = [gone_of(part.segment) for part in self.parts]
        self._gone_added: set[int] = set()
        self._place_of: dict[str, int] = {}

    @property
    def encoded(self) -> int:
        """Pairs of the log that are in the live segment."""
        return self.live.pairs

    @property
    def pending(self) -> list[Pair]:
        """Pairs of the log that wait for a model, those among them that are gone again too."""
        return self.added[self.encoded :]

    def is_gone(self, place: int) -> bool:
        """Whether a pair of the log is."""
        return place in self._gone_added

    def apply(self, operation: Added | Deleted) -> None:
        if isinstance(operation, Deleted):
            for identity in operation.ids:
                self._remove(identity)
            return
        # An id that is known is replaced.
        self._remove(operation.pair.id)
        self._place_of[operation.pair.id] = len(self.added)
        self.added.append(operation.pair)

    def take_in(self, block: Block) -> None:
        """Entries of pairs that were pending."""
        self.live.append(self.added[block.first : block.first + len(block.tokens)], block)

    def fits(self, block: Block) -> bool:
        """Whether a block holds the pairs that are the next to be taken in."""
        pairs = self.added[block.first : block.first + len(block.tokens)]
        return block.first == self.encoded and len(pairs) == len(block.tokens) and block.made_of == mark_of(pairs)

    def find(self, identity: str) -> Pair | None:
        """The pair with this id, pending or not."""
        if identity in self._place_of:
            return self.added[self._place_of[identity]]
        where = self._in_segments(identity)
        return None if where is None else self.parts[where[0]].segment.pair(where[1])

    def check_known(self, ids: Iterable[str], store: Path) -> None:
        """Refuse ids that no pair has."""
        unknown = [identity for identity in ids if self.find(identity) is None]
        if unknown:
            more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
            named = ", ".join(f"'{identity}'" for identity in unknown[:3])
            raise DatastoreError(f"{store}: has no pair with the id {named}{more}; nothing was changed")

    def _remove(self, identity: str) -> None:
        if identity in self._place_of:
            self._gone_added.add(self._place_of.pop(identity))
        # A corpus may hold the same id several times: all of them go.
        while (where := self._in_segments(identity)) is not None:
            self._gone[where[0]][where[1]] = True

    def _in_segments(self, identity: str) -> tuple[int, int] | None:
        """(part, number within it) of the latest sealed pair with this id that is not gone."""
        digest = digest_of(identity)
        for number in reversed(range(len(self.parts))):
            part, gone_P = self.parts[number], self._gone[number]
            for place in reversed(part.ids.find(digest)):
                if not gone_P[place] and part.segment.pair(place).id == identity:
                    return number, place
        return None

    def gone(self, number: int) -> np.ndarray:
        """Which pairs of a sealed part are gone, [P]."""
        return self._gone[number]

    def gone_live(self) -> np.ndarray:
        """Which pairs of the live segment are gone, [P]."""
        gone_P = np.zeros(self.encoded, dtype=bool)
        gone_P[[place for place in self._gone_added if place < self.encoded]] = True
        return gone_P

    def waiting(self) -> list[Pair]:
        """Pending pairs that are not gone."""
        places = range(self.encoded, len(self.added))
        return [self.added[place] for place in places if place not in self._gone_added]

    def seen(self) -> np.ndarray:
        """Which pairs can be found, those of all parts and then those of the live segment, [P]."""
        return ~np.concatenate([*self._gone, self.gone_live()])
