"""What an interrupted translation has finished: parts of a file in `OUT.resume`, files of a folder in a list inside it.

The first line of a record names input and settings; every other line is a block of finished parts, or a finished file.
A record is deleted when the output is complete.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearmt.documents import FillSummary
from nearmt.documents.checks.summary import FindingSummary
from nearmt.documents.records import RecordFile
from nearmt.errors import ConfigError

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


class _Record:
    """A file of records, locked while it is open; the first one says what it is about."""

    def __init__(self, path: Path, about: Mapping[str, Any], resume: bool) -> None:
        """`about` identifies input and options before the model is loaded; a record about others is refused."""
        self.path = path
        self._about = {"format": _FORMAT, **about}
        self._file: RecordFile | None = None
        if resume and self.path.exists():
            self._file = RecordFile(self.path)
            for line in self._lines():
                self._take(line)

    def _take(self, line: Mapping[str, Any]) -> None:
        """Take over a line of an earlier run."""
        raise NotImplementedError

    def begin(self, settings: str) -> None:
        """Set the settings, which are known once the model is loaded."""
        self._about["settings"] = settings
        if self._file is not None:
            for _ in self._lines():
                pass
            self._file.truncate()  # after the last valid line

    def remove(self) -> None:
        """Delete the record: the output is complete, or cannot be completed from it."""
        if self._file is not None:
            self.path.unlink(missing_ok=True)
            self.close()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _append(self, line: Mapping[str, Any]) -> None:
        self._started().append(line)

    def _started(self) -> RecordFile:
        """Begin a new record, unless one is open."""
        if self._file is None:
            self._file = RecordFile(self.path)
            self._file.truncate(0)
            self._file.append(self._about)
        return self._file

    def _lines(self) -> Iterator[dict[str, Any]]:
        """The valid lines after the first, which has to fit; leaves the position after the last of them."""
        assert self._file is not None
        lines = self._file.read()
        self._check(next(lines, {}))
        yield from lines

    def _check(self, found: Mapping[str, Any]) -> None:
        for name, value in self._about.items():
            if found.get(name) != value:
                self.close()
                raise ConfigError(f"{self.path}: was begun with {_OTHER[name]}; leave out --resume to start again")


class FinishedWork(_Record):
    """The finished parts of one output, in order."""

    def __init__(self, output: Path, about: Mapping[str, Any], resume: bool) -> None:
        #: Finished parts, and the summary of their units.
        self.parts, self.summary = 0, FillSummary()
        self.output = output
        super().__init__(output.with_name(output.name + ".resume"), about, resume)

    def _take(self, line: Mapping[str, Any]) -> None:
        self.parts += line["parts"]
        self.summary.counts += Counter(line["counts"])
        self.summary.findings = FindingSummary.of_state(line["findings"])

    def keep(self, text: str, parts: int, summary: FillSummary) -> None:
        """Append finished parts: their text, their counts, and all findings so far."""
        if not parts:
            return
        counts = summary.counts - self.summary.counts
        self._append({"parts": parts, "text": text, "counts": dict(counts), "findings": summary.findings.state()})
        self.parts += parts
        self.summary.counts += counts

    def texts(self) -> Iterator[str]:
        """The text of all finished parts, in order."""
        if self._file is not None:
            for line in self._lines():
                yield line["text"]

    def remove(self) -> None:
        """Also delete the record of an earlier run, which was to be replaced."""
        if self._file is None and self.path.is_file() and not self.path.is_symlink():
            self._file = RecordFile(self.path)
        super().remove()

    @property
    def told(self) -> str:
        """What an interrupted run keeps, in one line."""
        if not self.parts:
            return "nothing was finished, and nothing is kept"
        units = sum(self.summary.counts.values())
        return f"{units:,} finished units are kept in {self.path}; the same command with --resume continues there"


@dataclass(frozen=True)
class FinishedFile:
    """A translated file of a folder."""

    #: Checksum of the input, and the format it was read in.
    digest: str
    format_name: str
    #: Units by origin, and what was said about them.
    counts: Counter[str]
    notes: list[str]


class FinishedFiles(_Record):
    """The finished files of an output folder, by their path in it."""

    #: Name of the record in the output folder.
    NAME = "nearmt.resume"

    def __init__(self, folder: Path, about: Mapping[str, Any], resume: bool) -> None:
        self._found: dict[str, FinishedFile] = {}
        super().__init__(folder / self.NAME, about, resume)

    def _take(self, line: Mapping[str, Any]) -> None:
        counts = Counter(line["counts"])
        self._found[line["file"]] = FinishedFile(line["digest"], line["format"], counts, line["notes"])

    def begin(self, settings: str) -> None:
        """Also lock the record, for the whole run."""
        super().begin(settings)
        self._started()

    def add(self, name: str, file: FinishedFile) -> None:
        """Append a file whose output is complete."""
        line = {"file": name, "digest": file.digest, "format": file.format_name}
        self._append({**line, "counts": dict(file.counts), "notes": file.notes})
        self._found[name] = file

    def find(self, name: str, digest: str, format_name: str) -> FinishedFile | None:
        """The result for an input if it was translated before."""
        found = self._found.get(name)
        return found if found and (found.digest, found.format_name) == (digest, format_name) else None

    def __len__(self) -> int:
        return len(self._found)
