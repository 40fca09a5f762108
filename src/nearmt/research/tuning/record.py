"""The record of trials on disk, from which an interrupted run resumes.

The first line is {"signature": ...}; then there is one line for each point and slice:
{"settings": ..., "slice": 0, "sentences": 500, "score": 31.4, "texts": [...]}
`score` covers all slices up to this one; `settings` is null for the model alone.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from nearmt.errors import InputError, OutputError, writing

Settings = Mapping[str, Any] | None


class Record:
    """Translations by settings and slice; without a path they are kept in RAM only."""

    def __init__(self, signature: str, path: Path | None = None, *, overwrite: bool = False) -> None:
        self._texts: dict[str, list[str]] = {}
        self._path = path
        self._file: IO[bytes] | None = None
        if path is not None:
            self._open(path, signature, overwrite)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            with writing(str(self._path)):  # closing flushes what could not be written before
                self._file.close()

    def __len__(self) -> int:
        return len(self._texts)

    def texts(self, settings: Settings, slice_number: int) -> list[str] | None:
        """Return the translations of a slice with these settings; None if they are not recorded."""
        return self._texts.get(_key(settings, slice_number))

    def keep(self, settings: Settings, slice_number: int, texts: list[str], **facts: Any) -> None:
        """Record translations; they are on disk when this returns."""
        self._texts[_key(settings, slice_number)] = texts
        self._append({"settings": settings, "slice": slice_number, **facts, "texts": texts})

    def _append(self, line: Mapping[str, Any]) -> None:
        if self._file is None:
            return
        with writing(str(self._path)):
            self._file.write(_line(line))
            self._file.flush()
            os.fsync(self._file.fileno())

    def _open(self, path: Path, signature: str, overwrite: bool) -> None:
        with writing(path):
            self._file = path.open("ab+")
        try:
            self._lock(self._file, path)
            if not overwrite:
                self._resume(self._file, path, signature)
            with writing(path):
                if overwrite:
                    self._file.truncate(0)
                empty = self._file.seek(0, os.SEEK_END) == 0
            if empty:
                self._append({"signature": signature})
        except BaseException:
            self._file.close()
            raise

    def _lock(self, file: IO[bytes], path: Path) -> None:
        with writing(path):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise OutputError(f"{path}: another run is writing to it; give another --out") from error

    def _resume(self, file: IO[bytes], path: Path, signature: str) -> None:
        """Read existing trials and truncate an incomplete last line."""
        with writing(path):
            file.seek(0)
            *lines, torn = file.read().split(b"\n")
        if lines:
            self._read(path, signature, lines)
        elif not _line({"signature": signature}).startswith(torn):
            raise _not_a_record(path)
        with writing(path):
            file.truncate(sum(len(line) + 1 for line in lines))

    def _read(self, path: Path, signature: str, lines: list[bytes]) -> None:
        try:
            head, *trials = [json.loads(line) for line in lines]
            same = head["signature"] == signature
            for trial in trials if same else []:
                self._texts[_key(trial["settings"], trial["slice"])] = list(trial["texts"])
        except (ValueError, KeyError, TypeError) as error:
            raise _not_a_record(path) from error
        if not same:
            raise InputError(
                f"{path}: trials of another model, datastore, dev set or other settings; "
                "give another --out, or --overwrite to begin anew"
            )


def _key(settings: Settings, slice_number: int) -> str:
    return json.dumps([settings, slice_number], sort_keys=True)


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


def _not_a_record(path: Path) -> InputError:
    return InputError(f"{path}: not a record of trials; give another --out, or --overwrite")
