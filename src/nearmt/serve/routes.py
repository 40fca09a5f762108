"""Names of the route that answers a request, for metrics, logs and the shape of errors. They hold no text of users."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_PACKAGE = "nearmt.serve."
_DIALECTS = "dialects."


def dialect_of(scope: Mapping[str, Any]) -> str:
    """`api`, the name of a dialect's module, `page` or `server`; `none` if no route answers."""
    endpoint: Callable[..., Any] | None = scope.get("endpoint")
    module = getattr(endpoint, "__module__", "") or type(endpoint).__module__
    if endpoint is None or not module.startswith(_PACKAGE):
        return "none" if endpoint is None else "page"
    name = module.removeprefix(_PACKAGE).removeprefix(_DIALECTS).partition(".")[0]
    return "server" if name == "health" else name


def route_of(scope: Mapping[str, Any]) -> str:
    """The path of the route with names instead of values, such as `/api/v1/memories/{name}`; `-` if there is none."""
    found = getattr(scope.get("route"), "path_format", None)
    context = scope.get("fastapi", {}).get("effective_route_context")
    return str(getattr(context, "path_format", None) or found or "-")
