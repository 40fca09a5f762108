"""Finished parts of a translation, kept in `OUT.resume` until the output is complete.

The first line names input and settings; every other line is a block of finished parts. Each is a checksum and JSON. A
block is on disk before the next one begins. Reading stops at the first torn or altered line.
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
from nearmt.documents.checks.summary import FindingSummary
from nearmt.errors import ConfigError, OutputError, writing

_FORMAT = 2
_OTHER = {
    "format": "another version of nearmt",
    "input": "another input",
    "options": "other options",
    "settings": "other settings",
}


def digest_of(path: Path) -> str:
    """The checksum that identifies an input."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class FinishedWork:
    """The finished parts of one output, in order."""

    def __init__(self, output: Path, about: Mapping[str, Any], resume: bool) -> None:
        """`about` identifies input and options before the model is loaded; a record about others is refused."""
        self.output, self.path = output, output.with_name(output.name + ".resume")
        self._about = {"format": _FORMAT, **about}
        #: Finished parts, and the summary of their units.
        self.parts, self.summary = 0, FillSummary()
        self._file: BinaryIO | None = None
        if resume and self.path.exists():
            self._file = self._opened()
            self._check(self._read_header())
            for record in self._records():
                self.parts += record["parts"]
                self.summary.counts += Counter(record["counts"])
                self.summary.findings = FindingSummary.of_state(record["findings"])

    def begin(self, settings: str) -> None:
        """Set the settings, which are known once the model is loaded."""
        self._about["settings"] = settings
        if self._file is not None:
            self._check(self._read_header())
            for _ in self._records():
                pass
            self._file.truncate()  # after the last valid line

    def keep(self, text: str, parts: int, summary: FillSummary) -> None:
        """Append finished parts: their text, their counts, and all findings so far."""
        if not parts:
            return
        with writing(self.path):
            if self._file is None:
                self._file = self._opened()
                self._file.truncate(0)
                self._write(self._about)
            counts = summary.counts - self.summary.counts
            findings = summary.findings.state()
            self._write({"parts": parts, "text": text, "counts": dict(counts), "findings": findings})
        self.parts += parts
        self.summary.counts += counts

    def texts(self) -> Iterator[str]:
        """The text of all finished parts, in order."""
        if self._file is not None:
            self._read_header()
            for record in self._records():
                yield record["text"]

    def remove(self) -> None:
        """Delete the record: the output is complete, or cannot be completed from it."""
        if self._file is not None:
            self.path.unlink(missing_ok=True)
            self._file.close()
            self._file = None

    @property
    def told(self) -> str:
        """What an interrupted run keeps, in one line."""
        if not self.parts:
            return "nothing was finished, and nothing is kept"
        units = sum(self.summary.counts.values())
        return f"{units:,} finished units are kept in {self.path}; the same command with --resume continues there"

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
        # ASCII with escapes: bytes that are not UTF-8 survive as lone surrogates.
        data = json.dumps(record).encode()
        self._file.write(b"%08x %s\n" % (zlib.crc32(data), data))
        self._file.flush()
        os.fsync(self._file.fileno())

    def _read_header(self) -> dict[str, Any]:
        assert self._file is not None
        self._file.seek(0)
        return _parsed(self._file.readline()) or {}

    def _records(self) -> Iterator[dict[str, Any]]:
        """The valid blocks; leaves the file position after the last of them."""
        assert self._file is not None
        while True:
            position = self._file.tell()
            record = _parsed(self._file.readline())
            if record is None:
                self._file.seek(position)
                return
            yield record

    def _check(self, found: Mapping[str, Any]) -> None:
        for name, value in self._about.items():
            if found.get(name) != value:
                self.close()
                raise ConfigError(f"{self.path}: was begun with {_OTHER[name]}; leave out --resume to start again")

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
