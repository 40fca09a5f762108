"""Parameters of requests: most services take them from the query, from a form or from JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from nearmt.serve.errors import RequestError

_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


class Parameters(BaseModel):
    """Parameters by name; those that a dialect does not know are ignored."""

    model_config = ConfigDict(coerce_numbers_to_str=True)


Given = TypeVar("Given", bound=Parameters)


def _as_list(value: object) -> object:
    return value if isinstance(value, list) or value is None else [value]


def _as_names(value: object) -> object:
    """Names in a list, or separated by commas."""
    if isinstance(value, list):
        return [name for item in value for name in (_split(item) if isinstance(item, str) else [item])]
    return _split(value) if isinstance(value, str) else value


def _split(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


#: One text or several.
Texts = Annotated[tuple[str, ...], BeforeValidator(_as_list)]
Names = Annotated[tuple[str, ...], BeforeValidator(_as_names)]


async def parameters(request: Request) -> dict[str, Any]:
    """The parameters in the query and in the body, which goes first; one that is given several times is a list."""
    given = _several(request.query_params.multi_items())
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() in _FORMS:
        return given | _several((await request.form()).multi_items())
    body = await json_body(request)
    if body is not None and not isinstance(body, dict):
        raise RequestError("Invalid JSON format")
    return given | (body or {})


async def json_body(request: Request) -> Any:
    """The decoded body; None if it is empty."""
    raw = await request.body()
    if not raw.strip():
        return None
    try:
        value = json.loads(raw)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:  # a lone surrogate cannot be encoded
        raise RequestError("Invalid JSON format") from error
    return value


def _several(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, list[Any]] = {}
    for name, value in items:
        found.setdefault(name.removesuffix("[]"), []).append(value)
    return {name: values if len(values) > 1 else values[0] for name, values in found.items()}


def parsed(kind: type[Given], values: dict[str, Any], missing: str = "parameter '{}' is missing") -> Given:
    """Check parameters; the error names the first that is wrong."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
        name = ".".join(map(str, fault["loc"]))
        is_missing = fault["type"] == "missing" or values.get(str(fault["loc"][0]), "") is None
        message = missing.format(name) if is_missing else f"parameter '{name}': {fault['msg']}"
        raise RequestError(message) from error
