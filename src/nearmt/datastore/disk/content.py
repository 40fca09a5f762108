"""What a store holds: sealed segments, what the log added to them, and which pairs are gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np

from nearmt.contracts import Pair
from nearmt.datastore.disk.ids import DigestIndex, digest_of
from nearmt.datastore.disk.live_segment import Block, FrozenLive, LiveSegment, mark_of
from nearmt.datastore.disk.log import Added, Deleted
from nearmt.datastore.disk.segment import Segment
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
#: Part and place within it; the part LIVE is the log, of which the first places are in the live segment.
Position = tuple[int, int]
LIVE = -1


def gone_of(segment: Segment | FrozenLive) -> np.ndarray:
    """Which pairs of a sealed segment are deleted, [P]."""
    gone_P = np.zeros(segment.record.pairs, dtype=bool)
    gone_P[segment.deleted_X] = True
    return gone_P


class Content(Generic[SomePart]):
    """Changed by one operation of the log after the other, the same way by every reader of the log.

    A pair that replaces another is found once it is encoded; until then the other one is.
    """

    def __init__(self, parts: Sequence[SomePart], columns: int) -> None:
        self.parts = list(parts)
        self.live = LiveSegment(columns)
        #: Pairs of the log, in its order; the first ones are in the live segment, the others wait for a model.
        self.added: list[Pair] = []
        self._gone = [gone_of(part.segment) for part in self.parts]
        self._gone_added: set[int] = set()
        self._place_of: dict[str, int] = {}
        #: Older versions, oldest first, of pairs whose latest one waits for a model: found until that is encoded.
        self._older: dict[str, list[Position]] = {}

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
                self._older.pop(identity, None)
            return
        # An id that is known is replaced.
        identity = operation.pair.id
        if replaced := self._remove(identity):
            self._older.setdefault(identity, []).extend(replaced)
        self._place_of[identity] = len(self.added)
        self.added.append(operation.pair)

    def take_in(self, block: Block) -> None:
        """Entries of pairs that were pending; the versions that these replace are found no more."""
        pairs = self.added[block.first : block.first + len(block.tokens)]
        self.live.append(pairs, block)
        for place, pair in enumerate(pairs, block.first):
            if self._place_of.get(pair.id) == place:
                self._older.pop(pair.id, None)

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

    def _remove(self, identity: str) -> list[Position]:
        """Mark the pair with this id as gone; where it is."""
        removed: list[Position] = []
        # A corpus may hold the same id several times: all of them go.
        while (where := self._in_segments(identity)) is not None:
            self._gone[where[0]][where[1]] = True
            removed.append(where)
        if identity in self._place_of:
            place = self._place_of.pop(identity)
            self._gone_added.add(place)
            removed.append((LIVE, place))
        return removed

    def _in_segments(self, identity: str) -> tuple[int, int] | None:
        """(part, number within it) of the latest sealed pair with this id that is not gone."""
        digest = digest_of(identity)
        for number in reversed(range(len(self.parts))):
            part, gone_P = self.parts[number], self._gone[number]
            for place in reversed(part.ids.find(digest)):
                if not gone_P[place] and part.segment.pair(place).id == identity:
                    return number, place
        return None

    def held(self) -> Iterator[Pair]:
        """All pairs in their latest version, those that wait for a model among them."""
        for part, gone_P in zip(self.parts, self._gone, strict=True):
            yield from (part.segment.pair(int(place)) for place in np.flatnonzero(~gone_P))
        yield from (pair for place, pair in enumerate(self.added) if place not in self._gone_added)

    @property
    def count(self) -> int:
        """How many those are."""
        return sum(int((~gone_P).sum()) for gone_P in self._gone) + len(self.added) - len(self._gone_added)

    def seen_in(self, number: int) -> np.ndarray:
        """Which pairs of a sealed part can be found, [P]: its own, and old versions of what waits for a model."""
        seen_P = ~self._gone[number]
        seen_P[[place for part, place in self._old_versions() if part == number]] = True
        return seen_P

    def seen_live(self) -> np.ndarray:
        """The same of the live segment."""
        seen_P = np.ones(self.encoded, dtype=bool)
        seen_P[[place for place in self._gone_added if place < self.encoded]] = False
        seen_P[[place for part, place in self._old_versions() if part == LIVE]] = True
        return seen_P

    def _old_versions(self) -> Iterator[Position]:
        """What is found of pairs whose latest version waits: the latest one that has entries, if any of them has."""
        length_P = np.diff(self.live.frozen().end_P, prepend=0)
        for positions in self._older.values():
            live = [(part, place) for part, place in positions if part == LIVE and place < self.encoded]
            sealed = [(part, place) for part, place in positions if part != LIVE]
            with_entries = [(part, place) for part, place in live if length_P[place]]
            yield from with_entries[-1:] or sealed or live[-1:]

    def waiting(self) -> list[Pair]:
        """Pending pairs that are not gone."""
        places = range(self.encoded, len(self.added))
        return [self.added[place] for place in places if place not in self._gone_added]

    def seen(self) -> np.ndarray:
        """Which pairs can be found, those of all parts and then those of the live segment, [P]."""
        return np.concatenate([*map(self.seen_in, range(len(self.parts))), self.seen_live()])
