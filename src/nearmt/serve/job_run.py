"""A job that is running."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from nearmt.scheduler import Ticket
from nearmt.serve.job_files import Job


class JobCancelled(Exception):
    """The job is not wanted any longer, or the server stops."""


@dataclass(eq=False)
class JobStatus:
    """A job, and what ends it."""

    job: Job
    cancelled: threading.Event = field(default_factory=threading.Event)
    #: The ticket of the translation that it waits for.
    ticket: Ticket | None = None
    #: To be done again when it is finished.
    again: bool = False


class Owner(Protocol):
    """Where the job is kept."""

    stopping: bool

    def folder_of(self, id: str) -> Path: ...

    def update(self, status: JobStatus, done: int, total: int, message: str) -> None: ...


class JobRun:
    """What a running job may do."""

    def __init__(self, jobs: Owner, status: JobStatus) -> None:
        self._jobs, self._status = jobs, status

    @property
    def job(self) -> Job:
        return self._status.job

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self._jobs.folder_of(self.job.id)

    def check(self) -> None:
        """Raise if it is to end. Called where everything so far is on disk."""
        if self._status.cancelled.is_set() or self._jobs.stopping:
            raise JobCancelled

    def report(self, done: int, total: int, message: str = "") -> None:
        """Tell the progress."""
        if (done, total, message) != (self.job.done, self.job.total, self.job.message):
            self._jobs.update(self._status, done, total, message)

    def waiting_for(self, ticket: Ticket) -> None:
        """Cancel the ticket if the job is cancelled."""
        self._status.ticket = ticket
        if self._status.cancelled.is_set():
            ticket.cancel()
