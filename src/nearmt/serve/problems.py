"""Problem documents (RFC 9457) from exceptions.

The native API answers errors in this form. A dialect registers a function that makes the answers of its own endpoints
(`app.state.problem_shapes["deepl"] = shape`, by the name of its module in `nearmt.serve.dialects`).
"""

from __future__ import annotations

import http
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from nearmt.errors import ConfigError, InputError, MissingPackageError, ModelError, NearmtError, OutputError
from nearmt.scheduler import Cancelled, DeadlineExceeded, QueueFull, Stopped
from nearmt.serve.errors import RequestError, TooMany
from nearmt.serve.keys import Principal
from nearmt.serve.logs import log, request_id
from nearmt.serve.routes import dialect_of

MEDIA_TYPE = "application/problem+json"
#: A client that has gone reads no answer; the number is for logs.
CLIENT_CLOSED = 499
_STATUS: dict[type[NearmtError], int] = {
    ConfigError: 400,
    InputError: 400,
    ModelError: 400,
    MissingPackageError: 501,
    OutputError: 507,
    QueueFull: 503,
    Stopped: 503,
    DeadlineExceeded: 504,
    Cancelled: CLIENT_CLOSED,
}
#: Seconds after which a client may try again that was refused for lack of room.
_RETRY = 5
#: Faults of a request that are described.
_FAULTS = 10


@dataclass(frozen=True)
class Problem:
    """What is told about an error."""

    status: int
    title: str
    detail: str
    #: The end of its `type`; empty for errors that the status describes.
    kind: str = ""
    retry_after: int | None = None
    #: Faults in fields of the request: `{"field": ..., "message": ...}`.
    faults: tuple[dict[str, str], ...] = ()
    headers: dict[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "type": f"urn:nearmt:problem:{self.kind}" if self.kind else "about:blank",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "request_id": request_id.get(),
        }
        return found | ({"errors": list(self.faults)} if self.faults else {})

    def all_headers(self) -> dict[str, str]:
        found = dict(self.headers)
        if self.retry_after is not None:
            found["Retry-After"] = str(self.retry_after)
        if self.status == 401:
            found["WWW-Authenticate"] = "Bearer"
        return found


_INTERNAL = Problem(500, "Internal Server Error", "an internal error; the log has it under the id of the request")
Shape = Callable[[Problem], Response]


def status_of(error: NearmtError) -> int:
    if isinstance(error, RequestError):
        return error.status
    return next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)


def problem_of(error: Exception) -> Problem:
    """The problem of an exception; of one that is not expected, nothing but that it happened."""
    match error:
        case RequestValidationError():
            return _invalid(error)
        case HTTPException():
            detail = error.detail if isinstance(error.detail, str) else _phrase(error.status_code)
            return Problem(error.status_code, _phrase(error.status_code), _clean(detail), headers=_headers(error))
        case NearmtError():
            return _known(error)
    return _INTERNAL


def answer(request: Request, error: Exception) -> Response:
    """The answer to an exception, in the shape of the dialect that was asked."""
    problem = problem_of(error)
    if problem.status == 500 and not _sees_all(request):
        problem = _INTERNAL
    request.state.problem = type(error).__name__
    if problem.status >= 500:
        log("error", error, status=problem.status)
    shape: Shape = request.app.state.problem_shapes.get(dialect_of(request.scope), problem_response)
    response = shape(problem)
    for name, value in problem.all_headers().items():
        response.headers.setdefault(name, value)
    # The router knows the methods of one route only, and several routes share a path.
    if problem.status == 405 and (methods := request.app.state.methods_of(request.url.path)):
        response.headers["Allow"] = ", ".join(methods)
    return response


def problem_response(problem: Problem) -> Response:
    return JSONResponse(problem.document(), problem.status, media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Answer errors with problem documents."""
    app.state.problem_shapes = {}

    async def handle(request: Request, error: Exception) -> Response:
        return answer(request, error)

    for kind in (NearmtError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, handle)


def _sees_all(request: Request) -> bool:
    """Whether messages about damage, which name files of the server, are for the sender of this request."""
    principal: Principal | None = getattr(request.state, "principal", None)
    return principal is not None and principal.memories is None and "admin" in principal.may


def _known(error: NearmtError) -> Problem:
    status = status_of(error)
    name = type(error).__name__.removesuffix("Error")
    kind = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name).removeprefix("-")
    retry = error.retry_after if isinstance(error, TooMany) else _RETRY if status == 503 else None
    seconds = None if retry is None else max(1, round(retry))
    return Problem(status, _phrase(status), _clean(str(error)), kind, seconds)


def _invalid(error: RequestValidationError) -> Problem:
    """What is wrong where, without the text that was sent."""
    found = error.errors()
    if any(fault["type"] == "json_invalid" for fault in found):
        return Problem(400, _phrase(400), "the body is not valid JSON", "json")
    faults = tuple(
        {"field": _clean(".".join(map(str, fault["loc"][1:]))), "message": _clean(fault["msg"])}
        for fault in found[:_FAULTS]
    )
    detail = "; ".join(": ".join(filter(None, fault.values())) for fault in faults)
    return Problem(422, _phrase(422), detail, "invalid", faults=faults)


def _headers(error: HTTPException) -> dict[str, str]:
    return dict(error.headers or {})


def _phrase(status: int) -> str:
    try:
        return http.HTTPStatus(status).phrase
    except ValueError:
        return "Client Closed Request" if status == CLIENT_CLOSED else "Error"


def _clean(text: str) -> str:
    """One line that can be encoded."""
    return " ".join(text.encode("utf-8", "replace").decode().split())
