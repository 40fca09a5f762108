"""Whether the server lives, whether it takes requests, and its numbers."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from nearmt.serve.access import admitted, bearer
from nearmt.serve.errors import Forbidden
from nearmt.serve.running import run

router = APIRouter(tags=["server"])


@router.get("/health")
async def health() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/ready", responses={503: {"description": "The server is stopping."}})
async def ready(request: Request) -> Response:
    """The models are loaded, and the server is not stopping."""
    if request.app.state.stopping.is_set():
        return JSONResponse({"status": "stopping"}, 503)
    return JSONResponse({"status": "ready"})


@router.get("/metrics", response_class=Response, responses={200: {"content": {CONTENT_TYPE_LATEST: {}}}})
async def metrics(request: Request) -> Response:
    """Numbers for Prometheus, for keys that may do everything: they name all memories."""
    principal = await admitted(request, bearer(request))
    principal.check("admin")
    if principal.memories is not None:
        raise Forbidden("the metrics name all memories; this key has some of them")
    return Response(await run(request, request.app.state.metrics.text), media_type=CONTENT_TYPE_LATEST)
