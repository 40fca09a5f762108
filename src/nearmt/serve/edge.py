"""What happens to every request before and after its endpoint: id, checks, limits, headers, log line, metrics."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from nearmt.scheduler import QueueFull
from nearmt.serve.access import key_in_headers
from nearmt.serve.bodies import LimitedBody
from nearmt.serve.connections import CROWDED
from nearmt.serve.errors import Unauthorized
from nearmt.serve.keys import Keyring
from nearmt.serve.logs import log, request_id
from nearmt.serve.metrics import Metrics
from nearmt.serve.problems import CLIENT_CLOSED, answer
from nearmt.serve.routes import dialect_of, route_of
from nearmt.serve.security import HEADERS, Guard

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
#: Answers hold texts of users; files of the page say otherwise.
_NO_STORE = (b"cache-control", b"no-store")
#: Media types of bodies that are no uploads.
_SHORT = ("application/json", "application/x-www-form-urlencoded", "text/plain", "")


@dataclass(frozen=True)
class EdgeSettings:
    """What the edge checks."""

    guard: Guard
    keyring: Keyring
    #: Most bytes of a body, and of an upload.
    most: int
    most_upload: int
    #: Whether paths and queries, which hold texts of users, are logged.
    log_text: bool = False
    #: Whether an upload to a path was announced by someone who has a key: it is sent without one.
    announced: Callable[[str], bool] = lambda path: False


class Edge:
    """The outermost middleware."""

    def __init__(self, app: Any, settings: EdgeSettings, metrics: Metrics) -> None:
        self._app, self._settings, self._metrics = app, settings, metrics

    async def __call__(self, scope: Scope, receive: Any, send: Send) -> None:
        if scope["type"] == "http":
            await _Exchange(self._app, self._settings, self._metrics, scope, receive, send).run()
        elif scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        else:
            await send({"type": "websocket.close"})


class _Exchange:
    """A request and its answer."""

    def __init__(
        self, app: Any, settings: EdgeSettings, metrics: Metrics, scope: Scope, receive: Any, send: Send
    ) -> None:
        self._app, self._settings, self._metrics, self._scope = app, settings, metrics, scope
        self._send = send
        self._start = time.perf_counter()
        self._status = 0
        self._crowded = scope.setdefault("state", {}).get(CROWDED, bool)()
        self._headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        given = self._headers.get("x-request-id", "")
        self._id = given if _ID.fullmatch(given) else uuid.uuid4().hex
        self._body = LimitedBody(receive, self._most(), self._announced())

    async def run(self) -> None:
        token = request_id.set(self._id)
        try:
            await self._answer()
        finally:
            self._report()
            request_id.reset(token)

    async def _answer(self) -> None:
        try:
            self._check()
            await self._app(self._scope, self._body, self._send_with_headers)
        except ClientDisconnect:
            self._status = CLIENT_CLOSED
        except Exception as error:
            if self._status:  # too late for another answer: the connection is closed
                log("error", error)
                raise
            response = answer(Request(self._scope, self._body), error)
            await response(self._scope, self._body, self._send_with_headers)

    def _check(self) -> None:
        if self._crowded:
            raise QueueFull("too many connections are open; try again in a moment")
        self._settings.guard.check(self._scope["method"], self._scope["path"], self._headers)
        if "\0" in self._scope["path"] or "\0" in unquote(self._scope["query_string"].decode("latin-1")):
            raise HTTPException(400, "the address contains a NUL character")

    async def _send_with_headers(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            given = list(message.get("headers", ()))
            names = {name.lower() for name, _ in given}
            added = [*_HEADERS, _NO_STORE, (b"x-request-id", self._id.encode())]
            if self._crowded or self._scope["app"].state.stopping.is_set():
                added.append((b"connection", b"close"))
            message["headers"] = given + [header for header in added if header[0] not in names]
        await self._send(message)

    def _most(self) -> int:
        """Most bytes of the body. Uploads of others than those who have a key are not read."""
        kind = self._headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind in _SHORT or kind.endswith("+json"):
            return self._settings.most
        try:
            self._settings.keyring.principal(key_in_headers(self._headers))
        except Unauthorized:
            if not self._settings.announced(self._scope["path"]):
                return self._settings.most
        return self._settings.most_upload

    def _announced(self) -> int | None:
        length = self._headers.get("content-length", "")
        return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else None

    def _report(self) -> None:
        seconds = time.perf_counter() - self._start
        state, dialect, route = self._scope["state"], dialect_of(self._scope), route_of(self._scope)
        status = self._status or CLIENT_CLOSED
        self._metrics.request(dialect, route, status, seconds)
        problem = state.get("problem")
        if problem:
            self._metrics.error(problem)
        if status == CLIENT_CLOSED:
            self._metrics.cancelled()
        principal, client, text = state.get("principal"), self._scope.get("client"), self._settings.log_text
        log(
            "request",
            method=self._scope["method"],
            dialect=dialect,
            route=route,
            status=status,
            seconds=round(seconds, 4),
            bytes=self._body.size or None,
            key=principal.name if principal else None,
            address=client[0] if client else None,
            problem=problem,
            path=self._scope["path"] if text else None,
            query=self._scope["query_string"].decode("latin-1") or None if text else None,
        )
