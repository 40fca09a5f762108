"""Background jobs: a few at a time, kept on disk, continued after a restart."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nearmt.errors import InputError
from nearmt.serve import jobs as jobs_module
from nearmt.serve.errors import Forbidden, NotFound, TooMany
from nearmt.serve.jobs import Job, JobRun, Jobs
from nearmt.serve.keys import ANONYMOUS, Principal

OTHER = Principal("other", None, frozenset())
Work = Callable[[JobRun], Mapping[str, Any]]


class Steps:
    """Work that waits between its steps until it is let go on."""

    def __init__(self, steps: int = 3) -> None:
        self.steps, self.begun, self.let_go = steps, threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, run: JobRun) -> Mapping[str, Any]:
        for step in range(self.steps):
            run.check()
            run.report(step, self.steps)
            self.begun.release()
            assert self.let_go.acquire(timeout=30)
        run.check()
        return {"steps": self.steps}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Jobs]]:
    """Starts jobs in one folder, again and again."""
    made = list[Jobs]()

    def begin(work: Work, most: int = 1, **more: Any) -> Jobs:
        jobs = Jobs(tmp_path / "jobs", most, **more)
        jobs.register("verify", work)
        jobs.start()
        made.append(jobs)
        return jobs

    yield begin
    for jobs in made:
        jobs.close(0.1)


def add(jobs: Jobs, principal: Principal = ANONYMOUS, **fields: Any) -> Job:
    return jobs.add(principal, jobs.new_id(principal), "verify", **fields)


def ended(jobs: Jobs, job: Job, principal: Principal = ANONYMOUS) -> Job:
    (*_, last) = (found for found in jobs.changes(principal, job.id, 30) if found is not None)
    return last


def saved(jobs: Jobs, job: Job) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((jobs.folder_of(job.id) / "job.json").read_bytes())
    return found


def test_a_job_is_done_and_its_result_kept(start: Callable[..., Jobs]) -> None:
    work = Steps()
    work.let_go.release(3)
    jobs = start(work)
    job = add(jobs, memory="mine")
    found = ended(jobs, job)
    assert (found.state, found.result, found.memory) == ("done", {"steps": 3}, "mine")
    assert saved(jobs, job)["result"] == {"steps": 3}
    assert jobs.all(ANONYMOUS) == [found]
    assert jobs.counts["done"] == 1


def test_problems_of_files_are_not_kept_on_disk(start: Callable[..., Jobs]) -> None:
    jobs = start(lambda run: {"pairs": 1, "problems": ["line 3: secret"]})
    job = add(jobs)
    assert ended(jobs, job).result["problems"] == ["line 3: secret"]
    assert saved(jobs, job)["result"] == {"pairs": 1}


def test_progress_is_told(start: Callable[..., Jobs]) -> None:
    work = Steps()
    jobs = start(work)
    job = add(jobs)
    told = list[tuple[str, int]]()
    for found in jobs.changes(ANONYMOUS, job.id, 30):
        assert found is not None
        told.append((found.state, found.done))
        work.let_go.release()
    assert told[-1] == ("done", 2)
    assert ("running", 1) in told or ("running", 2) in told


def test_errors_are_told_in_one_line_and_unexpected_ones_are_not(start: Callable[..., Jobs]) -> None:
    def fail(run: JobRun) -> Mapping[str, Any]:
        raise InputError("a\nb") if run.job.memory else ValueError("secret")

    jobs = start(fail)
    first, second = add(jobs, memory="mine"), add(jobs)
    assert (ended(jobs, first).state, ended(jobs, first).message) == ("failed", "a b")
    assert ended(jobs, second).state == "failed"
    assert "secret" not in ended(jobs, second).message


def test_few_run_at_a_time_and_owners_take_turns(start: Callable[..., Jobs]) -> None:
    work = Steps(1)
    jobs = start(work, most=2)
    mine = [add(jobs) for _ in range(3)]
    others = [add(jobs, OTHER) for _ in range(2)]
    for _ in range(2):
        assert work.begun.acquire(timeout=30)
    running = [job.id for job in (*mine, *others) if _now(jobs, job).state == "running"]
    assert len(running) == 2
    work.let_go.release(5)
    assert {ended(jobs, job, OTHER).state for job in others} == {"done"}
    assert {ended(jobs, job).state for job in mine} == {"done"}


def _now(jobs: Jobs, job: Job) -> Job:
    found = jobs.find(job.id)
    assert found is not None
    return found


def test_a_job_is_cancelled_before_and_while_it_runs(start: Callable[..., Jobs]) -> None:
    work = Steps()
    jobs = start(work)
    running, waiting = add(jobs), add(jobs)
    assert work.begun.acquire(timeout=30)
    assert jobs.cancel(ANONYMOUS, waiting.id).state == "cancelled"
    jobs.cancel(ANONYMOUS, running.id)
    work.let_go.release(3)
    assert ended(jobs, running).state == "cancelled"
    assert {saved(jobs, job)["state"] for job in (running, waiting)} == {"cancelled"}
    assert jobs.cancel(ANONYMOUS, running.id).state == "cancelled"


def test_unfinished_jobs_go_on_after_a_restart(start: Callable[..., Jobs]) -> None:
    work = Steps()
    before = start(work)
    running, waiting = add(before), add(before)
    assert work.begun.acquire(timeout=30)
    before.stop()
    work.let_go.release()
    before.close(30)
    assert saved(before, running)["state"] == "queued"
    again = Steps(1)
    again.let_go.release(2)
    after = start(again)
    assert [ended(after, job).state for job in (running, waiting)] == ["done", "done"]


def test_a_crash_loses_no_job(start: Callable[..., Jobs], tmp_path: Path) -> None:
    work = Steps()
    before = start(work)
    job = add(before)
    assert work.begun.acquire(timeout=30)
    (tmp_path / "jobs" / "0123").mkdir()  # an upload that was not finished
    (tmp_path / "jobs" / "0123" / "file.tmx").write_text("secret")
    after = start(lambda run: {"again": True})
    assert ended(after, job).result == {"again": True}
    assert not (tmp_path / "jobs" / "0123").exists()
    work.let_go.release(3)


def test_a_job_is_done_again(start: Callable[..., Jobs]) -> None:
    work = Steps(1)
    jobs = start(work)
    job = add(jobs)
    assert work.begun.acquire(timeout=30)
    assert jobs.again(ANONYMOUS, job.id).state == "running"
    work.let_go.release()
    assert work.begun.acquire(timeout=30)
    work.let_go.release()
    assert ended(jobs, job).state == "done"
    jobs.again(ANONYMOUS, job.id)
    assert work.begun.acquire(timeout=30)
    work.let_go.release()
    assert ended(jobs, job).state == "done"


def test_a_removed_job_leaves_no_file(start: Callable[..., Jobs], tmp_path: Path) -> None:
    work = Steps()
    jobs = start(work)
    job = add(jobs)
    (jobs.folder_of(job.id) / "upload").write_text("secret")
    assert work.begun.acquire(timeout=30)
    removing = threading.Thread(target=jobs.remove, args=(ANONYMOUS, job.id))
    removing.start()
    while not jobs._known[job.id].cancelled.is_set():
        time.sleep(0.001)
    work.let_go.release(3)
    removing.join(30)
    assert list((tmp_path / "jobs").iterdir()) == []
    with pytest.raises(NotFound):
        jobs.get(ANONYMOUS, job.id)


def test_others_do_not_see_a_job(start: Callable[..., Jobs]) -> None:
    jobs = start(Steps(0))
    job = add(jobs)
    assert jobs.all(OTHER) == []
    for ask in (jobs.get, jobs.cancel, jobs.again, jobs.remove):
        with pytest.raises(NotFound, match=job.id):
            ask(OTHER, job.id)


def test_jobs_are_bounded(start: Callable[..., Jobs], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_module, "_MOST_WAITING", 2)
    monkeypatch.setattr(jobs_module, "_MOST_KEPT", 3)
    work = Steps(1)
    jobs = start(work)
    add(jobs)
    add(jobs)
    with pytest.raises(TooMany, match="2 of your jobs"):
        jobs.new_id(ANONYMOUS)
    add(jobs, OTHER)
    with pytest.raises(TooMany, match="keeps 3 jobs"):
        jobs.new_id(OTHER)
    work.let_go.release(3)


def test_old_jobs_are_forgotten(start: Callable[..., Jobs], tmp_path: Path) -> None:
    jobs = start(Steps(0))
    job = add(jobs)
    ended(jobs, job)
    jobs.close(30)
    jobs.files.save(replace(jobs.get(ANONYMOUS, job.id), created="2020-01-01T00:00:00.000+00:00"))
    assert start(Steps(0)).all(ANONYMOUS) == []
    assert list((tmp_path / "jobs").iterdir()) == []


def test_the_oldest_of_many_records_are_forgotten(start: Callable[..., Jobs], monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose memories are compacted every night does not fill up; documents are kept."""
    monkeypatch.setattr(jobs_module, "_MOST_RECORDS", 2)
    jobs = start(Steps(0))
    jobs.register("document", Steps(0))
    document = jobs.add(ANONYMOUS, jobs.new_id(ANONYMOUS), "document")
    ended(jobs, document)
    done = []
    for _ in range(5):
        done.append(add(jobs).id)
        ended(jobs, jobs.get(ANONYMOUS, done[-1]))
    # The latest one was not finished when it was added.
    assert [job.id for job in jobs.all(ANONYMOUS)] == [*reversed(done[-3:]), document.id]
    assert {path.name for path in jobs.files.folder.iterdir()} == {*done[-3:], document.id}


def test_jobs_of_a_memory_are_cancelled_together(start: Callable[..., Jobs]) -> None:
    work = Steps(1)
    jobs = start(work)
    first, mine, other = add(jobs), add(jobs, memory="mine"), add(jobs, OTHER, memory="mine")
    jobs.cancel_of_memory("mine")
    work.let_go.release(3)
    assert ended(jobs, first).state == "done"
    assert (ended(jobs, mine).state, ended(jobs, other, OTHER).state) == ("cancelled", "cancelled")


def test_a_server_that_only_reads_does_no_jobs(start: Callable[..., Jobs]) -> None:
    jobs = start(Steps(0), read_only=True)
    with pytest.raises(Forbidden):
        jobs.new_id(ANONYMOUS)
    assert jobs.all(ANONYMOUS) == []
