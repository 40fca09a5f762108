"""A segment: target tokens, keys and pairs in corpus order.

key.f16         [N, D]  PCA keys, one row an entry
token.i32       [N]     target token of each entry
end.i64         [P]     entries up to the end of each pair
pairs.jsonl             the pairs themselves
pair_start.i64  [P]     where each pair begins in pairs.jsonl
source.i32      [S]     source tokens of all pairs, concatenated
source_end.i64  [P]     source tokens up to the end of each pair
id.u64          [P]     digests of the pairs' ids, for looking pairs up
word.u16        [N]     code of the source word that each entry is aligned with; 0 for the end of a sentence
weight-*.i32    [N]     in a pruned segment: number of entries merged into each, itself included; 0 if it was merged
deleted-*.i64           numbers of deleted pairs, if there are any

Entry n's chunk is `token[n : min(n + c, end of its pair)]` and its states are the same slice of the
keys: chunks need no table, no pointers and no padding.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import copy
from functools import cached_property
from pathlib import Path

import numpy as np

from nearmt.contracts import Pair
from nearmt.datastore.disk.array_checks import (
    MOST_TOKENS,
    Damage,
    are_ends,
    are_starts,
    damaged,
    is_ascending,
    is_finite,
    is_within,
)
from nearmt.datastore.disk.ids import digest_of
from nearmt.datastore.disk.manifest import SegmentRecord
from nearmt.datastore.disk.pairs import BLOCK, pair_from_json
from nearmt.opening import opened

KEY, TOKEN, END, PAIRS, PAIR_START = "key.f16", "token.i32", "end.i64", "pairs.jsonl", "pair_start.i64"
SOURCE, SOURCE_END, ID, WORD = "source.i32", "source_end.i64", "id.u64", "word.u16"
FILES = (KEY, TOKEN, END, PAIRS, PAIR_START, SOURCE, SOURCE_END, ID, WORD)

#: A JSON string without its quotes, and the source in each line of `PAIRS`.
_STRING = rb'[^"\\\n]*+(?:\\.[^"\\\n]*+)*+'
_SOURCE = re.compile(rb'^\{"id": "' + _STRING + rb'", "source": "(' + _STRING + rb')", "target": "', re.MULTILINE)


class Segment:
    """A sealed segment, memory-mapped."""

    def __init__(self, folder: Path, record: SegmentRecord, columns: int, check: bool = True) -> None:
        """`check`: whether to refuse arrays with numbers out of range."""
        self.folder, self.record = folder, record
        for damage in size_damage(folder, record, columns):
            raise damaged(folder / damage.file, damage.reason)
        self.key_ND = _map(folder / KEY, "<f2", (record.entries, columns))
        self.token_N = _map(folder / TOKEN, "<i4", (record.entries,))
        self.end_P = _map(folder / END, "<i8", (record.pairs,))
        self._start_P = _map(folder / PAIR_START, "<i8", (record.pairs,))
        # Mapped like the other files: it stays readable after the store was compacted and the file removed.
        self._line_L = _map(folder / PAIRS, "u1", (record.files[PAIRS].bytes,))
        self.source_S, self.source_end_P = self._map_sources()
        self._id_P = _map(folder / ID, "<u8", (record.pairs,)) if ID in record.files else None
        #: Zeros in segments made before nearmt 0.6.
        self.word_N = np.zeros(record.entries, dtype="<u2")
        if self.knows_words:
            self.word_N = _map(folder / WORD, "<u2", (record.entries,))
        #: None unless the segment is pruned.
        self.weight_N = _map(folder / record.pruned["file"], "<i4", (record.entries,)) if record.pruned else None
        #: Numbers of the pairs that were deleted after the segment was sealed.
        self.deleted_X = self._map_deleted()
        for damage in self.damage() if check else ():
            raise damaged(folder / damage.file, damage.reason)

    def with_deleted(self, record: SegmentRecord) -> Segment:
        """The same segment with other deleted pairs; nothing else is opened or checked again."""
        if record == self.record:
            return self
        for damage in size_damage(self.folder, record, self.key_ND.shape[1]):
            raise damaged(self.folder / damage.file, damage.reason)
        same = copy(self)
        same.record = record
        same.deleted_X = same._map_deleted()
        for damage in same._deleted_damage():
            raise damaged(self.folder / damage.file, damage.reason)
        return same

    def _map_deleted(self) -> np.ndarray:
        deleted = self.record.deleted
        if not deleted:
            return np.zeros(0, dtype="<i8")
        return _map(self.folder / deleted["file"], "<i8", (deleted["pairs"],))

    def _map_sources(self) -> tuple[np.ndarray, np.ndarray]:
        """Source tokens of all pairs and their ends; segments made before nearmt 0.3 have none."""
        if SOURCE not in self.record.files or not self.record.pairs:
            return np.zeros(0, dtype="<i4"), np.zeros(self.record.pairs, dtype="<i8")
        tokens = self.record.files[SOURCE].bytes // 4
        ends = _map(self.folder / SOURCE_END, "<i8", (self.record.pairs,))
        return _map(self.folder / SOURCE, "<i4", (tokens,)), ends

    def damage(self) -> Iterator[Damage]:
        """Files with numbers out of range, keys excepted."""
        record = self.record
        if not is_within(self.token_N, 0, MOST_TOKENS):
            yield Damage(TOKEN, "a token that no vocabulary has")
        if not are_ends(self.end_P, record.entries):
            yield Damage(END, "pairs whose entries do not follow one another")
        if not are_starts(self._start_P, len(self._line_L)):
            yield Damage(PAIR_START, "pairs that begin where no line does")
        if not is_within(self.source_S, 0, MOST_TOKENS):
            yield Damage(SOURCE, "a token that no vocabulary has")
        if not are_ends(self.source_end_P, len(self.source_S)):
            yield Damage(SOURCE_END, "pairs whose sources do not follow one another")
        yield from self._deleted_damage()
        if record.pruned and self.weight_N is not None:
            kept = int(np.count_nonzero(self.weight_N))
            if kept != record.kept or not is_within(self.weight_N, 0, 1 << 31):
                yield Damage(record.pruned["file"], f"weights of {kept} instead of {record.kept} entries")

    def _deleted_damage(self) -> Iterator[Damage]:
        record = self.record
        if record.deleted and not is_ascending(self.deleted_X, 0, record.pairs - 1, strictly=True):
            yield Damage(record.deleted["file"], "deleted pairs that do not exist")

    def key_damage(self) -> Iterator[Damage]:
        """Damage of the keys, which take longer to check and are not used as offsets."""
        if not is_finite(self.key_ND):
            yield Damage(KEY, "keys that are no numbers")

    @cached_property
    def largest_token(self) -> int:
        """The largest target token; -1 if there are none."""
        return int(self.token_N.max(initial=-1))

    @property
    def kept_M(self) -> np.ndarray | None:
        """The entries in the index; None if all."""
        return None if self.weight_N is None else np.flatnonzero(self.weight_N)

    @property
    def searched_key_MD(self) -> np.ndarray:
        """The keys in the index; a copy if the segment is pruned."""
        kept_M = self.kept_M
        return self.key_ND if kept_M is None else self.key_ND[kept_M]

    @property
    def knows_sources(self) -> bool:
        """Whether source tokens are stored; segments made before nearmt 0.3 have none."""
        return SOURCE in self.record.files

    @property
    def knows_words(self) -> bool:
        """Whether the words that entries are aligned with are stored; segments made before nearmt 0.6 have none."""
        return WORD in self.record.files

    @cached_property
    def id_P(self) -> np.ndarray:
        """Digests of the pairs' ids; computed from the pairs in segments made before nearmt 0.4."""
        if self._id_P is not None:
            return self._id_P
        return np.fromiter((digest_of(pair.id) for pair in self.pairs()), dtype="<u8", count=self.record.pairs)

    def pair(self, number: int) -> Pair:
        last = number + 1 == self.record.pairs
        end = len(self._line_L) if last else int(self._start_P[number + 1])
        return _pair_of(self._line_L[int(self._start_P[number]) : end].tobytes(), self.folder / PAIRS, number)

    def line_starts(self, first: int, last: int) -> np.ndarray:
        """Where the lines of some pairs begin in `pairs.jsonl`, and where the last of them ends."""
        starts = self._start_P[first : last + 1]
        return starts if last < self.record.pairs else np.append(starts, len(self._line_L))

    def lines(self, first: int, last: int) -> np.ndarray:
        """The bytes of the lines of some pairs."""
        starts = self.line_starts(first, last)
        return self._line_L[int(starts[0]) : int(starts[-1])]

    def sources(self) -> Iterator[str]:
        """The sources of all pairs, deleted ones included; faster than `pairs`."""
        for first in range(0, self.record.pairs, BLOCK):
            last = min(first + BLOCK, self.record.pairs)
            found = _sources_of(self.lines(first, last).tobytes())
            if len(found) != last - first:  # not as nearmt writes them, or damaged
                found = [self.pair(number).source for number in range(first, last)]
            yield from found

    def pairs(self) -> Iterator[Pair]:
        """All pairs, deleted ones included."""
        for number in range(self.record.pairs):
            yield self.pair(number)


