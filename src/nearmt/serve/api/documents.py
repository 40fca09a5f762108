"""Documents: upload, units, corrections, result."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Path, Query, Request, Response, UploadFile
from fastapi.responses import FileResponse
from pydantic import ValidationError

from nearmt.errors import InputError
from nearmt.serve.api.dependencies import ThePrincipal, TheService
from nearmt.serve.api.files import disposition
from nearmt.serve.api.job_schemas import JobAnswer, RetranslateBody, UnitBody, UnitPageAnswer
from nearmt.serve.api.problem_answers import problems
from nearmt.serve.api.schemas import TranslateBody
from nearmt.serve.api.translating import request_of
from nearmt.serve.documents import MOST_UNITS_SHOWN
from nearmt.serve.running import run
from nearmt.serve.systems import MOST_BEAMS
from nearmt.serve.values import DocumentUnit

router = APIRouter(prefix="/documents", tags=["documents"])

#: Fields of forms are texts; an empty one counts as left out.
Text = Annotated[str, Form(max_length=200)]
Json = Annotated[str, Form(max_length=10_000)]
_FILE = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
#: Where to go on with a document.
_LINKS = {
    name: {"operationId": f"documents_{name}", "parameters": {"id": "$response.body#/id"}}
    for name in ("document", "units", "edit", "retranslate", "result", "delete")
}


@router.post("", status_code=202, responses={**problems(404, 409, 507), 202: {"links": _LINKS}})
async def submit(
    request: Request,
    service: TheService,
    principal: ThePrincipal,
    file: Annotated[UploadFile, File()],
    format: Text = "",
    source_lang: Text = "",
    target_lang: Text = "",
    memories: Json = "",
    filter: Json = "",
    method: Text = "",
    settings: Json = "",
    beams: Annotated[int, Form(ge=0, le=MOST_BEAMS)] = 0,
    exact: Annotated[bool, Form()] = True,
    glossary: Text = "",
    everything: Annotated[bool, Form()] = False,
) -> JobAnswer:
    """Translate a document in the background, in any format that `nearmt translate` fills.

    `memories` (a list of names and weights) and `settings` are JSON. `format` is for files whose name does not say
    it. `everything` also translates units that have a translation.
    """
    given: dict[str, Any] = {
        "texts": [],
        "source_lang": source_lang or None,
        "target_lang": target_lang or None,
        "memories": _parsed("memories", memories),
        "filter": filter or None,
        "method": method or None,
        "settings": _parsed("settings", settings or "{}"),
        "beams": beams or None,
        "exact": exact,
        "glossary": glossary or None,
    }
    body = _checked(given)
    filename = file.filename or "upload"

    def begin() -> JobAnswer:
        asked = request_of(service, principal, body)
        job = service.documents.submit(principal, filename, file.file, asked, format or None, everything)
        return JobAnswer.of(job)

    return await run(request, begin)


@router.get("/{id}", responses=problems(404))
async def document(id: str, service: TheService, principal: ThePrincipal) -> JobAnswer:
    """How far the translation of a document is."""
    return JobAnswer.of(service.documents.get(principal, id))


@router.get("/{id}/units", responses=problems(404, 409))
async def units(
    request: Request,
    id: str,
    service: TheService,
    principal: ThePrincipal,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    limit: Annotated[int, Query(ge=0, le=MOST_UNITS_SHOWN)] = 50,
) -> UnitPageAnswer:
    """Units of a document with their translations so far."""
    found = await run(request, lambda: service.documents.units(principal, id, offset, limit))
    return UnitPageAnswer(units=list(found.units), total=found.total)


@router.put("/{id}/units/{number}", responses=problems(404, 409, 507))
async def edit(
    request: Request,
    id: str,
    number: Annotated[int, Path(ge=0, le=1_000_000)],
    body: UnitBody,
    service: TheService,
    principal: ThePrincipal,
) -> DocumentUnit:
    """Correct or confirm a unit; tags stand in the target as they stand in the source."""
    given = body.target, body.confirmed, body.learn
    return await run(request, lambda: service.documents.edit(principal, id, number, *given))


@router.post("/{id}/retranslate", status_code=202, responses=problems(404, 409))
async def retranslate(
    request: Request, id: str, body: RetranslateBody, service: TheService, principal: ThePrincipal
) -> JobAnswer:
    """Translate units that are not confirmed again, with what was learnt since."""
    return JobAnswer.of(await run(request, lambda: service.documents.retranslate(principal, id, body.units)))


@router.get("/{id}/result", response_class=FileResponse, responses={**problems(404, 409), 200: {"content": _FILE}})
async def result(request: Request, id: str, service: TheService, principal: ThePrincipal) -> FileResponse:
    """The document in its own format, with translations and corrections."""
    found = await run(request, lambda: service.documents.result(principal, id))
    headers = {"Content-Disposition": disposition(found.filename)}
    return FileResponse(found.path, media_type="application/octet-stream", headers=headers)


@router.delete("/{id}", status_code=204, response_class=Response, responses=problems(404))
async def delete(request: Request, id: str, service: TheService, principal: ThePrincipal) -> Response:
    """Delete a document, its translations and its result."""
    await run(request, lambda: service.documents.delete(principal, id))
    return Response(status_code=204)


def _parsed(name: str, text: str) -> Any:
    if not text:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: not JSON") from error


def _checked(given: dict[str, Any]) -> TranslateBody:
    try:
        return TranslateBody.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
