"""A TSV file of confirmed pairs, written pair by pair."""

from __future__ import annotations

import io
import os
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from nearmt.contracts import Pair
from nearmt.corpus.unpacking import COMPRESSED
from nearmt.corpus.writers import write_tsv
from nearmt.errors import ConfigError, writing


class ConfirmedFile:
    """Appends source, tab and target of every pair to a file; a later session can continue it."""

    def __init__(self, path: Path) -> None:
        if path.suffix.lower() in COMPRESSED:
            raise ConfigError(f"{path}: pairs are written one by one; name a file without {path.suffix}")
        self.path = path
        with writing(path):
            self._file = path.open("a+b")
        #: Offset of each pair of this session; None if the file cannot be truncated, such as a pipe.
        self._starts: list[int] | None = [] if path.is_file() else None
        if self._starts is not None:
            self._end_the_last_line()

    def _end_the_last_line(self) -> None:
        """Add a line end if the file does not end with one."""
        size = self._file.seek(0, os.SEEK_END)
        if size:
            self._file.seek(size - 1)
            if self._file.read(1) != b"\n":
                with writing(self.path):
                    self._file.write(b"\n")

    def write(self, pair: Pair) -> None:
        text = io.StringIO()
        write_tsv([replace(pair, origin="")], text, "", "")
        if self._starts is not None:
            self._starts.append(self._file.seek(0, os.SEEK_END))
        with writing(self.path):
            self._file.write(text.getvalue().encode("utf-8"))
            self._file.flush()

    def undo(self) -> None:
        """Remove the last pair."""
        if self._starts:
            with writing(self.path):
                self._file.truncate(self._starts.pop())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with writing(self.path):
            self._file.close()
