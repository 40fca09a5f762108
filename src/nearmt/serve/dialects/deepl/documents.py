"""Documents: upload, status, download. A document is deleted when it has been downloaded, as DeepL does."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask
from starlette.datastructures import UploadFile

from nearmt.serve.api.dependencies import service_of
from nearmt.serve.dialects.deepl.answers import principal_of
from nearmt.serve.dialects.deepl.translation import MISSING, REFUSALS, CommonParameters
from nearmt.serve.dialects.languages import check_direction
from nearmt.serve.dialects.parameters import Parameters, parameters, parsed
from nearmt.serve.errors import NotFound, RequestError
from nearmt.serve.jobs import Job, JobState
from nearmt.serve.keys import Principal
from nearmt.serve.running import run
from nearmt.serve.values import TranslationRequest

router = APIRouter(prefix="/v2/document")

_STATUS: dict[JobState, str] = {
    "queued": "queued",
    "running": "translating",
    "done": "done",
    "failed": "error",
    "cancelled": "error",
}


class NotReady(RequestError):
    """The document is still being translated."""

    status = 503


class DocumentParameters(CommonParameters):
    filename: str | None = None
    output_format: str | None = None


class KeyParameters(Parameters):
    document_key: str


def _key_of(id: str) -> str:
    """The key of a document. Access is by the API key; this one only tells that its owner knows the upload."""
    return hashlib.sha256(f"nearmt document {id}".encode()).hexdigest().upper()


@router.post("")
async def upload(request: Request) -> dict[str, str]:
    principal, service = await principal_of(request), service_of(request)
    values = await parameters(request)
    file = values.pop("file", None)
    given = parsed(DocumentParameters, values, MISSING)
    given.check()
    if not isinstance(file, UploadFile):
        raise RequestError(MISSING.format("file"))
    filename = Path(given.filename or file.filename or "").name
    if given.output_format and f".{given.output_format.lower()}" != Path(filename).suffix.lower():
        raise RequestError("A document is translated into its own format.")
    check_direction(service.directions(), given.source_lang or None, given.target_lang, REFUSALS)
    terms = given.terms(service, principal)
    asked = TranslationRequest(
        (),
        given.source_lang or None,
        given.target_lang,
        given.memories(request),
        settings=given.settings,
        terms=terms,
        bulk=True,
    )
    job = await run(request, lambda: service.documents.submit(principal, filename, file.file, asked))
    return {"document_id": job.id, "document_key": _key_of(job.id)}


@router.post("/{id}")
async def status(request: Request, id: str) -> dict[str, Any]:
    _, job = await _document(request, id)
    found: dict[str, Any] = {"document_id": id, "status": _STATUS[job.state]}
    if job.state == "done":
        found["billed_characters"] = job.result.get("characters", 0)
    elif job.is_finished:
        found["error_message"] = job.message or job.state
    else:
        found["seconds_remaining"] = 1
    return found


@router.post("/{id}/result")
async def download(request: Request, id: str) -> FileResponse:
    principal, job = await _document(request, id)
    if not job.is_finished:
        raise NotReady("The document is not ready.")
    documents = service_of(request).documents
    result = await run(request, lambda: documents.result(principal, id))
    return FileResponse(
        result.path,
        media_type=result.media_type,
        filename=result.filename,
        background=BackgroundTask(documents.delete, principal, id),
    )


async def _document(request: Request, id: str) -> tuple[Principal, Job]:
    principal, service = await principal_of(request), service_of(request)
    given = parsed(KeyParameters, await parameters(request), MISSING)
    if not hmac.compare_digest(given.document_key.encode(), _key_of(id).encode()):
        raise NotFound(f"no document '{id[:64]}'")
    return principal, service.jobs.get(principal, id)
