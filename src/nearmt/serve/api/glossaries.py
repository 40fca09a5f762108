"""Stored glossaries."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from nearmt.serve.api.dependencies import ThePrincipal, TheService
from nearmt.serve.api.glossary_schemas import GlossariesAnswer, GlossaryAnswer, GlossaryBody
from nearmt.serve.api.problem_answers import problems
from nearmt.serve.running import run

router = APIRouter(prefix="/glossaries", tags=["glossaries"])


@router.get("", responses=problems())
async def glossaries(service: TheService, principal: ThePrincipal) -> GlossariesAnswer:
    """The glossaries of the key, the oldest first."""
    return GlossariesAnswer.model_construct(
        glossaries=[GlossaryAnswer.of(found) for found in service.glossaries.all(principal)]
    )


@router.post("", status_code=201, responses=problems(507))
async def create(request: Request, body: GlossaryBody, service: TheService, principal: ThePrincipal) -> GlossaryAnswer:
    """Store a glossary; `translate` takes its id."""
    principal.check("learn")
    found = await run(request, lambda: service.glossaries.create(principal, body.name, body.by_direction()))
    return GlossaryAnswer.of(found)


@router.get("/{id}", responses=problems(404))
async def glossary(id: str, service: TheService, principal: ThePrincipal) -> GlossaryAnswer:
    """The terms of a glossary."""
    return GlossaryAnswer.of(service.glossaries.get(principal, id))


@router.put("/{id}", responses=problems(404, 507))
async def replace(
    request: Request, id: str, body: GlossaryBody, service: TheService, principal: ThePrincipal
) -> GlossaryAnswer:
    """Give a glossary another name and other terms."""
    principal.check("learn")

    def change() -> GlossaryAnswer:
        left_out = dict.fromkeys(service.glossaries.get(principal, id).terms, ())
        terms = {**left_out, **body.by_direction()}
        return GlossaryAnswer.of(service.glossaries.change(principal, id, body.name, terms))

    return await run(request, change)


@router.delete("/{id}", status_code=204, response_class=Response, responses=problems(404))
async def delete(request: Request, id: str, service: TheService, principal: ThePrincipal) -> Response:
    """Delete a glossary."""
    principal.check("learn")
    await run(request, lambda: service.glossaries.delete(principal, id))
    return Response(status_code=204)
