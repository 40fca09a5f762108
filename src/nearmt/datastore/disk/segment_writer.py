"""Writing a segment block by block; an interrupted build can be continued."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from nearmt.contracts import Pair
from nearmt.datastore.disk.file_checks import FileRecord
from nearmt.datastore.disk.files import write_json
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
        ends = self.entries + np.cumsum([len(part) for part in tokens])
        source_ends = self._progress["bytes"][SOURCE] // 4 + np.cumsum([len(part) for part in sources])
        lines = [json.dumps(pair_to_json(pair), ensure_ascii=False).encode() + b"\n" for pair in pairs]
        starts = self._progress["bytes"][PAIRS] + np.cumsum([0, *(len(line) for line in lines[:-1])])
        words = [np.zeros(len(part)) for part in tokens] if words is None else words
        content = {
            KEY: b"".join(key.astype("<f2").tobytes() for key in keys),
            TOKEN: np.asarray([token for part in tokens for token in part], dtype="<i4").tobytes(),
            END: ends.astype("<i8").tobytes(),
            PAIRS: b"".join(lines),
            PAIR_START: starts.astype("<i8").tobytes(),
            SOURCE: np.asarray([token for part in sources for token in part], dtype="<i4").tobytes(),
            SOURCE_END: source_ends.astype("<i8").tobytes(),
            ID: np.asarray([digest_of(pair.id) for pair in pairs], dtype="<u8").tobytes(),
            WORD: b"".join(part.astype("<u2").tobytes() for part in words),
        }
        for name, data in content.items():
            with writing(self.folder / name), opened(self.folder / name, "ab") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            self._progress["bytes"][name] += len(data)
        self._progress["pairs"] += len(pairs)
        self._progress["entries"] = int(ends[-1]) if len(ends) else self.entries
        self._progress["too_long"] += too_long
        self._record()

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
        files = {name: FileRecord.of(self.folder / name) for name in FILES}
        return SegmentRecord(self.folder.name, self.pairs, self.entries, int(self._progress["too_long"]), files)

    def _resume(self) -> dict[str, Any] | None:
        try:
            with opened(self.folder / _PROGRESS, "r") as file:
                left = json.loads(file.read())
            complete = all((self.folder / name).stat().st_size >= left["progress"]["bytes"][name] for name in FILES)
        except (OSError, ValueError, KeyError):
            return None
        return left["progress"] if complete and left["settings"] == self._settings else None
