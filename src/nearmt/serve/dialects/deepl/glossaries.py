"""Glossaries of version 2, which have one direction. Those with several are in version 3 only."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from nearmt.languages import base_language
from nearmt.serve.api.dependencies import service_of
from nearmt.serve.dialects.deepl.answers import principal_of, timestamp
from nearmt.serve.dialects.deepl.translation import MISSING
from nearmt.serve.dialects.languages import is_supported
from nearmt.serve.dialects.parameters import Parameters, parameters, parsed
from nearmt.serve.dialects.terms import terms_of, tsv
from nearmt.serve.errors import NotFound, RequestError
from nearmt.serve.glossaries import Glossary
from nearmt.serve.models import Direction
from nearmt.serve.running import run

router = APIRouter(prefix="/v2/glossaries")

_TSV = "text/tab-separated-values"


class GlossaryParameters(Parameters):
    name: str
    source_lang: str
    target_lang: str
    entries: str
    entries_format: str = "tsv"


def direction_of(request: Request, source_lang: str, target_lang: str) -> Direction:
    """A direction that a model has."""
    if not is_supported(service_of(request).directions(), source_lang, target_lang):
        raise RequestError("Unsupported glossary source and target language pair")
    return base_language(source_lang), base_language(target_lang)


@router.post("", status_code=201)
async def create(request: Request) -> dict[str, Any]:
    principal, service = await principal_of(request), service_of(request)
    given = parsed(GlossaryParameters, await parameters(request), MISSING)
    direction = direction_of(request, given.source_lang, given.target_lang)
    terms = {direction: terms_of(given.entries, given.entries_format)}
    return _shown(await run(request, lambda: service.glossaries.create(principal, given.name, terms)))


@router.get("")
async def list_glossaries(request: Request) -> dict[str, Any]:
    principal, service = await principal_of(request), service_of(request)
    found = await run(request, lambda: service.glossaries.all(principal))
    return {"glossaries": [_shown(glossary) for glossary in found if len(glossary.terms) == 1]}


@router.get("/{id}")
async def show(request: Request, id: str) -> dict[str, Any]:
    return _shown(await _glossary(request, id))


@router.get("/{id}/entries")
async def entries(request: Request, id: str) -> PlainTextResponse:
    [terms] = (await _glossary(request, id)).terms.values()
    return PlainTextResponse(tsv(terms), media_type=_TSV)


@router.delete("/{id}", status_code=204)
async def delete(request: Request, id: str) -> Response:
    principal, service = await principal_of(request), service_of(request)
    await run(request, lambda: service.glossaries.delete(principal, id))
    return Response(status_code=204)


async def _glossary(request: Request, id: str) -> Glossary:
    principal, service = await principal_of(request), service_of(request)
    glossary = await run(request, lambda: service.glossaries.get(principal, id))
    if len(glossary.terms) != 1:
        raise NotFound(f"no glossary '{id[:64]}' with one direction")
    return glossary


def _shown(glossary: Glossary) -> dict[str, Any]:
    [((source, target), terms)] = glossary.terms.items()
    return {
        "glossary_id": glossary.id,
        "name": glossary.name,
        "ready": True,
        "source_lang": source,
        "target_lang": target,
        "creation_time": timestamp(glossary.created),
        "entry_count": len(terms),
    }
