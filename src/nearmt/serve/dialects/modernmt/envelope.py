"""What all answers have in common."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response

from nearmt.serve.dialects.translating import principal_of_key
from nearmt.serve.keys import Principal
from nearmt.serve.problems import Problem

_TYPES = {
    400: "ApiException",
    401: "AuthException",
    403: "AuthException",
    404: "NotFoundException",
    413: "PayloadTooLargeException",
    429: "TooManyRequestsException",
    503: "ServiceUnavailableException",
}


def enveloped(data: Any) -> dict[str, Any]:
    return {"status": 200, "data": data}


def shape(problem: Problem) -> Response:
    error = {"type": _TYPES.get(problem.status, "ApiException"), "message": problem.detail}
    return JSONResponse({"status": problem.status, "error": error}, problem.status, problem.all_headers())


async def principal_of(request: Request) -> Principal:
    return await principal_of_key(request, request.headers.get("mmt-apikey"))
