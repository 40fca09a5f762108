"""The application: all endpoints over one service."""

from __future__ import annotations

import asyncio

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from nearmt import __version__
from nearmt.serve import api, dialects, health, page, problems
from nearmt.serve.edge import Edge, EdgeSettings
from nearmt.serve.gauges import readings
from nearmt.serve.keys import Keyring, OpenKeyring
from nearmt.serve.metrics import Metrics
from nearmt.serve.security import Guard
from nearmt.serve.service import Service
from nearmt.serve.workers import Workers


def create_app(service: Service, keyring: Keyring | None = None) -> FastAPI:
    """Endpoints find the service in `app.state.service`, and the keys in `app.state.keyring`."""
    app = FastAPI(
        title="nearmt",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
        generate_unique_id_function=lambda route: "_".join([*map(str, route.tags[:1]), route.name]),
    )
    app.state.service, app.state.keyring = service, keyring or OpenKeyring()
    app.state.workers = Workers(service.config.max_requests, service.config.max_waiting)
    #: Set when the server stops: streams end then.
    app.state.stopping = asyncio.Event()
    app.state.metrics = Metrics()
    app.state.metrics.watch(readings(service, app.state.workers))
    problems.install(app)
    app.include_router(health.router)
    api.mount(app)
    dialects.mount(app)
    page.mount(app)
    _add_edge(app)
    return app


def _add_edge(app: FastAPI) -> None:
    """Surround all endpoints; the middleware that is added last is the outermost."""
    config, keyring = app.state.service.config, app.state.keyring
    guard = Guard.of(config.host, config.allowed_host, config.cors_origin, keys=keyring.required)
    if guard.origins:
        origins = sorted(guard.origins)
        app.add_middleware(CORSMiddleware, allow_origins=origins, allow_methods=["*"], allow_headers=["*"])
    limits = config.max_body << 20, config.max_upload << 20
    settings = EdgeSettings(guard, keyring, *limits, config.log_text, dialects.announced(app))
    app.add_middleware(Edge, settings, app.state.metrics)