def read_pairs(path: Path) -> Iterator[Pair]:
    with opened(path) as file:
        for number, line in enumerate(file):
            yield _pair_of(line, path, number)


def _pair_of(line: bytes, path: Path, number: int) -> Pair:
    try:
        return pair_from_json(json.loads(line))
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"line {number + 1} is no pair") from error


def _sources_of(lines: bytes) -> list[str]:
    """The source in each line that is as nearmt writes it; none if one of them is no text."""
    try:
        return [_text_of(string) for string in _SOURCE.findall(lines)]
    except ValueError:
        return []


def _text_of(string: bytes) -> str:
    """The text of a JSON string without its quotes."""
    if b"\\" not in string:
        return string.decode()
    text: str = json.loads(b'"%b"' % string)
    text.encode()  # must have no lone surrogates
    return text


def size_damage(folder: Path, record: SegmentRecord, columns: int) -> Iterator[Damage]:
    """Files whose size does not match the counts in the record of their segment."""
    pairs, entries = record.pairs, record.entries
    sizes = {KEY: 2 * columns * entries, TOKEN: 4 * entries, END: 8 * pairs, PAIR_START: 8 * pairs}
    sizes[PAIRS] = record.files[PAIRS].bytes if PAIRS in record.files else 0
    if SOURCE in record.files:
        sizes |= {SOURCE: record.files[SOURCE].bytes // 4 * 4, SOURCE_END: 8 * pairs}
    if ID in record.files:
        sizes[ID] = 8 * pairs
    if WORD in record.files:
        sizes[WORD] = 2 * entries
    if record.pruned:
        sizes[record.pruned["file"]] = 4 * entries
    if record.deleted:
        sizes[record.deleted["file"]] = 8 * record.deleted["pairs"]
    for name, size in sizes.items():
        if name not in record.files:
            yield Damage(name, "the manifest does not name it")
        elif (found := (folder / name).stat().st_size) != size:
            yield Damage(name, f"{found} bytes for {pairs} pairs of {entries} entries")


def _map(path: Path, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Map a file as an array. Copy-on-write, because torch refuses read-only arrays; nothing is ever written."""
    if 0 in shape:
        return np.zeros(shape, dtype=dtype)
    with opened(path) as file:
        return np.memmap(file, dtype=dtype, mode="c", shape=shape)


def numbers(path: Path) -> np.ndarray:
    """Read a file of 64-bit integers."""
    with opened(path) as file:
        return np.fromfile(file, dtype="<i8")
