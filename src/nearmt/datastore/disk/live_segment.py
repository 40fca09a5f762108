"""The live segment: entries of the pairs in the log, held in memory and growing.

live-*.blocks caches its keys and tokens between openings, in blocks of pairs. The file is not synced: blocks that are
missing or damaged are computed again from the pairs of the log.
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
    """Entries of consecutive pairs of the log: target tokens (none if a pair is too long), source tokens, keys, and the
    codes of the source words that entries are aligned with."""

    #: Number of the first pair among the additions of the log, from 0.
    first: int
    tokens: list[list[int]]
    sources: list[list[int]]
    #: [entries of the block, D]
    key_ND: np.ndarray
    #: [entries of the block]
    word_N: np.ndarray
    #: Digest of the pairs (`mark_of`): the file may belong to another log.
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
        flat += [self.key_ND.astype("<f2"), self.word_N.astype("<u2")]
        return b"\n".join([head, b"".join(part.tobytes() for part in flat)])

    @classmethod
    def from_bytes(cls, raw: bytes, columns: int) -> Block | None:
        """Decode a block; None if it is invalid, so that its entries are computed again."""
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
        size = 4 * (entries + subwords) + 2 * columns * entries
        if len(rest) not in (size, size + 2 * entries):
            return None
        token_X = np.frombuffer(rest, dtype="<i4", count=entries + subwords)
        key_ND = np.frombuffer(rest, dtype="<f2", offset=token_X.nbytes, count=columns * entries)
        key_ND = key_ND.reshape(entries, columns)
        # Blocks made before nearmt 0.6 have no words.
        word_N = np.frombuffer(rest, dtype="<u2", offset=size) if len(rest) > size else np.zeros(entries, dtype="<u2")
        if not (is_within(token_X, 0, MOST_TOKENS) and is_finite(key_ND)):
            return None
        tokens_of, sources_of = _split(token_X[:entries], tokens), _split(token_X[entries:], sources)
        return cls(first, tokens_of, sources_of, key_ND, word_N, made_of)


def _lengths(raw: Any) -> list[int]:
    if not all(type(length) is int and length >= 0 for length in raw):
        raise ValueError("not a length")
    return list(raw)


def _split(token_X: np.ndarray, lengths: list[int]) -> list[list[int]]:
    return [part.tolist() for part in np.split(token_X, np.cumsum(lengths)[:-1])] if lengths else []


def read_blocks(path: Path, columns: int, start: int = 0) -> list[tuple[Block, int]]:
    """The blocks of a file from byte `start` on, each with its end; none if the file does not exist.

    Read blocks before the log: pairs are logged before blocks are computed, so a log that is read later has them all.
    """
    if not exists_inside(path) or path.stat().st_size < start:
        return []
    records = read_records(path, start)
    return list(zip(readable_blocks(records.payloads, columns), records.ends, strict=False))


def readable_blocks(payloads: Iterable[bytes], columns: int) -> list[Block]:
    """Decode blocks up to the first invalid one."""
    decoded = (Block.from_bytes(payload, columns) for payload in payloads)
    return [block for block in itertools.takewhile(lambda block: block is not None, decoded) if block]


def check_logged(blocks: Iterable[Block], encoded: int, added: Sequence[Pair], log: Path) -> None:
    """Refuse a log that lacks pairs for which blocks were computed: acknowledged additions are lost.

    `encoded`: how many additions of the log earlier blocks contain.
    """
    for block in blocks:
        pairs = added[block.first : block.first + len(block.tokens)]
        if block.first != encoded or (len(pairs) == len(block.tokens) and block.made_of != mark_of(pairs)):
            break  # the block belongs to another log
        encoded += len(block.tokens)
    if encoded > len(added):
        raise DamagedError(
            f"{log}: damaged: {encoded - len(added)} of its additions are lost (it holds {len(added)}, "
            f"{encoded} were computed from it); {REPAIR}"
        )


def mark_of(pairs: Iterable[Pair]) -> str:
    """A digest of pairs, by which a block recognises the pairs it was computed from."""
    content = "".join(map(content_id, pairs))
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


class _Growing:
    """An array that grows at its end; existing views keep their content."""

    def __init__(self, dtype: str, columns: int | None = None) -> None:
        self._shape = () if columns is None else (columns,)
        self._buffer = np.zeros((64, *self._shape), dtype=dtype)
        self._used = 0

    @property
    def view(self) -> np.ndarray:
        return self._buffer[: self._used]

    def extend(self, more: np.ndarray) -> None:
        need = self._used + len(more)
        if need > len(self._buffer):
            larger = np.zeros((2 * need, *self._shape), dtype=self._buffer.dtype)
            larger[: self._used] = self.view
            self._buffer = larger
        self._buffer[self._used : need] = more
        self._used = need


class LiveSegment:
    """Pairs and entries in memory. Frozen views keep their content when the segment grows."""

    def __init__(self, columns: int) -> None:
        self._pairs: list[Pair] = []
        self._key, self._token = _Growing("<f2", columns), _Growing("<i4")
        self._end, self._source_end = _Growing("<i8"), _Growing("<i8")
        self._source, self._id, self._word = _Growing("<i4"), _Growing("<u8"), _Growing("<u2")
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
        self._word.extend(block.word_N)
        self._token.extend(np.asarray([token for part in block.tokens for token in part], dtype="<i4"))
        self._source.extend(np.asarray([token for part in block.sources for token in part], dtype="<i4"))
        self._end.extend(ends)
        self._source_end.extend(source_ends)
        self._id.extend(np.asarray([digest_of(pair.id) for pair in pairs], dtype="<u8"))
        self._too_long += block.too_long
        self._pairs.extend(pairs)

    def frozen(self) -> FrozenLive:
        """A view of the present content."""
        return FrozenLive(self)


class FrozenLive:
    """A fixed view of a live segment, with the arrays of a sealed segment."""

    weight_N: np.ndarray | None = None
    kept_M: np.ndarray | None = None
    knows_sources = knows_words = True
    deleted_X = np.zeros(0, dtype="<i8")

    def __init__(self, live: LiveSegment) -> None:
        self.key_ND, self.token_N, self.end_P = live._key.view, live._token.view, live._end.view
        self.source_S, self.source_end_P = live._source.view, live._source_end.view
        self.id_P, self.word_N = live._id.view, live._word.view
        # The list only grows: its first `record.pairs` elements never change.
        self._pairs = live._pairs
        self.record = SegmentRecord("live", len(self.end_P), len(self.token_N), live._too_long, {})

    @property
    def searched_key_MD(self) -> np.ndarray:
        return self.key_ND

    @cached_property
    def largest_token(self) -> int:
        """The largest target token; -1 if there are none."""
        return int(self.token_N.max(initial=-1))

    def pair(self, number: int) -> Pair:
        return self._pairs[number]

    def sources(self) -> Iterator[str]:
        """The sources of all pairs."""
        return (pair.source for pair in self.pairs())

    def pairs(self) -> Iterator[Pair]:
        yield from self._pairs[: self.record.pairs]
