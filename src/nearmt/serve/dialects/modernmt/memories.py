"""Memories, and the glossaries that this service keeps among them.

A memory whose name cannot be one of nearmt's becomes a glossary without terms: Weblate makes its glossaries so.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from nearmt.serve.api.dependencies import service_of
from nearmt.serve.dialects.modernmt.envelope import enveloped, principal_of
from nearmt.serve.dialects.modernmt.ids import find_glossary, find_memory, number_of
from nearmt.serve.dialects.parameters import Parameters, parameters, parsed
from nearmt.serve.errors import NotFound, RequestError
from nearmt.serve.glossaries import Glossary
from nearmt.serve.keys import Principal
from nearmt.serve.memories import is_name
from nearmt.serve.running import run
from nearmt.serve.service import Service
from nearmt.serve.values import MemoryInfo

router = APIRouter(prefix="/memories")

#: Of memories, which do not tell when they were made.
_UNKNOWN_DATE = "1970-01-01T00:00:00+00:00"


class CreateParameters(Parameters):
    name: str
    description: str | None = None


class EditParameters(Parameters):
    name: str | None = None


def _shown_memory(info: MemoryInfo) -> dict[str, Any]:
    description = f"{info.source_lang} to {info.target_lang}"
    return _shown(info.name, description, _UNKNOWN_DATE)


def _shown_glossary(glossary: Glossary) -> dict[str, Any]:
    return _shown(glossary.name, "glossary", glossary.created or _UNKNOWN_DATE)


def _shown(name: str, description: str, created: str) -> dict[str, Any]:
    return {
        "id": number_of(name),
        "key": name,
        "name": name,
        "description": description,
        "externalId": None,
        "creationDate": created,
    }


@router.get("")
async def list_memories(request: Request) -> dict[str, Any]:
    principal, service = await principal_of(request), service_of(request)

    def work() -> list[dict[str, Any]]:
        infos = service.memory_infos(principal)
        names = {info.name for info in infos}
        glossaries = [glossary for glossary in service.glossaries.all(principal) if glossary.name not in names]
        return [*map(_shown_memory, infos), *map(_shown_glossary, glossaries)]

    return enveloped(await run(request, work))


@router.post("")
async def create(request: Request) -> dict[str, Any]:
    principal, service = await principal_of(request), service_of(request)
    given = parsed(CreateParameters, await parameters(request))
    if not given.name.strip():
        raise RequestError("the name is empty")

    def work() -> dict[str, Any]:
        if is_name(given.name):
            return _shown_memory(service.create_memory(principal, given.name))
        existing = find_glossary(service, principal, given.name)
        return _shown_glossary(existing or service.glossaries.create(principal, given.name, {}))

    return enveloped(await run(request, work))


@router.get("/{id}")
async def show(request: Request, id: str) -> dict[str, Any]:
    principal, service = await principal_of(request), service_of(request)
    return enveloped(await run(request, lambda: _found(service, principal, id)))


@router.put("/{id}")
async def edit(request: Request, id: str) -> dict[str, Any]:
    """A memory keeps its name, which is that of its folder; a description is not stored."""
    principal, service = await principal_of(request), service_of(request)
    given = parsed(EditParameters, await parameters(request))
    found = await run(request, lambda: _found(service, principal, id))
    if given.name not in (None, found["name"]):
        raise RequestError("a memory keeps its name")
    return enveloped(found)


@router.delete("/{id}")
async def delete(request: Request, id: str) -> dict[str, Any]:
    """Delete a memory and the glossary of the same name."""
    principal, service = await principal_of(request), service_of(request)

    def work() -> dict[str, Any]:
        found = _found(service, principal, id)
        if found["name"] in service.memories.names():
            service.delete_memory(principal, found["name"])
        if glossary := find_glossary(service, principal, found["name"]):
            service.glossaries.delete(principal, glossary.id)
        return found

    return enveloped(await run(request, work))


def _found(service: Service, principal: Principal, id: str) -> dict[str, Any]:
    try:
        return _shown_memory(service.memory_info(principal, find_memory(service, principal, id)))
    except NotFound:
        glossary = find_glossary(service, principal, id)
        if glossary is None:
            raise
        return _shown_glossary(glossary)
