"""tmserver of the Translate Toolkit (amaGama), under /tmserver: matches of memories with their similarity."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from nearmt.languages import base_language
from nearmt.serve.api.dependencies import TheService, service_of
from nearmt.serve.dialects.languages import is_probe, is_supported
from nearmt.serve.dialects.parameters import Parameters, parameters, parsed
from nearmt.serve.dialects.translating import memories_of, principal_of_key
from nearmt.serve.errors import NotFound
from nearmt.serve.problems import Problem
from nearmt.serve.running import run
from nearmt.serve.values import MemoryMatch

router = APIRouter(prefix="/tmserver")


def shape(problem: Problem) -> Response:
    return JSONResponse({"error": problem.detail}, problem.status, problem.all_headers())


class UnitParameters(Parameters):
    min_similarity: float = Field(70, ge=0, le=100)
    max_candidates: int = Field(5, ge=1, le=100)


@router.get("/languages/")
async def languages(request: Request, service: TheService) -> dict[str, list[str]]:
    await principal_of_key(request, None)
    directions = service.directions()
    return {
        "sourceLanguages": sorted({source for source, _ in directions}),
        "targetLanguages": sorted({target for _, target in directions}),
    }


@router.get("/{source}/{target}/unit/{text:path}")
async def unit(request: Request, source: str, target: str, text: str) -> list[dict[str, Any]]:
    """Pairs with an equal or similar source, best first."""
    given = parsed(UnitParameters, await parameters(request))
    principal = await principal_of_key(request, None)
    service = service_of(request)
    if not is_supported(service.directions(), source, target):
        if is_probe(source, target, [text]):
            return []
        raise NotFound(f"no memory from '{base_language(source)}' to '{base_language(target)}'")
    chosen = memories_of(request)
    names = None if chosen is None else [use.name for use in chosen]
    found = await run(
        request,
        lambda: service.matches(
            principal, text, given.max_candidates, given.min_similarity / 100, names, source, target
        ),
    )
    return [_candidate(match) for match in found]


def _candidate(match: MemoryMatch) -> dict[str, Any]:
    return {
        "source": match.source,
        "target": match.target,
        "quality": 100 * match.score,
        # Of amaGama, equal for all.
        "rank": 100.0,
    }
