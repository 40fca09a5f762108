"""Background jobs and their progress."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from nearmt.serve.api.dependencies import ThePrincipal, TheService
from nearmt.serve.api.job_schemas import JobAnswer, JobsAnswer
from nearmt.serve.api.problem_answers import problems
from nearmt.serve.jobs import Jobs
from nearmt.serve.running import run

router = APIRouter(prefix="/jobs", tags=["jobs"])

#: Seconds between two looks at a job, and until a line is sent although nothing has changed.
_LOOK, _ALIVE = 0.25, 15.0
_EVENT = {"type": "object", "properties": {"data": {"type": "string"}}, "required": ["data"]}
_EVENTS = {"text/event-stream": {"schema": _EVENT}}


@router.get("", responses=problems())
async def jobs(
    service: TheService, principal: ThePrincipal, limit: Annotated[int, Query(ge=0, le=1000)] = 100
) -> JobsAnswer:
    """The latest jobs of the key, the last one first."""
    return JobsAnswer(jobs=list(map(JobAnswer.of, service.jobs.all(principal)[:limit])))


@router.get("/{id}", responses=problems(404))
async def job(id: str, service: TheService, principal: ThePrincipal) -> JobAnswer:
    """A job as it is now."""
    return JobAnswer.of(service.jobs.get(principal, id))


@router.get("/{id}/events", response_class=StreamingResponse, responses={**problems(404), 200: {"content": _EVENTS}})
async def events(request: Request, id: str, service: TheService, principal: ThePrincipal) -> StreamingResponse:
    """The job whenever it changes, as server-sent events, until it is finished."""
    service.jobs.get(principal, id)
    stream = _events(service.jobs, id, request.app.state.stopping)
    return StreamingResponse(stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


@router.delete("/{id}", responses=problems(404))
async def cancel(request: Request, id: str, service: TheService, principal: ThePrincipal) -> JobAnswer:
    """End a job; what it has done stays. One that is finished stays as it is."""
    return JobAnswer.of(await run(request, lambda: service.jobs.cancel(principal, id)))


async def _events(jobs: Jobs, id: str, stopping: asyncio.Event) -> AsyncIterator[str]:
    seen, quiet = None, 0.0
    while not stopping.is_set():
        now = jobs.find(id)
        if now is None:
            return
        if now is not seen:
            yield f"data: {JobAnswer.of(now).model_dump_json()}\n\n"
            seen, quiet = now, 0.0
        elif quiet >= _ALIVE:
            yield ": still there\n\n"
            quiet = 0.0
        if now.is_finished:
            return
        await asyncio.sleep(_LOOK)
        quiet += _LOOK
