"""The schema of the native API, OpenAPI 3.1."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from nearmt import __version__
from nearmt.serve.api.problem_answers import ProblemAnswer

_ABOUT = """Translation with a frozen model and translation memories, and corrections that are learnt at once.

A key goes into `Authorization: Bearer KEY`; without a key file, requests from this machine need none. Errors are
problem documents (RFC 9457)."""
#: What `ProblemAnswer` stands in place of.
_REPLACED = ("HTTPValidationError", "ValidationError")


def schema_of(app: FastAPI, prefix: str) -> dict[str, Any]:
    """The schema of the routes below a path; that of dialects is elsewhere."""
    if not app.openapi_schema:
        schema = get_openapi(title="nearmt", version=__version__, description=_ABOUT, routes=app.routes)
        schema["paths"] = {path: found for path, found in schema["paths"].items() if path.startswith(prefix)}
        components = schema.setdefault("components", {})
        schemas = components.setdefault("schemas", {})
        problem = ProblemAnswer.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= problem.pop("$defs", {}) | {"ProblemAnswer": problem}
        for name in _REPLACED:
            schemas.pop(name, None)
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        # Without a key file no key is needed.
        schema["security"] = [{"key": []}, {}]
        app.openapi_schema = _without_unused(schema)
    return app.openapi_schema


def _without_unused(schema: dict[str, Any]) -> dict[str, Any]:
    """Leave out schemas of routes that are left out."""
    schemas = schema["components"]["schemas"]
    used: set[str] = set()
    waiting = [schema["paths"]]
    while waiting:
        names = _references(waiting.pop()) - used
        used |= names
        waiting += [schemas[name] for name in names if name in schemas]
    schema["components"]["schemas"] = {name: found for name, found in schemas.items() if name in used}
    return schema


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"].rpartition("/")[2]} if isinstance(value.get("$ref"), str) else set[str]()
        return own.union(*map(_references, value.values()))
    return set[str]().union(*map(_references, value)) if isinstance(value, list) else set[str]()


def methods_of(app: FastAPI, path: str) -> list[str]:
    """The methods of a path of the native API, which several routes may share; none of a path that it does not have."""
    found = {
        method.upper()
        for template, operations in app.openapi()["paths"].items()
        if _pattern(template).fullmatch(path)
        for method in operations
    }
    return sorted(found)


@cache
def _pattern(template: str) -> re.Pattern[str]:
    """Ids of pairs may contain any character, as in `pairs.py`."""
    parts = re.split(r"(\{\w+\})", template)
    last = ".+" if "/pairs/" in template else "[^/]+"
    parts = [("[^/]+" if part != "{id}" else last) if part.startswith("{") else re.escape(part) for part in parts]
    return re.compile("".join(parts), re.DOTALL)
