"""Pairs of a memory."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from nearmt.serve.api.dependencies import ThePrincipal, TheService
from nearmt.serve.api.memory_schemas import PairAnswer, PairPageAnswer, PairsAnswer, PairsBody, TargetBody
from nearmt.serve.api.problem_answers import problems
from nearmt.serve.keys import Principal
from nearmt.serve.learning import MOST_PAIRS
from nearmt.serve.running import run
from nearmt.serve.service import Service

router = APIRouter(prefix="/memories/{name}/pairs", tags=["pairs"])

InQuery = Annotated[str, Query(alias="id", min_length=1, max_length=1000)]
InPath = Annotated[str, Path(min_length=1, max_length=1000)]


@router.get("", responses=problems(404, 409))
async def pairs(
    request: Request,
    name: str,
    service: TheService,
    principal: ThePrincipal,
    query: Annotated[str, Query(max_length=1000)] = "",
    offset: Annotated[int, Query(ge=0, le=1_000_000_000)] = 0,
    limit: Annotated[int, Query(ge=0, le=MOST_PAIRS)] = 50,
) -> PairPageAnswer:
    """Pairs whose source or target has a text, in any letter case; all without one."""
    found = await run(request, lambda: service.pairs(principal, name, query, offset, limit))
    return PairPageAnswer(pairs=list(map(PairAnswer.of, found.pairs)), total=found.total, complete=found.complete)


@router.post("", status_code=201, responses=problems(404, 409, 507))
async def add(
    request: Request, name: str, body: PairsBody, service: TheService, principal: ThePrincipal
) -> PairsAnswer:
    """Add pairs, or replace those with the same ids. They are on disk and used when the answer comes."""
    given = [pair.pair() for pair in body.pairs]
    found = await run(request, lambda: service.add_pairs(principal, name, given))
    return PairsAnswer(pairs=list(map(PairAnswer.of, found)))


@router.put("", responses=problems(404, 409, 507))
async def update(
    request: Request, name: str, body: TargetBody, service: TheService, principal: ThePrincipal, identity: InQuery
) -> PairAnswer:
    """Give a pair a new target; its id is in the query, so that it may have any characters."""
    return await _updated(request, name, identity, body, service, principal)


@router.put("/{id:path}", responses=problems(404, 409, 507))
async def update_by_path(
    request: Request, name: str, id: InPath, body: TargetBody, service: TheService, principal: ThePrincipal
) -> PairAnswer:
    """Give a pair a new target."""
    return await _updated(request, name, id, body, service, principal)


@router.delete("", status_code=204, response_class=Response, responses=problems(404, 409, 507))
async def delete(
    request: Request, name: str, service: TheService, principal: ThePrincipal, identity: InQuery
) -> Response:
    """Delete a pair, whose id is in the query; compacting the memory removes its text from disk."""
    await run(request, lambda: service.delete_pair(principal, name, identity))
    return Response(status_code=204)


@router.delete("/{id:path}", status_code=204, response_class=Response, responses=problems(404, 409, 507))
async def delete_by_path(
    request: Request, name: str, id: InPath, service: TheService, principal: ThePrincipal
) -> Response:
    """Delete a pair; compacting the memory removes its text from disk."""
    await run(request, lambda: service.delete_pair(principal, name, id))
    return Response(status_code=204)


async def _updated(
    request: Request, name: str, identity: str, body: TargetBody, service: Service, principal: Principal
) -> PairAnswer:
    return PairAnswer.of(await run(request, lambda: service.update_pair(principal, name, identity, body.target)))
