"""Languages and usage."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from nearmt.serve.api.dependencies import TheService, service_of
from nearmt.serve.dialects.deepl.answers import principal_of
from nearmt.serve.dialects.languages import language_name
from nearmt.serve.dialects.parameters import Parameters, parameters, parsed
from nearmt.serve.errors import RequestError
from nearmt.serve.models import Direction

router = APIRouter()

#: Languages that are targets by variant only: the official clients refuse them without one.
_VARIANTS = {
    "en": {"en-GB": "English (British)", "en-US": "English (American)"},
    "pt": {"pt-BR": "Portuguese (Brazilian)", "pt-PT": "Portuguese (European)"},
}
_FEATURES = ("auto_detection", "glossary", "tag_handling")
_RESOURCES = {
    "translate_text": _FEATURES,
    "translate_document": _FEATURES[:2],
    "glossary": (),
    "write": (),
    "style_rules": (),
    "voice": (),
}
_TRANSLATING = frozenset({"translate_text", "translate_document", "glossary"})
#: There is none.
_CHARACTER_LIMIT = 1_000_000_000_000


class TypeParameters(Parameters):
    type: str = "source"


class ResourceParameters(Parameters):
    resource: str


@router.get("/v2/languages")
async def languages(request: Request) -> list[dict[str, Any]]:
    await principal_of(request)
    kind = parsed(TypeParameters, await parameters(request)).type
    directions = service_of(request).directions()
    if kind == "source":
        return [{"language": code.upper(), "name": language_name(code)} for code in _sources(directions)]
    if kind == "target":
        return [
            {"language": code.upper(), "name": name, "supports_formality": False}
            for code, name in _targets(directions).items()
        ]
    raise RequestError("Value for 'type' not supported. Allowed: 'source', 'target'.")


@router.get("/v3/languages")
async def languages_of_resource(request: Request) -> list[dict[str, Any]]:
    await principal_of(request)
    resource = parsed(ResourceParameters, await parameters(request)).resource
    if resource not in _RESOURCES:
        raise RequestError(f"Value for 'resource' not supported. Allowed: {', '.join(_RESOURCES)}.")
    if resource not in _TRANSLATING:
        return []
    directions = service_of(request).directions()
    sources, targets = _sources(directions), _targets(directions)
    features = {name: {"status": "stable"} for name in _RESOURCES[resource]}
    return [
        {
            "lang": code,
            "name": targets.get(code) or language_name(code),
            "usable_as_source": code in sources,
            "usable_as_target": code in targets,
            "status": "stable",
            "features": features,
        }
        for code in dict.fromkeys([*sources, *targets])
    ]


@router.get("/v3/languages/resources")
async def resources(request: Request) -> list[dict[str, Any]]:
    await principal_of(request)
    return [
        {"name": name, "features": [_needs(feature) for feature in features]}
        for name, features in _RESOURCES.items()
        if name in _TRANSLATING
    ]


def _needs(feature: str) -> dict[str, Any]:
    both = feature != "auto_detection"
    return {"name": feature, "needs_source_support": True, "needs_target_support": both}


def _sources(directions: list[Direction]) -> list[str]:
    return list(dict.fromkeys(source for source, _ in directions))


def _targets(directions: list[Direction]) -> dict[str, str]:
    """Codes and names of targets."""
    found: dict[str, str] = {}
    for _, target in directions:
        found |= _VARIANTS.get(target, {target: language_name(target)})
    return found


@router.get("/v2/glossary-language-pairs")
async def glossary_pairs(request: Request, service: TheService) -> dict[str, Any]:
    await principal_of(request)
    return {
        "supported_languages": [
            {"source_lang": source, "target_lang": target} for source, target in service.directions()
        ]
    }


@router.get("/v2/usage")
async def usage(request: Request) -> dict[str, int]:
    """Characters are not counted: they cost nothing."""
    await principal_of(request)
    return {"character_count": 0, "character_limit": _CHARACTER_LIMIT}
