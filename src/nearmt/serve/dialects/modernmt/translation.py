"""Translation, detection and languages."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BeforeValidator

from nearmt.corpus.glossary import Term
from nearmt.languages import base_language
from nearmt.serve.api.dependencies import TheService, service_of
from nearmt.serve.dialects.languages import Refusals, all_languages, targets_by_source
from nearmt.serve.dialects.modernmt.envelope import enveloped, principal_of
from nearmt.serve.dialects.modernmt.ids import find_glossary, hinted
from nearmt.serve.dialects.parameters import Names, Parameters, Texts, parameters, parsed
from nearmt.serve.dialects.translating import Answer, memories_of, translate
from nearmt.serve.errors import NotFound, RequestError
from nearmt.serve.keys import Principal
from nearmt.serve.running import run
from nearmt.serve.service import Service
from nearmt.serve.values import TextFormat, TranslationRequest

router = APIRouter()

_REFUSALS = Refusals("language '{}' is not supported", "language '{}' is not supported")
_FORMATS: dict[str, TextFormat] = {"text/plain": "text", "text/html": "html", "text/xml": "xml"}
_BULK = "background"


def _joined(value: object) -> object:
    """A context vector as text; some clients send it as an object."""
    if isinstance(value, dict):
        return ",".join(f"{memory}:{score}" for memory, score in value.items())
    return value


class TranslateParameters(Parameters):
    q: Texts
    target: str
    source: str | None = None
    hints: Names = ()
    context_vector: Annotated[str, BeforeValidator(_joined)] = ""
    priority: str = "normal"
    format: str = "text/plain"
    alt_translations: int = 0
    glossaries: Names = ()


class DetectParameters(Parameters):
    q: Texts


@router.get("/translate")
async def translate_texts(request: Request) -> dict[str, Any]:
    principal, service = await principal_of(request), service_of(request)
    values = await parameters(request)
    given = parsed(TranslateParameters, values)
    if given.format not in _FORMATS:
        raise RequestError(f"format '{given.format[:64]}' is not supported")
    hints, vector = given.hints, given.context_vector
    memories = await run(request, lambda: hinted(service, principal, hints, vector)) or memories_of(request)
    asked = TranslationRequest(
        given.q,
        given.source or None,
        given.target,
        memories,
        alternatives=given.alt_translations,
        format=_FORMATS[given.format],
        terms=_terms(service, principal, given),
        bulk=given.priority == _BULK,
        split_sentences=True,
    )
    answers = await translate(request, principal, asked, _REFUSALS)
    found = [_translation(source, answer, given) for source, answer in zip(given.q, answers, strict=True)]
    return enveloped(found if isinstance(values["q"], list) else found[0])


def _translation(source: str, answer: Answer, given: TranslateParameters) -> dict[str, Any]:
    found: dict[str, Any] = {
        "translation": answer.text,
        "characters": len(source),
        "billedCharacters": len(source),
    }
    if given.source is None:
        found["detectedLanguage"] = answer.source_lang
    if given.alt_translations:
        found["altTranslations"] = list(answer.translated.alternatives)
    return found


def _terms(service: Service, principal: Principal, given: TranslateParameters) -> list[Term] | None:
    """The terms of glossaries in the direction of the request; any source language fits if none is given."""
    found: list[Term] = []
    for name in given.glossaries:
        glossary = find_glossary(service, principal, name)
        if glossary is None:
            raise NotFound(f"no glossary '{name[:64]}'")
        for (source, target), terms in glossary.terms.items():
            if base_language(given.target) == target and (not given.source or base_language(given.source) == source):
                found += terms
    return found or None


@router.get("/translate/detect")
async def detect(request: Request) -> dict[str, Any]:
    (await principal_of(request)).check("translate")
    values = await parameters(request)
    given = parsed(DetectParameters, values)
    service = service_of(request)
    found = [{"billedCharacters": len(text), "detectedLanguage": _language(service, text)} for text in given.q]
    return enveloped(found if isinstance(values["q"], list) else found[0])


def _language(service: Service, text: str) -> str:
    found = service.detect(text)
    return found[0][0] if found else service.directions()[0][0]


@router.get("/translate/languages")
async def languages(request: Request, service: TheService) -> dict[str, Any]:
    await principal_of(request)
    return enveloped(all_languages(service.directions()))


@router.get("/languages")
async def language_pairs(request: Request, service: TheService) -> dict[str, Any]:
    """An older form, which says into which languages each can be translated."""
    await principal_of(request)
    return enveloped(targets_by_source(service.directions()))
