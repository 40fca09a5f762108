"""The live segment: what the log holds and no sealed segment does, in memory, growing.

live-*.blocks keeps its keys and tokens from one opening to the next, block by block, behind the log. It is never
waited for to reach the disk: what is missing or damaged in it is computed again from the pairs of the log.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from nearmt.contracts import Pair
from nearmt.datastore.disk.array_checks import MOST_TOKENS, is_finite, is_within
from nearmt.datastore.disk.ids import content_id, digest_of
from nearmt.datastore.disk.manifest import REPAIR, SegmentRecord
from nearmt.datastore.disk.records import read_records
from nearmt.errors import DamagedError
from nearmt.opening import exists_inside


@dataclass(frozen=True)
class Block:
    """Some pairs of the log as entries: T keys and tokens a pair (none if it is too long), and its source's tokens."""

    #: Which addition of the log the block begins with, counted from 0.
    first: int
    tokens: list[list[int]]
    sources: list[list[int]]
    #: [entries of the block, D]
    key_ND: np.ndarray
    #: Tells of which pairs: a file may be left from another log.
    made_of: str = ""

    @property
    def too_long(self) -> int:
        return sum(not tokens for tokens in self.tokens)

    def to_bytes(self) -> bytes:
        lengths = [[len(part) for part in side] for side in (self.tokens, self.sources)]
        head = json.dumps(
            {"first": self.first, "tokens": lengths[0], "sources": lengths[1], "made_of": self.made_of}
        ).encode()
        flat = [np.asarray([t for part in side for t in part], dtype="<i4") for side in (self.tokens, self.sources)]
        return b"\n".join([head, flat[0].tobytes() + flat[1].tobytes() + self.key_ND.astype("<f2").tobytes()])

    @classmethod
    def from_bytes(cls, raw: bytes, columns: int) -> Block | None:
        """None where there is no such block: what it should hold is computed again."""
        try:
            head, _, rest = raw.partition(b"\n")
            fields: dict[str, Any] = json.loads(head)
            tokens, sources = _lengths(fields["tokens"]), _lengths(fields["sources"])
            first, made_of = fields["first"], fields.get("made_of", "")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        entries, subwords = sum(tokens), sum(sources)
        if type(first) is not int or first < 0 or not isinstance(made_of, str) or len(tokens) != len(sources):
            return None
        if len(rest) != 4 * (entries + subwords) + 2 * columns * entries:
            return None
        token_X = np.frombuffer(rest, dtype="<i4", count=entries + subwords)
        key_ND = np.frombuffer(rest, dtype="<f2", offset=token_X.nbytes).reshape(entries, columns)
        if not (is_within(token_X, 0, MOST_TOKENS) and is_finite(key_ND)):
            return None
        return cls(first, _split(token_X[:entries], tokens), _split(token_X[entries:], sources), key_ND, made_of)


def _lengths(raw: Any) -> list[int]:
    if not all(type(length) is int and length >= 0 for length in raw):
        raise ValueError("a length that is none")
    return list(raw)


def _split(token_X: np.ndarray, lengths: list[int]) -> list[list[int]]:
    return [part.tolist() for part in np.split(token_X, np.cumsum(lengths)[:-1])] if lengths else []


def read_blocks(path: Path, columns: int, start: int = 0) -> list[tuple[Block, int]]:
    """The blocks of a file from `start` on, and where each ends; none where there is no file.

    To be read before the log: what blocks were computed from was logged before, so a log that is read later has it.
    """
    if not exists_inside(path) or path.stat().st_size < start:
        return []
    records = read_records(path, start)
    return list(zip(readable_blocks(records.payloads, columns), records.ends, strict=False))


def readable_blocks(payloads: Iterable[bytes], columns: int) -> list[Block]:
    """Blocks up to the first that is none."""
    decoded = (Block.from_bytes(payload, columns) for payload in payloads)
    return [block for block in itertools.takewhile(lambda block: block is not None, decoded) if block]


