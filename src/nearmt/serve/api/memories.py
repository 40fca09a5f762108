"""Memories: make, describe, delete, import, export, maintain."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, File, Form, Request, Response, UploadFile
from fastapi.responses import StreamingResponse

from nearmt.serve.api.dependencies import ThePrincipal, TheService
from nearmt.serve.api.files import disposition
from nearmt.serve.api.job_schemas import JobAnswer
from nearmt.serve.api.memory_schemas import MemoriesAnswer, MemoryBody
from nearmt.serve.api.problem_answers import problems
from nearmt.serve.learning import ExportFormat
from nearmt.serve.running import run
from nearmt.serve.values import MemoryInfo

router = APIRouter(prefix="/memories", tags=["memories"])

_MEDIA_TYPES: dict[ExportFormat, str] = {
    "tmx": "application/x-tmx+xml",
    "tsv": "text/tab-separated-values; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "po": "text/x-gettext-translation; charset=utf-8",
}
_FILES = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in _MEDIA_TYPES.values()}
#: Where to go on with a memory.
_LINKS = {
    name: {"operationId": name, "parameters": {"name": "$response.body#/name"}}
    for name in ("memories_memory", "pairs_pairs", "pairs_add", "memories_export", "memories_delete")
}


@router.get("", responses=problems())
async def memories(request: Request, service: TheService, principal: ThePrincipal) -> MemoriesAnswer:
    """The memories of the key. One with a `problem` cannot be used."""
    return MemoriesAnswer(memories=await run(request, lambda: service.memory_infos(principal)))


@router.post("", status_code=201, responses={**problems(404, 409, 507), 201: {"links": _LINKS}})
async def create(request: Request, body: MemoryBody, service: TheService, principal: ThePrincipal) -> MemoryInfo:
    """Make an empty memory of a direction, by default that of the first model."""
    given = body.name, body.source_lang, body.target_lang
    return await run(request, lambda: service.create_memory(principal, *given))


@router.get("/{name}", responses=problems(404))
async def memory(request: Request, name: str, service: TheService, principal: ThePrincipal) -> MemoryInfo:
    """What is in a memory."""
    return await run(request, lambda: service.memory_info(principal, name))


@router.delete("/{name}", status_code=204, response_class=Response, responses=problems(404, 409))
async def delete(request: Request, name: str, service: TheService, principal: ThePrincipal) -> Response:
    """Delete a memory and all its files."""
    await run(request, lambda: service.delete_memory(principal, name))
    return Response(status_code=204)


@router.post("/{name}/import", status_code=202, responses=problems(404, 409, 507))
async def import_file(
    request: Request,
    name: str,
    service: TheService,
    principal: ThePrincipal,
    file: Annotated[UploadFile, File()],
    format: Annotated[str, Form(max_length=40)] = "",
    source_lang: Annotated[str, Form(max_length=40)] = "",
    target_lang: Annotated[str, Form(max_length=40)] = "",
) -> JobAnswer:
    """Add the pairs of a file in the background: TMX, XLIFF, PO, MO, TSV, CSV, XLSX or JSONL, also with .gz or .xz.

    The format follows the name of the file. The languages are those of a file that does not say them, or says them
    wrong.
    """
    options = {"format": format or None, "source_lang": source_lang or None, "target_lang": target_lang or None}
    filename = file.filename or "upload"
    job = await run(request, lambda: service.import_file(principal, name, filename, file.file, **options))
    return JobAnswer.of(job)


@router.get(
    "/{name}/export", response_class=StreamingResponse, responses={**problems(404, 409), 200: {"content": _FILES}}
)
async def export(
    request: Request, name: str, service: TheService, principal: ThePrincipal, format: ExportFormat = "tmx"
) -> StreamingResponse:
    """All pairs as a file."""
    chunks = await run(request, lambda: service.export(principal, name, format))
    headers = {"Content-Disposition": disposition(f"{name}.{format}")}
    return StreamingResponse(chunks, media_type=_MEDIA_TYPES[format], headers=headers)


@router.post("/{name}/compact", status_code=202, responses=problems(404, 409))
async def compact(request: Request, name: str, service: TheService, principal: ThePrincipal) -> JobAnswer:
    """Remove the text of deleted pairs from disk, in the background."""
    return JobAnswer.of(await run(request, lambda: service.compact(principal, name)))


@router.post("/{name}/verify", status_code=202, responses=problems(404, 409))
async def verify(request: Request, name: str, service: TheService, principal: ThePrincipal) -> JobAnswer:
    """Compare the files of a memory with their checksums, in the background."""
    return JobAnswer.of(await run(request, lambda: service.verify(principal, name)))
