"""The native API, /api/v1."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI

from nearmt.serve.api import documents, glossaries, jobs, memories, pairs, translating
from nearmt.serve.api.openapi import methods_of, schema_of

PREFIX = "/api/v1"


def mount(app: FastAPI) -> None:
    """Add the endpoints of all resources, and their schema."""
    router = APIRouter(prefix=PREFIX)
    for resource in (translating, memories, pairs, jobs, documents, glossaries):
        router.include_router(resource.router)
    app.include_router(router)
    app.state.methods_of = lambda path: methods_of(app, path)
    app.openapi = lambda: schema_of(app, PREFIX)  # type: ignore[method-assign]
