"""Errors of endpoints in the schema: problem documents (RFC 9457)."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from nearmt.serve.problems import MEDIA_TYPE


class Fault(BaseModel):
    """What is wrong with a field of a request."""

    field: str
    message: str


class ProblemAnswer(BaseModel):
    """Why a request was refused."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str
    errors: list[Fault] = []


_DESCRIPTIONS = {
    400: "The request cannot be done as it is.",
    401: "No key was given, or it is not known.",
    403: "The key may not do this.",
    404: "There is no such thing, or the key does not have it.",
    408: "The body came too slowly.",
    409: "What exists, or is running, does not allow it.",
    413: "The request is too large.",
    422: "A field of the request is missing or has a wrong value.",
    429: "Too many requests; `Retry-After` says when to try again.",
    503: "The server is busy or stops; `Retry-After` says when to try again.",
    504: "The deadline has passed.",
    507: "The disk is full.",
}
_REFERENCE = {"$ref": "#/components/schemas/ProblemAnswer"}
Responses = dict[int | str, dict[str, Any]]


def problems(*statuses: int) -> Responses:
    """The errors that every endpoint may answer with, and some more."""
    every = (400, 401, 403, 408, 413, 422, 429, 503, *statuses)
    return {
        status: {"description": _DESCRIPTIONS[status], "content": {MEDIA_TYPE: {"schema": _REFERENCE}}}
        for status in sorted(every)
    }


def example(value: Any, status: int = 200) -> Responses:
    """An example of an answer."""
    return {status: {"content": {"application/json": {"example": value}}}}
