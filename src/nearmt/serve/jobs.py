"""Background jobs: a few at a time, kept on disk, continued after a restart."""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from nearmt.errors import NearmtError
from nearmt.scheduler import Stopped
from nearmt.serve.errors import Busy, Forbidden, NotFound, TooMany
from nearmt.serve.job_files import Job, JobFolder, JobKind, JobState
from nearmt.serve.job_run import JobCancelled, JobRun, JobStatus
from nearmt.serve.keys import Principal
from nearmt.serve.logs import log

__all__ = ["Job", "JobKind", "JobRun", "JobState", "Jobs"]

#: Jobs of a principal that are not finished, and all that are kept.
_MOST_WAITING, _MOST_KEPT = 100, 10_000
#: Finished jobs of memories: only documents are fetched later.
_MOST_RECORDS = 1000
#: After this time finished jobs are forgotten, and with them documents.
_KEPT_FOR = timedelta(days=30)
#: Seconds for a job to end before it is removed.
_PATIENCE = 30.0
#: Unexpected errors are not told to clients.
_INTERNAL = "an internal error; the server's log tells more"
_STATES: tuple[JobState, ...] = ("queued", "running", "done", "failed", "cancelled")

#: Does a job and returns its result; cleans up after one that is finished, however it ended.
Work = Callable[[JobRun], Mapping[str, Any]]
Cleanup = Callable[[Job], None]


