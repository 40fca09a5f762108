"""Files of imports and exports, at addresses with a token: no key is sent there."""

from __future__ import annotations

import re
import tempfile
from typing import BinaryIO, cast

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from nearmt.languages import base_language
from nearmt.serve.api.dependencies import service_of
from nearmt.serve.dialects.deepl.memories import FILES, free_name, transfers_of
from nearmt.serve.dialects.deepl.transfers import Transfer, Transfers
from nearmt.serve.errors import Conflict, NotFound, RequestError
from nearmt.serve.jobs import Job
from nearmt.serve.models import Direction
from nearmt.serve.running import run
from nearmt.serve.service import Service

router = APIRouter(prefix=FILES.removeprefix("/deepl"))

#: Of an upload, in memory; more is in a temporary file.
_IN_MEMORY = 1 << 20
#: Where the languages of a file are looked for.
_BEGINNING = 1 << 16
_SOURCE = re.compile(rb"""\bsrclang\s*=\s*["']([\w-]{2,35})["']""")
_LANGUAGE = re.compile(rb"""\b(?:xml:)?lang\s*=\s*["']([\w-]{2,35})["']""")


def expects(transfers: Transfers, path: str) -> bool:
    """Whether a file was announced that is sent to this path."""
    folder, _, token = path.rpartition("/")
    try:
        return folder == FILES and transfers.by_token(token, "import").job is None
    except NotFound:
        return False


@router.put("/{token}")
async def upload(request: Request, token: str) -> Response:
    """Make a memory of the uploaded TMX file."""
    transfers, service = transfers_of(request), service_of(request)
    transfer = transfers.by_token(token, "import")
    if transfer.job is not None:
        raise Conflict("the file has been uploaded")
    request.state.principal = transfer.principal
    file = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  # closed below, in this task
    try:
        async for chunk in request.stream():
            file.write(chunk)
        file.seek(0)
        name, job = await run(request, lambda: _imported(service, transfer, cast(BinaryIO, file)))
    finally:
        file.close()
    transfers.begin(transfer, name, job.id)
    return Response(status_code=200)


def _imported(service: Service, transfer: Transfer, file: BinaryIO) -> tuple[str, Job]:
    """The name of the new memory, and the job that fills it."""
    source, target = _direction(service, file)
    name = free_name(service, transfer.memory)
    service.create_memory(transfer.principal, name, source, target)
    return name, service.import_file(transfer.principal, name, "upload.tmx", file)


def _direction(service: Service, file: BinaryIO) -> Direction:
    """The first direction of a model whose languages the beginning of the file names."""
    # UTF-16 becomes ASCII, as far as attributes are concerned.
    beginning = file.read(_BEGINNING).replace(b"\0", b"")
    file.seek(0)
    directions = service.directions()
    declared = _SOURCE.search(beginning)
    source = base_language(declared[1].decode()) if declared else ""
    languages = {base_language(found.decode()) for found in _LANGUAGE.findall(beginning)} | {source}
    fitting = [pair for pair in directions if set(pair) <= languages]
    if not fitting:
        raise RequestError("the file has no pairs in a direction that a model has")
    return next((pair for pair in fitting if pair[0] == source), fitting[0])


@router.get("/{token}")
async def download(request: Request, token: str) -> StreamingResponse:
    """The pairs of a memory as TMX."""
    transfer = transfers_of(request).by_token(token, "export")
    request.state.principal = transfer.principal
    service = service_of(request)
    chunks = await run(request, lambda: service.export(transfer.principal, transfer.memory, "tmx"))
    return StreamingResponse(chunks, media_type="application/xml")
