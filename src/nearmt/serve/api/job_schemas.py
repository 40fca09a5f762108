"""Bodies of requests and answers about jobs and documents."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from nearmt.serve.api.schemas import WHOLE, Answer, Body
from nearmt.serve.jobs import Job, JobKind, JobState
from nearmt.serve.values import DocumentUnit


class JobAnswer(Answer):
    """A background job."""

    id: str
    kind: JobKind
    state: JobState
    done: int
    total: Annotated[int, Field(description="0 while it is not known.")]
    message: str
    created: str
    memory: str | None
    filename: str | None
    result: dict[str, Any]

    @classmethod
    def of(cls, job: Job) -> JobAnswer:
        shared = {name: getattr(job, name) for name in cls.model_fields if name not in ("filename", "result")}
        return cls(**shared, filename=job.arguments.get("filename"), result=dict(job.result))


class JobsAnswer(Answer):
    jobs: list[JobAnswer]


class UnitBody(Body):
    """What a person has written for a unit."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"target": "The pump leaks.", "confirmed": True}]})

    target: str
    confirmed: bool = True
    learn: Annotated[str | None, Field(max_length=64, description="A memory that learns the unit.")] = None


class RetranslateBody(Body):
    """Units to translate again; left out: all that were not edited or confirmed."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"units": [3, 4]}, {}]})

    units: Annotated[list[Annotated[int, Field(ge=0, le=1_000_000), WHOLE]] | None, Field(max_length=10_000)] = None


class UnitPageAnswer(Answer):
    units: list[DocumentUnit]
    total: int
