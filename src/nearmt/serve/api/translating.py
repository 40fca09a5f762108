"""Translation of texts, and what the server can translate."""

from __future__ import annotations

from fastapi import APIRouter, Request

from nearmt.languages import ENGLISH_NAME, base_language
from nearmt.serve.api.dependencies import ThePrincipal, TheService
from nearmt.serve.api.problem_answers import example, problems
from nearmt.serve.api.schemas import (
    DetectBody,
    LanguageAnswer,
    LanguagesAnswer,
    LikelyLanguage,
    LikelyLanguages,
    MeAnswer,
    ModelAnswer,
    ModelsAnswer,
    SentencesAnswer,
    SentencesBody,
    SpanAnswer,
    TranslateBody,
)
from nearmt.serve.keys import Principal
from nearmt.serve.running import run
from nearmt.serve.service import Service
from nearmt.serve.values import Statistics, TranslationRequest, TranslationResult

router = APIRouter(tags=["translation"])

_TRANSLATED = {
    "translations": [
        {
            "source": "Die Pumpe ist undicht.",
            "text": "The pump leaks.",
            "score": -0.31,
            "origin": "machine",
            "truncated": False,
            "searches": 3,
            "steps": 9,
            "warnings": [],
            "alternatives": [],
            "matches": [],
            "words": [],
        }
    ],
    "model": "de-en",
    "source_lang": "de",
    "target_lang": "en",
    "signature": "nearmt:0.6|model:de-en@1c7f|chunk|beams:5",
    "timing": {"seconds": 0.12, "model": 0.1, "search": 0.01, "cache": 0.0},
}


@router.post("/translate", responses={**problems(404, 409, 504), **example(_TRANSLATED)})
async def translate(
    request: Request, body: TranslateBody, service: TheService, principal: ThePrincipal
) -> TranslationResult:
    """Translate texts with the model and memories."""
    asked = request_of(service, principal, body)
    ticket = service.ticket(principal, asked)
    return await run(request, lambda: service.translate(principal, asked, ticket), ticket)


def request_of(service: Service, principal: Principal, body: TranslateBody) -> TranslationRequest:
    """The request of a body, with the terms of its glossary."""
    if body.glossary is None:
        return body.request(None)
    source_lang, target_lang = service.direction(principal, body.request(None))
    return body.request(service.glossaries.terms(principal, body.glossary, source_lang, target_lang))


@router.post("/sentences", responses=problems())
async def sentences(
    request: Request, body: SentencesBody, service: TheService, principal: ThePrincipal
) -> SentencesAnswer:
    """Split a text into sentences."""
    found = await run(request, lambda: service.sentences(principal, body.text, body.language))
    return SentencesAnswer(sentences=[SpanAnswer(start=start, end=end) for start, end in found])


@router.post("/detect", responses=problems())
async def detect(request: Request, body: DetectBody, service: TheService, principal: ThePrincipal) -> LikelyLanguages:
    """Which of the languages of the loaded models a text is in, the likeliest first."""
    principal.check("translate")
    found = await run(request, lambda: service.detect(body.text))
    return LikelyLanguages(languages=[LikelyLanguage(language=code, confidence=share) for code, share in found])


@router.get("/languages", responses=problems())
async def languages(service: TheService, principal: ThePrincipal) -> LanguagesAnswer:
    """Languages that can be translated from, and into what."""
    targets: dict[str, list[str]] = {}
    for source, target in service.directions():
        targets.setdefault(source, []).append(target)
    found = [
        LanguageAnswer(code=code, name=ENGLISH_NAME.get(base_language(code), code), targets=into)
        for code, into in targets.items()
    ]
    return LanguagesAnswer(languages=found)


@router.get("/models", responses=problems())
async def models(service: TheService, principal: ThePrincipal) -> ModelsAnswer:
    """The loaded models."""
    found = [
        ModelAnswer(
            name=model.name,
            source_lang=model.language_pair[0],
            target_lang=model.language_pair[1],
            fingerprint=model.fingerprint,
            precision=model.seq2seq.precision,
            device=str(model.seq2seq.device),
        )
        for model in service.models
    ]
    return ModelsAnswer(models=found)


@router.get("/statistics", responses=problems())
async def statistics(service: TheService, principal: ThePrincipal) -> Statistics:
    """What the server has done since it was started, for keys that may do everything."""
    return service.statistics(principal)


@router.get("/me", responses=problems())
async def me(principal: ThePrincipal) -> MeAnswer:
    """Who asks, and what they may do."""
    return MeAnswer.of(principal)