class Jobs:
    """Jobs by id; each principal sees its own."""

    def __init__(self, folder: Path, most: int = 2, *, read_only: bool = False) -> None:
        """`most`: how many run at a time."""
        self.files = JobFolder(folder)
        self.stopping = False
        self._read_only = read_only
        self._works: dict[JobKind, tuple[Work, Cleanup | None]] = {}
        self._known: dict[str, JobStatus] = {}
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._run, name=f"nearmt-job-{number}", daemon=True) for number in range(most)
        ]
        if not read_only:
            for job in self.files.load():
                self._known[job.id] = JobStatus(job if job.is_finished else replace(job, state="queued"))
            self._forget_old()

    def register(self, kind: JobKind, work: Work, cleanup: Cleanup | None = None) -> None:
        """Say how jobs of a kind are done."""
        self._works[kind] = work, cleanup

    def start(self) -> None:
        """Begin with what waits."""
        if not self._read_only:
            for thread in self._threads:
                thread.start()

    def all(self, principal: Principal) -> list[Job]:
        """The jobs of a principal, the latest first."""
        with self._changed:
            return [each.job for each in self._known.values() if each.job.owner == principal.name][::-1]

    def get(self, principal: Principal, id: str) -> Job:
        return self._own(principal, id).job

    def find(self, id: str) -> Job | None:
        """A job, whosever it is."""
        status = self._known.get(id)
        return None if status is None else status.job

    def folder_of(self, id: str) -> Path:
        return self.files.of(id)

    def new_id(self, principal: Principal) -> str:
        """An id for a job, whose files can be put into its folder before it is added."""
        if self._read_only:
            raise Forbidden("this server only reads, so it does no jobs")
        with self._changed:
            own = (each.job for each in self._known.values() if each.job.owner == principal.name)
            waiting = sum(not job.is_finished for job in own)
            if waiting >= _MOST_WAITING:
                raise TooMany(f"{waiting} of your jobs wait already; try again when some are done", 60)
            if len(self._known) >= _MOST_KEPT:
                raise TooMany(f"the server keeps {len(self._known):,} jobs already; delete some documents", 3600)
        return secrets.token_hex(16)

    def add(self, principal: Principal, id: str, kind: JobKind, **fields: Any) -> Job:
        """Add a job, which is on disk when this returns."""
        created = datetime.now(UTC).isoformat(timespec="milliseconds")
        job = Job(id, kind, "queued", principal.name, created=created, **fields)
        self.files.save(job)
        with self._changed:
            self._known[id] = JobStatus(job)
            self._changed.notify_all()
        self._forget_old()
        return job

    def again(self, principal: Principal, id: str) -> Job:
        """Do a job again: now, or when it is done with what it does."""
        status = self._own(principal, id)
        with self._changed:
            if status.job.state == "running" and not status.cancelled.is_set():
                status.again = True
                return status.job
            if status.job.state == "running":
                raise Busy("the job is being cancelled; try again")
            status.cancelled.clear()
            self._set(status, replace(status.job, state="queued", message=""))
            return status.job

    def cancel(self, principal: Principal, id: str) -> Job:
        """End a job that is not finished; what it has done stays."""
        status = self._own(principal, id)
        self._cancel(status)
        return status.job

    def cancel_of_memory(self, memory: str) -> None:
        """End all jobs of a memory, whosever they are."""
        with self._changed:
            found = [status for status in self._known.values() if status.job.memory == memory]
        for status in found:
            self._cancel(status)

    def remove(self, principal: Principal, id: str) -> None:
        """Forget a job and all its files. One that is running is ended first."""
        status = self._own(principal, id)
        self._cancel(status)
        with self._changed:
            if not self._changed.wait_for(lambda: status.job.state != "running", _PATIENCE):
                raise Busy("the job does not end yet; try again")
            self._known.pop(id, None)
            self._changed.notify_all()
        self.files.remove(id)

    def changes(self, principal: Principal, id: str, patience: float = 15.0) -> Iterator[Job | None]:
        """The job whenever it changes, until it is finished; None where nothing changes for some seconds."""
        status, seen = self._own(principal, id), None
        while not self.stopping:
            now = self.changed(status, seen, patience)
            yield None if now is seen else now
            seen = now
            if now.is_finished or id not in self._known:
                return

    def changed(self, status: JobStatus, seen: Job | None, patience: float) -> Job:
        """The job when it differs from what was seen, or after some seconds."""
        with self._changed:
            self._changed.wait_for(lambda: status.job is not seen or self.stopping, patience)
            return status.job

    @property
    def counts(self) -> dict[JobState, int]:
        """Jobs by state."""
        with self._changed:
            now = Counter(status.job.state for status in self._known.values())
        return {state: now[state] for state in _STATES}

    def stop(self) -> None:
        """Take no further steps: what is unfinished goes on when the server starts again."""
        with self._changed:
            self.stopping = True
            self._changed.notify_all()

    def close(self, drain: float = 10.0) -> None:
        """Wait until the running steps are done."""
        self.stop()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(drain)

    def update(self, status: JobStatus, done: int, total: int, message: str) -> None:
        with self._changed:
            status.job = replace(status.job, done=done, total=total, message=message)
            self._changed.notify_all()

    # Running

    def _run(self) -> None:
        while (status := self._next()) is not None:
            self._do(status)

    def _next(self) -> JobStatus | None:
        """The oldest job of the principal with the fewest running ones; None when the server stops."""
        with self._changed:
            while not self.stopping:
                running = Counter(each.job.owner for each in self._known.values() if each.job.state == "running")
                waiting = [each for each in self._known.values() if each.job.state == "queued"]
                if waiting:
                    status = min(waiting, key=lambda each: running[each.job.owner])
                    status.job = replace(status.job, state="running", message="")
                    self._changed.notify_all()
                    return status
                self._changed.wait()
        return None

    def _do(self, status: JobStatus) -> None:
        work, _ = self._works[status.job.kind]
        state: JobState = "done"
        message, result = "", dict(status.job.result)
        try:
            result = dict(work(JobRun(self, status)))
        except (JobCancelled, Stopped):
            state = "cancelled"
        except NearmtError as error:
            state, message = "failed", " ".join(str(error).split())[:500]
        except Exception as error:
            log("error", job=status.job.id, error=error)
            state, message = "failed", _INTERNAL
        if status.cancelled.is_set() and state != "done":
            state, message = "cancelled", ""
        elif self.stopping and state != "done":
            return  # it goes on after the restart
        self._end(status, state, message, result)

    def _end(self, status: JobStatus, state: JobState, message: str, result: Mapping[str, Any]) -> None:
        with self._changed:
            if status.again and state == "done":
                state = "queued"
            status.again, status.ticket = False, None
            job = replace(status.job, state=state, message=message, result=result)
        if job.is_finished:
            self._clean_up(job)
        with self._changed:
            self._set(status, job)

    def _set(self, status: JobStatus, job: Job) -> None:
        """Change a job, on disk as well unless it was removed."""
        if job.id in self._known:
            self.files.save(job)
        status.job = job
        self._changed.notify_all()

    def _clean_up(self, job: Job) -> None:
        if (cleanup := self._works[job.kind][1]) is not None:
            cleanup(job)

    def _cancel(self, status: JobStatus) -> None:
        with self._changed:
            if status.job.is_finished:
                return
            status.cancelled.set()
            status.again = False
            if status.ticket is not None:
                status.ticket.cancel()
            if status.job.state == "running":
                return
            self._set(status, replace(status.job, state="cancelled"))
        self._clean_up(status.job)

    def _own(self, principal: Principal, id: str) -> JobStatus:
        status = self._known.get(id)
        if status is None or status.job.owner != principal.name:
            raise NotFound(f"no job '{id[:64]}'")
        return status

    def _forget_old(self) -> None:
        """Forget what was finished long ago, and the oldest of many records."""
        limit = (datetime.now(UTC) - _KEPT_FOR).isoformat(timespec="milliseconds")
        with self._changed:
            finished = [status.job for status in self._known.values() if status.job.is_finished]
            records = [job.id for job in finished if job.kind != "document"]
            old = {job.id for job in finished if job.created < limit} | set(records[:-_MOST_RECORDS])
            for identity in old:
                del self._known[identity]
        for identity in old:
            self.files.remove(identity)
