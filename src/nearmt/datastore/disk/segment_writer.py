"""Writing a segment block by block; an interrupted build can be continued."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from nearmt.contracts import Pair
from nearmt.datastore.disk.file_checks import FileRecord
from nearmt.datastore.disk.files import sync, write_json
from nearmt.datastore.disk.ids import digest_of
from nearmt.datastore.disk.manifest import SegmentRecord
from nearmt.datastore.disk.pairs import pair_from_json, pair_to_json
from nearmt.datastore.disk.segment import (
    END,
    FILES,
    ID,
    KEY,
    PAIR_START,
    PAIRS,
    SOURCE,
    SOURCE_END,
    TOKEN,
    WORD,
    numbers,
)
from nearmt.errors import writing
from nearmt.opening import opened

_PROGRESS = "progress.json"


@dataclass(frozen=True)
class PairBlock:
    """P pairs with N entries, S source tokens and L bytes of JSON, as they are written; lengths are those of pairs."""

    key_ND: bytes | np.ndarray
    token_N: np.ndarray
    token_P: np.ndarray
    line_L: bytes | np.ndarray
    line_P: np.ndarray
    source_S: np.ndarray
    source_P: np.ndarray
    digest_P: np.ndarray
    word_N: np.ndarray


class SegmentWriter:
    """Appends blocks of encoded pairs; after an interruption it continues behind the last complete block."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        """`settings` identify the build: files of an unfinished build with other settings are discarded."""
        self.folder = folder
        self._settings = settings
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        self._progress = self._resume() or {"pairs": 0, "entries": 0, "too_long": 0, "bytes": dict.fromkeys(FILES, 0)}
        with writing(folder):
            for name in FILES:
                with opened(folder / name, "ab") as file:
                    file.truncate(self._progress["bytes"][name])
        #: Checksums of what was written so far; None if an earlier process wrote a part of it.
        self._content = None if self.pairs else {name: hashlib.sha256() for name in FILES}

    @property
    def pairs(self) -> int:
        """Number of pairs that are on disk."""
        return int(self._progress["pairs"])

    @property
    def entries(self) -> int:
        return int(self._progress["entries"])

    def append(
        self,
        pairs: list[Pair],
        keys: list[np.ndarray],
        tokens: list[list[int]],
        sources: list[list[int]],
        too_long: int,
        words: list[np.ndarray] | None = None,
    ) -> None:
        """Write a block: for each pair its keys [T, D], its T target tokens (none if it is too long), its source's, and
        the codes of the words that the target tokens are aligned with [T], 0 where they are unknown."""
        words = [np.zeros(len(part)) for part in tokens] if words is None else words
        lines = [json.dumps(pair_to_json(pair), ensure_ascii=False).encode() + b"\n" for pair in pairs]
        block = PairBlock(
            key_ND=b"".join(key.astype("<f2").tobytes() for key in keys),
            token_N=np.asarray([token for part in tokens for token in part]),
            token_P=_lengths(tokens),
            line_L=b"".join(lines),
            line_P=_lengths(lines),
            source_S=np.asarray([token for part in sources for token in part]),
            source_P=_lengths(sources),
            digest_P=np.asarray([digest_of(pair.id) for pair in pairs], dtype="<u8"),
            word_N=np.concatenate([*words, np.zeros(0)]),
        )
        self.write(block, too_long)

    def write(self, block: PairBlock, too_long: int) -> None:
        """Write a block of pairs, of which so many are too long and have no entries."""
        begin = self._progress["bytes"]
        ends = self.entries + np.cumsum(block.token_P)
        content: dict[str, bytes | np.ndarray] = {
            KEY: block.key_ND,
            TOKEN: block.token_N.astype("<i4", copy=False),
            END: ends.astype("<i8"),
            PAIRS: block.line_L,
            PAIR_START: (begin[PAIRS] + np.cumsum(block.line_P) - block.line_P).astype("<i8"),
            SOURCE: block.source_S.astype("<i4", copy=False),
            SOURCE_END: (begin[SOURCE] // 4 + np.cumsum(block.source_P)).astype("<i8"),
            ID: block.digest_P,
            WORD: block.word_N.astype("<u2", copy=False),
        }
        views = {name: _bytes_of(data) for name, data in content.items()}
        with ThreadPoolExecutor(1, "nearmt-checksums") as thread:
            checked = thread.submit(self._check_sums, views)
            for name, view in views.items():
                with writing(self.folder / name), opened(self.folder / name, "ab") as file:
                    file.write(view)
                self._progress["bytes"][name] += len(view)
            for name in views:  # after all are written: the system writes them together
                with writing(self.folder / name):
                    sync(self.folder / name)
            checked.result()
        self._progress["pairs"] += len(block.token_P)
        self._progress["entries"] = int(ends[-1]) if len(ends) else self.entries
        self._progress["too_long"] += too_long
        self._record()

    def _check_sums(self, views: dict[str, bytes | memoryview]) -> None:
        """Go on with the checksums of the files, while they are written."""
        for name, content in (self._content or {}).items():
            content.update(views[name])

    def _record(self) -> None:
        write_json(self.folder / _PROGRESS, {"settings": self._settings, "progress": self._progress})

    def keep_common(self, pairs: Iterator[Pair]) -> Iterator[Pair]:
        """Keep the written pairs up to the first difference from `pairs`, and return the pairs left to write."""
        common = 0
        left: list[Pair] = []
        if self.pairs:
            with opened(self.folder / PAIRS) as file:
                for _ in range(self.pairs):
                    pair = next(pairs, None)
                    if pair != pair_from_json(json.loads(file.readline())):
                        left = [] if pair is None else [pair]
                        break
                    common += 1
        self._truncate(common)
        return chain(left, pairs)

    def _truncate(self, pairs: int) -> None:
        """Drop all but the first pairs."""
        if pairs == self.pairs:
            return
        end_P = numbers(self.folder / END)
        start_P = numbers(self.folder / PAIR_START)
        entries = int(end_P[pairs - 1]) if pairs else 0
        row = self._progress["bytes"][KEY] // self.entries if self.entries else 0
        sizes = {KEY: entries * row, TOKEN: entries * 4, END: pairs * 8, PAIRS: int(start_P[pairs])}
        source_end_P = numbers(self.folder / SOURCE_END)
        sizes |= {
            PAIR_START: pairs * 8,
            SOURCE: 4 * int(source_end_P[pairs - 1]) if pairs else 0,
            SOURCE_END: pairs * 8,
            ID: pairs * 8,
            WORD: entries * 2,
        }
        too_long = int((np.diff(end_P[:pairs], prepend=0) == 0).sum())
        self._progress = {"pairs": pairs, "entries": entries, "too_long": too_long, "bytes": sizes}
        # Recorded before files are truncated: they may hold more than is recorded, never less.
        self._record()
        for name, size in sizes.items():
            with opened(self.folder / name, "r+b") as file:
                file.truncate(size)

    def seal(self) -> SegmentRecord:
        """The record of the finished segment. Its progress file is removed when a manifest names the segment."""
        files = {name: self._file_record(name) for name in FILES}
        return SegmentRecord(self.folder.name, self.pairs, self.entries, int(self._progress["too_long"]), files)

    def _file_record(self, name: str) -> FileRecord:
        if self._content is None:
            return FileRecord.of(self.folder / name)
        return FileRecord(self._progress["bytes"][name], self._content[name].hexdigest())

    def _resume(self) -> dict[str, Any] | None:
        try:
            with opened(self.folder / _PROGRESS, "r") as file:
                left = json.loads(file.read())
            complete = all((self.folder / name).stat().st_size >= left["progress"]["bytes"][name] for name in FILES)
        except (OSError, ValueError, KeyError):
            return None
        return left["progress"] if complete and left["settings"] == self._settings else None


def _bytes_of(data: bytes | np.ndarray) -> bytes | memoryview:
    return data if isinstance(data, bytes) else data.reshape(-1).view(np.uint8).data


def _lengths(parts: Sequence[Sized]) -> np.ndarray:
    return np.fromiter(map(len, parts), np.int64, len(parts))
