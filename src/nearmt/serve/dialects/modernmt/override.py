"""The method of a request that is sent as a POST."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

_HEADER = b"x-http-method-override"
_METHODS = frozenset({"GET", "POST", "PUT", "DELETE"})


class MethodOverride:
    """Middleware that gives POST requests of this dialect the method in `X-HTTP-Method-Override`.

    The web pages of others cannot send this header without asking first.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and scope["path"].startswith("/mmt/"):
            given = dict(scope["headers"]).get(_HEADER, b"").decode("latin-1").strip().upper()
            if given in _METHODS:
                scope["method"] = given
        await self._app(scope, receive, send)