def check_logged(blocks: Iterable[Block], encoded: int, added: Sequence[Pair], log: Path) -> None:
    """Refuse a log that lacks what was computed from it: additions that were acknowledged are lost.

    `encoded` says how many of the log's additions earlier blocks hold.
    """
    for block in blocks:
        pairs = added[block.first : block.first + len(block.tokens)]
        if block.first != encoded or (len(pairs) == len(block.tokens) and block.made_of != mark_of(pairs)):
            break  # of another log
        encoded += len(block.tokens)
    if encoded > len(added):
        raise DamagedError(
            f"{log}: damaged: {encoded - len(added)} of its additions are lost (it holds {len(added)}, "
            f"{encoded} were computed from it); {REPAIR}"
        )


def mark_of(pairs: Iterable[Pair]) -> str:
    """What a block that is made of these pairs is known by."""
    content = "".join(map(content_id, pairs))
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


class _Growing:
    """An array that grows at its end. Views of what was there stay as they are."""

    def __init__(self, dtype: str, columns: int | None = None) -> None:
        self._shape = () if columns is None else (columns,)
        self._room = np.zeros((64, *self._shape), dtype=dtype)
        self._used = 0

    @property
    def view(self) -> np.ndarray:
        return self._room[: self._used]

    def extend(self, more: np.ndarray) -> None:
        need = self._used + len(more)
        if need > len(self._room):
            room = np.zeros((2 * need, *self._shape), dtype=self._room.dtype)
            room[: self._used] = self.view
            self._room = room
        self._room[self._used : need] = more
        self._used = need


class LiveSegment:
    """Pairs and entries like those of a sealed segment. What has been read of it does not change when it grows."""

    def __init__(self, columns: int) -> None:
        self._pairs: list[Pair] = []
        self._key, self._token = _Growing("<f2", columns), _Growing("<i4")
        self._end, self._source_end = _Growing("<i8"), _Growing("<i8")
        self._source, self._id = _Growing("<i4"), _Growing("<u8")
        self._too_long = 0

    @property
    def pairs(self) -> int:
        return len(self._pairs)

    @property
    def entries(self) -> int:
        return len(self._token.view)

    def append(self, pairs: Sequence[Pair], block: Block) -> None:
        ends = len(self._token.view) + np.cumsum([len(part) for part in block.tokens])
        source_ends = len(self._source.view) + np.cumsum([len(part) for part in block.sources])
        self._key.extend(block.key_ND)
        self._token.extend(np.asarray([token for part in block.tokens for token in part], dtype="<i4"))
        self._source.extend(np.asarray([token for part in block.sources for token in part], dtype="<i4"))
        self._end.extend(ends)
        self._source_end.extend(source_ends)
        self._id.extend(np.asarray([digest_of(pair.id) for pair in pairs], dtype="<u8"))
        self._too_long += block.too_long
        self._pairs.extend(pairs)

    def frozen(self) -> FrozenLive:
        """The segment as it is now."""
        return FrozenLive(self)


class FrozenLive:
    """A live segment at one moment, with the arrays of a sealed one."""

    weight_N: np.ndarray | None = None
    kept_M: np.ndarray | None = None
    knows_sources = True
    deleted_X = np.zeros(0, dtype="<i8")

    def __init__(self, live: LiveSegment) -> None:
        self.key_ND, self.token_N, self.end_P = live._key.view, live._token.view, live._end.view
        self.source_S, self.source_end_P = live._source.view, live._source_end.view
        self.id_P = live._id.view
        # The list only grows: its beginning is this segment for good.
        self._pairs = live._pairs
        self.record = SegmentRecord("live", len(self.end_P), len(self.token_N), live._too_long, {})

    @property
    def searched_key_MD(self) -> np.ndarray:
        return self.key_ND

    @cached_property
    def largest_token(self) -> int:
        """The largest of the target tokens; -1 where there is none."""
        return int(self.token_N.max(initial=-1))

    def pair(self, number: int) -> Pair:
        return self._pairs[number]

    def pairs(self) -> Iterator[Pair]:
        yield from self._pairs[: self.record.pairs]
