"""Finished parts of a translation, kept beside its output in `OUT.resume` until the output is complete.

The file is a line that says what is translated and how, and a line for every block of finished parts: a checksum and
JSON. A block is on disk before the next one is begun. A torn or altered line ends what is kept.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from nearmt.documents import FillSummary
from nearmt.errors import ConfigError, OutputError, writing

_FORMAT = 1
_OTHER = {
    "format": "another version of nearmt",
    "input": "another input",
    "options": "other options",
    "settings": "other settings",
}


def digest_of(path: Path) -> str:
    """What tells an input from others."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class FinishedWork:
    """The finished parts of one output, in order."""

    def __init__(self, output: Path, about: Mapping[str, Any], resume: bool) -> None:
        """`about` is what of input and settings is known before the model: work on something else is refused."""
        self.output, self.path = output, output.with_name(output.name + ".resume")
        self._about = {"format": _FORMAT, **about}
        #: Parts that are finished, and what became of their units.
        self.parts, self.summary = 0, FillSummary()
        self._file: BinaryIO | None = None
        if resume and self.path.exists():
            self._file = self._opened()
            self._check(self._read_header())
            for record in self._records():
                self.parts += record["parts"]
                self.summary.counts += Counter(record["counts"])
                self.summary.warnings += record["warnings"]

    def begin(self, settings: str) -> None:
        """Settle the settings, which are known when the model is loaded."""
        self._about["settings"] = settings
        if self._file is not None:
            self._check(self._read_header())
            for _ in self._records():
                pass
            self._file.truncate()  # behind the last line that is whole

    def keep(self, text: str, parts: int, summary: FillSummary) -> None:
        """Write down more finished parts: their text, and what became of their units since the last time."""
        if not parts:
            return
        with writing(self.path):
            if self._file is None:
                self._file = self._opened()
                self._file.truncate(0)
                self._write(self._about)
            counts = summary.counts - self.summary.counts
            warnings = summary.warnings[len(self.summary.warnings) :]
            self._write({"parts": parts, "text": text, "counts": dict(counts), "warnings": warnings})
        self.parts += parts
        self.summary.counts += counts
        self.summary.warnings += warnings

    def texts(self) -> Iterator[str]:
        """The text of all that is kept, in order."""
        if self._file is not None:
            self._read_header()
            for record in self._records():
                yield record["text"]

    def remove(self) -> None:
        """The output is complete, or cannot be completed from this."""
        if self._file is not None:
            self.path.unlink(missing_ok=True)
            self._file.close()
            self._file = None

    @property
    def told(self) -> str:
        """What an interruption leaves, in one line."""
        if not self.parts:
            return "nothing was finished, and nothing is kept"
        units = sum(self.summary.counts.values())
        return f"{units:,} finished units are kept in {self.path}; the same command with --resume goes on there"

    def _opened(self) -> BinaryIO:
        with writing(self.path):
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        file = os.fdopen(descriptor, "r+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise OutputError(f"{self.path}: another process is writing this output; wait until it is done") from error
        return file

    def _write(self, record: Mapping[str, Any]) -> None:
        assert self._file is not None
        # With escapes for everything that is not ASCII: bytes that are no text survive as half characters.
        data = json.dumps(record).encode()
        self._file.write(b"%08x %s\n" % (zlib.crc32(data), data))
        self._file.flush()
        os.fsync(self._file.fileno())

    def _read_header(self) -> dict[str, Any]:
        assert self._file is not None
        self._file.seek(0)
        return _parsed(self._file.readline()) or {}

    def _records(self) -> Iterator[dict[str, Any]]:
        """The blocks that are whole; the file then stands behind them."""
        assert self._file is not None
        while True:
            place = self._file.tell()
            record = _parsed(self._file.readline())
            if record is None:
                self._file.seek(place)
                return
            yield record

    def _check(self, found: Mapping[str, Any]) -> None:
        for name, value in self._about.items():
            if found.get(name) != value:
                self.close()
                raise ConfigError(f"{self.path}: was begun with {_OTHER[name]}; leave --resume out to begin anew")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _parsed(line: bytes) -> dict[str, Any] | None:
    checksum, _, data = line.removesuffix(b"\n").partition(b" ")
    if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(data):
        return None
    record: dict[str, Any] = json.loads(data)
    return record
