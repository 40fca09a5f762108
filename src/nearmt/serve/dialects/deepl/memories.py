"""Translation memories: list, segments, delete, and jobs that import and export them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from nearmt.contracts import Pair
from nearmt.serve.api.dependencies import service_of
from nearmt.serve.dialects.deepl.answers import principal_of, timestamp
from nearmt.serve.dialects.deepl.transfers import Transfer, Transfers
from nearmt.serve.dialects.deepl.translation import MISSING
from nearmt.serve.dialects.parameters import Parameters, json_body, parameters, parsed
from nearmt.serve.errors import NotFound, RequestError
from nearmt.serve.jobs import JobState
from nearmt.serve.keys import Principal
from nearmt.serve.running import run
from nearmt.serve.service import Service
from nearmt.serve.values import MemoryInfo, PairPage

router = APIRouter(prefix="/v3/translation_memories")

#: The address of uploads and downloads, without the token.
FILES = "/deepl/v3/translation_memories/files"
_STATUS: dict[JobState, str] = {
    "queued": "processing",
    "running": "processing",
    "done": "completed",
    "failed": "failed",
    "cancelled": "failed",
}
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


class PageParameters(Parameters):
    page: int = Field(0, ge=0)
    page_size: int = Field(10, ge=1, le=25)


class SegmentParameters(Parameters):
    page_size: int = Field(50, ge=1, le=100)
    page_cursor: str = "0"
    filter_text: str = ""
    filter_case_sensitive: bool = False


class SourceFile(Parameters):
    file_name: str
    content_length: int = Field(gt=0)
    content_type: str = "application/xml"


class ImportSettings(Parameters):
    display_name: str = ""


class ImportParameters(Parameters):
    source_file: SourceFile
    parameters: ImportSettings = ImportSettings()


def transfers_of(request: Request) -> Transfers:
    transfers: Transfers = request.app.state.transfers
    return transfers


@router.get("")
async def list_memories(request: Request) -> dict[str, Any]:
    principal, service = await principal_of(request), service_of(request)
    given = parsed(PageParameters, await parameters(request), MISSING)

    def work() -> dict[str, Any]:
        names = [name for name in service.memories.names() if principal.sees(name)]
        start = given.page * given.page_size
        page = [service.memory_info(principal, name) for name in names[start : start + given.page_size]]
        return {"translation_memories": [_shown(info) for info in page], "total_count": len(names)}

    return await run(request, work)


@router.get("/jobs/{id}")
async def job(request: Request, id: str) -> dict[str, Any]:
    principal, service = await principal_of(request), service_of(request)
    transfer = transfers_of(request).get(principal, id)
    return await run(request, lambda: _job(request, service, principal, transfer))


@router.post("/import", status_code=201)
async def begin_import(request: Request) -> dict[str, Any]:
    """Announce a TMX file, which is then sent to the address in the answer."""
    principal = await principal_of(request)
    principal.check("admin")
    given = parsed(ImportParameters, await json_body(request) or {}, MISSING)
    file = given.source_file
    wanted = given.parameters.display_name or PurePath(file.file_name).stem
    name = _NOT_IN_NAMES.sub("-", wanted).strip("-._")[:48] or "memory"
    transfer = transfers_of(request).add("import", principal, name, file.content_type, file.content_length)
    return {
        "job_id": transfer.id,
        "upload_url": file_address(request, transfer),
        "expires_at": _time(transfer.expires),
    }


@router.get("/{id}")
async def show(request: Request, id: str) -> dict[str, Any]:
    principal, service = await principal_of(request), service_of(request)
    return _shown(await run(request, lambda: service.memory_info(principal, id)))


@router.delete("/{id}", status_code=204)
async def delete(request: Request, id: str) -> Response:
    principal, service = await principal_of(request), service_of(request)
    await run(request, lambda: service.delete_memory(principal, id))
    return Response(status_code=204)


@router.get("/{id}/segments")
async def segments(request: Request, id: str) -> dict[str, Any]:
    principal, service = await principal_of(request), service_of(request)
    given = parsed(SegmentParameters, await parameters(request), MISSING)
    if not given.page_cursor.isdecimal():
        raise RequestError("Value for 'page_cursor' not supported.")
    offset = int(given.page_cursor)

    def work() -> tuple[MemoryInfo, PairPage]:
        page = service.pairs(principal, id, given.filter_text, offset, given.page_size)
        return service.memory_info(principal, id), page

    info, page = await run(request, work)
    shown = [pair for pair in page.pairs if not given.filter_case_sensitive or _has(pair, given.filter_text)]
    found: dict[str, Any] = {
        "segments": [_segment(pair, info.target_lang) for pair in shown],
        "segment_count": info.pairs,
    }
    if offset + len(page.pairs) < page.total:
        found["next_page_cursor"] = str(offset + len(page.pairs))
    return found


@router.post("/{id}/export", status_code=202)
async def export(request: Request, id: str) -> JSONResponse:
    """The file is made when it is fetched."""
    principal, service = await principal_of(request), service_of(request)
    await run(request, lambda: service.memory_info(principal, id))
    transfer = transfers_of(request).add("export", principal, id)
    return JSONResponse({"job_id": transfer.id, "parameters": {"translation_memory_id": id}}, 202)


def file_address(request: Request, transfer: Transfer) -> str:
    return f"{str(request.base_url).rstrip('/')}{FILES}/{transfer.token}"


def _job(request: Request, service: Service, principal: Principal, transfer: Transfer) -> dict[str, Any]:
    is_import = transfer.operation == "import"
    result = _import_result(request, service, principal, transfer) if is_import else _export_result(request, transfer)
    named = {"display_name": transfer.memory} if is_import else {"translation_memory_id": transfer.memory}
    found: dict[str, Any] = {
        "job_id": transfer.id,
        "operation": transfer.operation,
        "product": "translation_memory",
        "parameters": named,
        "creation_time": _time(transfer.created),
        "updated_time": _time(transfer.created),
        "results": [result],
    }
    if is_import:
        found["source_file"] = {
            "content_type": transfer.content_type,
            "content_length": transfer.content_length,
        }
    return found


def _export_result(request: Request, transfer: Transfer) -> dict[str, Any]:
    if transfers_of(request).has_expired(transfer):
        return {"status": "expired"}
    return {
        "status": "completed",
        "download_url": file_address(request, transfer),
        "expires_at": _time(transfer.expires),
    }


def _import_result(request: Request, service: Service, principal: Principal, transfer: Transfer) -> dict[str, Any]:
    if transfer.job is None:
        if transfers_of(request).has_expired(transfer):
            return {"status": "expired"}
        return {"status": "awaiting_input", "status_metadata": {"required_action": "upload the file"}}
    found = service.jobs.get(principal, transfer.job)
    status = _STATUS[found.state]
    result: dict[str, Any] = {"status": status}
    if status == "failed":
        result["error"] = {"message": found.message or found.state}
    if status == "completed":
        result["translation_memory_id"] = transfer.memory
        result["skipped_segment_count"] = sum(sum(found.result[kind].values()) for kind in ("skipped", "dropped"))
    return result


def _shown(info: MemoryInfo) -> dict[str, Any]:
    return {
        "translation_memory_id": info.name,
        "name": info.name,
        "source_language": info.source_lang,
        "target_languages": [info.target_lang],
        "segment_count": info.pairs,
    }


def _segment(pair: Pair, target_lang: str) -> dict[str, Any]:
    target = {"target_segment_id": pair.id, "target_language": target_lang, "target_text": pair.target}
    return {"source_segment_id": pair.id, "source_text": pair.source, "targets": [target]}


def _has(pair: Pair, text: str) -> bool:
    return text in pair.source or text in pair.target


def _time(seconds: float) -> str:
    return timestamp(datetime.fromtimestamp(seconds, UTC).isoformat())


def free_name(service: Service, name: str) -> str:
    """A name that no memory has."""
    taken = set(service.memories.names())
    numbered = (name if number == 1 else f"{name}-{number}" for number in range(1, len(taken) + 2))
    found = next((each for each in numbered if each not in taken), None)
    if found is None:
        raise NotFound("no free name")
    return found
