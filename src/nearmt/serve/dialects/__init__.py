"""Dialects: what clients of other services already speak, as translations to and from the service.

Each module has a `router`, and the `shape` of its errors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fastapi import FastAPI

from nearmt.serve.dialects import apertium, deepl, libretranslate, modernmt, opuscat, tmserver
from nearmt.serve.dialects.deepl.files import expects
from nearmt.serve.dialects.deepl.transfers import Transfers

_DIALECTS = {
    "libretranslate": libretranslate,
    "deepl": deepl,
    "modernmt": modernmt,
    "opuscat": opuscat,
    "tmserver": tmserver,
    "apertium": apertium,
}


def mount(app: FastAPI) -> None:
    """Add the endpoints of all dialects, after `problems.install`."""
    app.add_middleware(modernmt.MethodOverride)
    app.state.transfers = Transfers()
    for name, dialect in _DIALECTS.items():
        app.state.problem_shapes[name] = dialect.shape
        app.include_router(dialect.router, include_in_schema=False)


def announced(app: FastAPI) -> Callable[[str], bool]:
    """Tells whether an upload to a path was announced by someone who has a key."""
    return partial(expects, app.state.transfers)
