"""The page: files that a browser gets as they are. They use /api/v1 and nothing else."""

from __future__ import annotations

import mimetypes
from os import PathLike, stat_result
from pathlib import Path

from fastapi import FastAPI
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOLDER = Path(__file__).parent
#: A browser asks whether its copy is current: after an upgrade there is no page of two versions.
_CACHING = {"cache-control": "no-cache"}
#: Modules are not run with another type, and the system's table may have one.
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def mount(app: FastAPI) -> None:
    """Serve the page at `/` and its files at `/static`."""
    for suffix, media_type in _TYPES.items():
        mimetypes.add_type(media_type, suffix)
    app.add_api_route("/", _index, methods=["GET", "HEAD"], include_in_schema=False)
    app.mount("/static", _Files(directory=FOLDER / "static"), name="static")


async def _index() -> Response:
    return FileResponse(FOLDER / "index.html", headers=_CACHING)


class _Files(StaticFiles):
    def file_response(
        self, full_path: str | PathLike[str], stat_result: stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers.update(_CACHING)
        return response
