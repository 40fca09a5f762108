"""Jobs on disk: a folder for each, with its record and its files."""

from __future__ import annotations

import json
import shutil
import string
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from nearmt.datastore.disk.files import sync, write_json
from nearmt.errors import writing

JobState = Literal["queued", "running", "done", "failed", "cancelled"]
JobKind = Literal["import", "compact", "verify", "document"]
_RECORD = "job.json"
_ID_LETTERS = frozenset(string.hexdigits.lower())
#: What a result may quote from files is not kept on disk.
_NOT_KEPT = ("problems",)


@dataclass(frozen=True)
class Job:
    """A job as it is now."""

    id: str
    kind: JobKind
    state: JobState
    #: The principal that began it.
    owner: str
    #: The memory that it works on, if any.
    memory: str | None = None
    done: int = 0
    #: 0 if it is not known.
    total: int = 0
    #: What went wrong, or what it is doing.
    message: str = ""
    #: ISO 8601, UTC.
    created: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)
    #: What it was asked for.
    arguments: Mapping[str, Any] = field(default_factory=dict)
    #: Bytes of the file that was uploaded for it.
    bytes: int = 0

    @property
    def is_finished(self) -> bool:
        return self.state in ("done", "failed", "cancelled")


class JobFolder:
    """The folders of jobs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def of(self, id: str) -> Path:
        return self.folder / id

    def save(self, job: Job) -> None:
        """Write the record of a job; it is on disk when this returns."""
        kept = {name: value for name, value in job.result.items() if name not in _NOT_KEPT}
        folder = self.of(job.id)
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            sync(self.folder)
        write_json(folder / _RECORD, asdict(job) | {"result": kept})

    def load(self) -> Iterator[Job]:
        """All jobs, the oldest first; folders without a record belong to uploads that were not finished."""
        found = []
        for folder in self.folder.glob("*"):
            if not _ID_LETTERS.issuperset(folder.name):
                continue
            try:
                found.append(Job(**json.loads((folder / _RECORD).read_bytes())))
            except (OSError, ValueError, TypeError):
                shutil.rmtree(folder, ignore_errors=True)
        yield from sorted(found, key=lambda job: job.created)

    def remove(self, id: str) -> None:
        shutil.rmtree(self.of(id), ignore_errors=True)
