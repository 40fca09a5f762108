"""What all answers have in common."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import Request
from fastapi.responses import JSONResponse, Response

from nearmt.serve.dialects.translating import principal_of_key
from nearmt.serve.keys import Principal
from nearmt.serve.problems import Problem

_SCHEME = "deepl-auth-key"


def shape(problem: Problem) -> Response:
    """Errors have a message. A key that is missing or not known is forbidden."""
    status = 403 if problem.status == 401 else problem.status
    return JSONResponse({"message": problem.detail}, status, problem.all_headers())


async def principal_of(request: Request) -> Principal:
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    return await principal_of_key(request, key.strip() if kind.lower() == _SCHEME else None)


def timestamp(iso: str) -> str:
    """A time as clients parse it: they expect a fraction of a second."""
    moment = datetime.fromisoformat(iso) if iso else datetime.fromtimestamp(0, UTC)
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
