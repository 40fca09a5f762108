"""Content of memories and terms of glossaries, with jobs that say how far an import is."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

from fastapi import APIRouter, Request
from starlette.datastructures import UploadFile

from nearmt.corpus.glossary import Term
from nearmt.languages import base_language
from nearmt.serve.api.dependencies import service_of
from nearmt.serve.dialects.modernmt.envelope import enveloped, principal_of
from nearmt.serve.dialects.modernmt.ids import find_glossary, find_memory, number_of
from nearmt.serve.dialects.parameters import Parameters, parameters, parsed
from nearmt.serve.dialects.terms import csv_rows, merged
from nearmt.serve.errors import RequestError, TooLarge
from nearmt.serve.jobs import Job
from nearmt.serve.keys import Principal
from nearmt.serve.models import Direction
from nearmt.serve.running import run
from nearmt.serve.service import Service

router = APIRouter()

#: Ids of imports that were over when they were answered; the number of the memory follows.
_DONE = "done-"
_LARGEST_TABLE = 10 << 20


class ContentParameters(Parameters):
    source: str
    target: str
    sentence: str
    translation: str
    tuid: str = ""


class GlossaryTerm(Parameters):
    term: str
    language: str


class GlossaryParameters(Parameters):
    terms: list[GlossaryTerm]
    type: str = "unidirectional"


class TableParameters(Parameters):
    type: str = "unidirectional"


def _finished(memory: int, size: int = 1) -> dict[str, Any]:
    return enveloped({"id": f"{_DONE}{memory}", "memory": memory, "size": size, "progress": 1.0})


def _shown(job: Job) -> dict[str, Any]:
    progress = 1.0 if job.state == "done" else job.done / job.total if job.total else 0.0
    return enveloped({"id": job.id, "memory": number_of(job.memory or ""), "size": job.total, "progress": progress})


@router.get("/import-jobs/{id}")
async def job(request: Request, id: str) -> dict[str, Any]:
    principal, service = await principal_of(request), service_of(request)
    if id.startswith(_DONE) and id.removeprefix(_DONE).isdecimal():
        return _finished(int(id.removeprefix(_DONE)))
    found = service.jobs.get(principal, id)
    if found.state in ("failed", "cancelled"):
        raise RequestError(f"the import has {found.state}: {found.message}")
    return _shown(found)


@router.post("/memories/{id}/content")
async def add(request: Request, id: str) -> dict[str, Any]:
    """Learn a translation, or the pairs of a TMX file in the background."""
    principal = await principal_of(request)
    values = await parameters(request)
    if isinstance(values.get("tmx"), UploadFile):
        return await _import(request, principal, id, values["tmx"], str(values.get("compression", "")))
    return await _learn(request, principal, id, parsed(ContentParameters, values))


@router.put("/memories/{id}/content")
async def replace(request: Request, id: str) -> dict[str, Any]:
    """Learn a translation in place of the one with the same id."""
    principal = await principal_of(request)
    given = parsed(ContentParameters, await parameters(request))
    if not given.tuid:
        raise RequestError("parameter 'tuid' is missing")
    return await _learn(request, principal, id, given)


async def _learn(request: Request, principal: Principal, id: str, given: ContentParameters) -> dict[str, Any]:
    service = service_of(request)
    texts, languages = (given.sentence, given.translation), (given.source, given.target)

    def work() -> dict[str, Any]:
        name = find_memory(service, principal, id)
        service.learn(principal, *texts, *languages, memory=name, id=given.tuid)
        return _finished(number_of(name))

    return await run(request, work)


async def _import(
    request: Request, principal: Principal, id: str, file: UploadFile, compression: str
) -> dict[str, Any]:
    service = service_of(request)
    if compression not in ("", "gzip"):
        raise RequestError(f"compression '{compression[:64]}' is not supported")
    filename = "upload.tmx.gz" if compression else "upload.tmx"

    def work() -> Job:
        return service.import_file(principal, find_memory(service, principal, id), filename, file.file)

    return _shown(await run(request, work))


@router.api_route("/memories/{id}/glossary", methods=["POST", "PUT"])
async def add_terms(request: Request, id: str) -> dict[str, Any]:
    """Add terms, from a list or a table; those with the same source are replaced."""
    principal, service = await principal_of(request), service_of(request)
    values = await parameters(request)
    if isinstance(values.get("csv"), UploadFile):
        text = await _table(values["csv"], str(values.get("compression", "")))
        terms = _of_table(text, parsed(TableParameters, values).type)
    else:
        given = parsed(GlossaryParameters, values)
        terms = _directed([[(term.language, term.term) for term in given.terms]], given.type)
    number = await run(request, lambda: _add(service, principal, id, terms))
    return _finished(number, sum(map(len, terms.values())))


async def _table(file: UploadFile, compression: str) -> str:
    raw = await file.read(_LARGEST_TABLE + 1)
    try:
        if compression == "gzip":
            raw = zlib.decompressobj(wbits=31).decompress(raw, _LARGEST_TABLE + 1)
        if len(raw) > _LARGEST_TABLE:
            raise TooLarge(f"a table of terms of more than {_LARGEST_TABLE >> 20} MiB")
        return raw.decode("utf-8-sig")
    except (UnicodeDecodeError, zlib.error) as error:
        raise RequestError("the table of terms is not UTF-8 text") from error


def _of_table(text: str, kind: str) -> Mapping[Direction, list[Term]]:
    """The terms of a table whose first row names the languages."""
    rows = csv_rows(text)
    _, header = next(rows, (0, []))
    return _directed(([*zip(header, row, strict=False)] for _, row in rows), kind)


def _directed(concepts: Any, kind: str) -> Mapping[Direction, list[Term]]:
    """Terms by direction: from the first language into all others, or from each into each if they are equivalent."""
    if kind not in ("unidirectional", "equivalent"):
        raise RequestError(f"glossary type '{kind[:64]}' is not supported")
    found: dict[Direction, list[Term]] = {}
    for number, concept in enumerate(concepts, 1):
        named = [(base_language(language), term) for language, term in concept if language != "tuid" and term]
        pairs = permutations(named, 2) if kind == "equivalent" else [(named[0], other) for other in named[1:]]
        for (source, term), (target, translation) in pairs:
            found[source, target] = merged(found.get((source, target), ()), [Term(term, translation, line=number)])
    return found


def _add(service: Service, principal: Principal, id: str, terms: Mapping[Direction, Sequence[Term]]) -> int:
    """Add terms to the glossary with a number or a name, which a memory may share; returns the number."""
    principal.check("learn")
    glossary = find_glossary(service, principal, id)
    if glossary is None:
        glossary = service.glossaries.create(principal, find_memory(service, principal, id), terms)
    else:
        changed = {direction: merged(glossary.terms.get(direction, ()), new) for direction, new in terms.items()}
        service.glossaries.change(principal, glossary.id, terms=changed)
    return number_of(glossary.name)
