"""Glossaries of version 3, which have dictionaries of several directions and can be edited."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from nearmt.corpus.glossary import Term
from nearmt.serve.api.dependencies import service_of
from nearmt.serve.dialects.deepl.answers import principal_of, timestamp
from nearmt.serve.dialects.deepl.glossaries import direction_of
from nearmt.serve.dialects.deepl.translation import MISSING
from nearmt.serve.dialects.parameters import Parameters, parameters, parsed
from nearmt.serve.dialects.terms import merged, terms_of, tsv
from nearmt.serve.errors import NotFound, RequestError
from nearmt.serve.glossaries import Glossary
from nearmt.serve.models import Direction
from nearmt.serve.running import run

router = APIRouter(prefix="/v3/glossaries")

#: In forms: `dictionaries[0].source_lang`.
_FIELD = re.compile(r"dictionaries\[(\d{1,4})\]\.(\w+)")


class DirectionParameters(Parameters):
    source_lang: str
    target_lang: str


class DictionaryParameters(DirectionParameters):
    entries: str
    entries_format: str = "tsv"


class CreateParameters(Parameters):
    name: str
    dictionaries: tuple[DictionaryParameters, ...]


class EditParameters(Parameters):
    name: str | None = None
    dictionaries: tuple[DictionaryParameters, ...] = ()


async def _values(request: Request) -> dict[str, Any]:
    """Parameters, with the dictionaries of a form in a list."""
    values = await parameters(request)
    numbered: dict[int, dict[str, Any]] = {}
    for name, value in values.items():
        if found := _FIELD.fullmatch(name):
            numbered.setdefault(int(found[1]), {})[found[2]] = value
    return values | ({"dictionaries": [numbered[number] for number in sorted(numbered)]} if numbered else {})


def _terms(request: Request, dictionaries: Sequence[DictionaryParameters]) -> dict[Direction, list[Term]]:
    found: dict[Direction, list[Term]] = {}
    for given in dictionaries:
        direction = direction_of(request, given.source_lang, given.target_lang)
        if direction in found:
            raise RequestError("Several dictionaries have the same languages.")
        found[direction] = terms_of(given.entries, given.entries_format)
    return found


@router.post("", status_code=201)
async def create(request: Request) -> dict[str, Any]:
    principal, service = await principal_of(request), service_of(request)
    given = parsed(CreateParameters, await _values(request), MISSING)
    terms = _terms(request, given.dictionaries)
    return _shown(await run(request, lambda: service.glossaries.create(principal, given.name, terms)))


@router.get("")
async def list_glossaries(request: Request) -> dict[str, Any]:
    principal, service = await principal_of(request), service_of(request)
    return {"glossaries": [_shown(found) for found in await run(request, lambda: service.glossaries.all(principal))]}


@router.get("/{id}")
async def show(request: Request, id: str) -> dict[str, Any]:
    return _shown(await _glossary(request, id))


@router.patch("/{id}")
async def edit(request: Request, id: str) -> dict[str, Any]:
    """Change the name, and add entries to dictionaries; those with the same source are replaced."""
    principal, service = await principal_of(request), service_of(request)
    given = parsed(EditParameters, await _values(request), MISSING)
    new = _terms(request, given.dictionaries)

    def work() -> Glossary:
        old = service.glossaries.get(principal, id).terms
        terms = {direction: merged(old.get(direction, ()), added) for direction, added in new.items()}
        return service.glossaries.change(principal, id, given.name, terms or None)

    return _shown(await run(request, work))


@router.delete("/{id}", status_code=204)
async def delete(request: Request, id: str) -> Response:
    principal, service = await principal_of(request), service_of(request)
    await run(request, lambda: service.glossaries.delete(principal, id))
    return Response(status_code=204)


@router.get("/{id}/entries")
async def entries(request: Request, id: str) -> dict[str, Any]:
    principal, service = await principal_of(request), service_of(request)
    source, target = await _direction(request)
    glossary = await run(request, lambda: service.glossaries.get(principal, id))
    terms = glossary.terms.get((source, target))
    if not terms:
        raise NotFound("no dictionary of these languages")
    shown = {"source_lang": source, "target_lang": target, "entries": tsv(terms), "entries_format": "tsv"}
    return {"dictionaries": [shown]}


@router.put("/{id}/dictionaries")
async def replace(request: Request, id: str) -> dict[str, Any]:
    """Replace all entries of a dictionary, or add one."""
    principal, service = await principal_of(request), service_of(request)
    given = parsed(DictionaryParameters, await parameters(request), MISSING)
    terms = _terms(request, [given])
    await run(request, lambda: service.glossaries.change(principal, id, terms=terms))
    [(direction, found)] = terms.items()
    return _dictionary(direction, len(found))


@router.delete("/{id}/dictionaries", status_code=204)
async def delete_dictionary(request: Request, id: str) -> Response:
    principal, service = await principal_of(request), service_of(request)
    direction = await _direction(request)

    def work() -> None:
        if direction not in service.glossaries.get(principal, id).terms:
            raise NotFound("no dictionary of these languages")
        service.glossaries.change(principal, id, terms={direction: ()})

    await run(request, work)
    return Response(status_code=204)


async def _direction(request: Request) -> Direction:
    """The languages of a request; a body is read before work runs that waits for the client to disconnect."""
    given = parsed(DirectionParameters, await parameters(request), MISSING)
    return direction_of(request, given.source_lang, given.target_lang)


async def _glossary(request: Request, id: str) -> Glossary:
    principal, service = await principal_of(request), service_of(request)
    return await run(request, lambda: service.glossaries.get(principal, id))


def _shown(glossary: Glossary) -> dict[str, Any]:
    return {
        "glossary_id": glossary.id,
        "ready": True,
        "name": glossary.name,
        "dictionaries": [_dictionary(direction, len(terms)) for direction, terms in glossary.terms.items()],
        "creation_time": timestamp(glossary.created),
    }


def _dictionary(direction: Direction, count: int) -> dict[str, Any]:
    source, target = direction
    return {"source_lang": source, "target_lang": target, "entry_count": count}
