"""OPUS-CAT, under /MTRestService and /MtRestService: its plug-ins for Trados, memoQ, Wordfast and OmegaT.

A model tag names a memory. The token code is a key; plug-ins that know none send `0`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import AliasChoices, Field

from nearmt.languages import same_language
from nearmt.models.alignment import align
from nearmt.serve.api.dependencies import service_of
from nearmt.serve.dialects.languages import Refusals, is_supported
from nearmt.serve.dialects.opuscat.words import aligned_words
from nearmt.serve.dialects.parameters import Parameters, Texts, json_body, parameters, parsed
from nearmt.serve.dialects.translating import memories_of, principal_of_key, translate
from nearmt.serve.errors import RequestError
from nearmt.serve.keys import Principal
from nearmt.serve.problems import Problem
from nearmt.serve.running import run
from nearmt.serve.values import MemoryUse, TranslationRequest

_REFUSALS = Refusals()
#: What plug-ins without a key send.
_NO_KEY = ("", "0")

actions = APIRouter()


def shape(problem: Problem) -> Response:
    return JSONResponse({"Message": problem.detail}, problem.status, problem.all_headers())


class TokenParameters(Parameters):
    tokenCode: str = ""


class PairParameters(TokenParameters):
    srcLangCode: str = ""
    trgLangCode: str = ""
    modelTag: str = ""


class TranslateParameters(PairParameters):
    input: str = ""
    inputIsSingleSentence: bool = True


class BatchParameters(PairParameters):
    input: Texts = ()


class StoreParameters(PairParameters):
    source: str
    target: str


class LoginParameters(Parameters):
    userName: str = Field("", validation_alias=AliasChoices("userName", "username"))
    password: str = ""


async def _principal(request: Request, given: TokenParameters) -> Principal:
    return await principal_of_key(request, None if given.tokenCode in _NO_KEY else given.tokenCode)


def _memories(request: Request, tag: str) -> tuple[MemoryUse, ...] | None:
    return (MemoryUse(tag),) if tag else memories_of(request)


async def _translations(
    request: Request, given: PairParameters, texts: Sequence[str], split_sentences: bool = False
) -> list[str]:
    asked = TranslationRequest(
        texts,
        given.srcLangCode,
        given.trgLangCode,
        _memories(request, given.modelTag),
        split_sentences=split_sentences,
    )
    answers = await translate(request, await _principal(request, given), asked, _REFUSALS)
    return [answer.text for answer in answers]


async def _translation(request: Request) -> str:
    given = parsed(TranslateParameters, await parameters(request))
    return (await _translations(request, given, [given.input], not given.inputIsSingleSentence))[0]


@actions.get("/Login")
async def login(request: Request) -> str:
    """The token code for a password that is a key."""
    given = parsed(LoginParameters, await parameters(request))
    await principal_of_key(request, given.password)
    return given.password


@actions.get("/TranslateJson")
async def translate_json(request: Request) -> dict[str, Any]:
    """A translation and its alignment, by which the plug-ins for Trados and memoQ put tags into it."""
    given = parsed(TranslateParameters, await parameters(request))
    service = service_of(request)
    (text,) = await _translations(request, given, [given.input], not given.inputIsSingleSentence)

    def words() -> dict[str, Any]:
        if not is_supported(service.directions(), given.srcLangCode, given.trgLangCode):
            return {}
        model = service.models.find(given.srcLangCode, given.trgLangCode)
        (links,) = align(model, [given.input], [text])
        return aligned_words(given.input, text, links)

    return {"translation": text, **await run(request, words)}


@actions.post("/TranslatePost")
async def translate_post(request: Request) -> dict[str, str]:
    """For Wordfast."""
    return {"translation": await _translation(request)}


@actions.get("/Translate")
@actions.get("/TranslateParagraphJson")
async def translate_text(request: Request) -> str:
    return await _translation(request)


@actions.get("/TranslateStream", response_class=PlainTextResponse)
async def translate_stream(request: Request) -> PlainTextResponse:
    return PlainTextResponse(await _translation(request))


@actions.post("/BatchTranslate")
async def translate_batch(request: Request) -> list[str]:
    given = parsed(BatchParameters, await _with_list(request))
    return await _translations(request, given, given.input)


@actions.post("/PreOrderBatch")
async def pre_order(request: Request) -> str:
    """Announces sentences that are translated later. Nothing is kept for them: memories change in between."""
    given = parsed(BatchParameters, await _with_list(request))
    (await _principal(request, given)).check("translate")
    if not given.input:
        raise RequestError("no input")
    return "batch translation started"


async def _with_list(request: Request) -> dict[str, Any]:
    """Parameters of the query, and a list of texts as the body or as its field `input`."""
    body = await json_body(request)
    return dict(request.query_params) | (body if isinstance(body, dict) else {"input": body or []})


@actions.get("/ListSupportedLanguagePairs")
async def list_pairs(request: Request) -> list[str]:
    await _principal(request, parsed(TokenParameters, await parameters(request)))
    return [f"{source}-{target}" for source, target in service_of(request).directions()]


@actions.get("/GetLanguagePairModelTags")
async def model_tags(request: Request) -> list[str]:
    given = parsed(PairParameters, await parameters(request))
    principal = await _principal(request, given)
    service = service_of(request)
    return [
        info.name
        for info in await run(request, lambda: service.memory_infos(principal))
        if not info.problem
        and same_language(info.source_lang, given.srcLangCode)
        and same_language(info.target_lang, given.trgLangCode)
    ]


@actions.get("/CheckModelStatus")
async def model_status(request: Request) -> str:
    given = parsed(PairParameters, await parameters(request))
    principal, service = await _principal(request, given), service_of(request)
    pair = f"{given.srcLangCode}-{given.trgLangCode}"
    if not is_supported(service.directions(), given.srcLangCode, given.trgLangCode):
        return f"No model available for {pair}."
    if given.modelTag:
        await run(request, lambda: service.memory_info(principal, given.modelTag))
        return f"A model for {pair} with memory {given.modelTag} is available."
    return f"A model for {pair} is available."


@actions.api_route("/StoreTranslation", methods=["GET", "POST"])
async def store(request: Request) -> None:
    """Learn a translation."""
    given = parsed(StoreParameters, await parameters(request))
    principal, service = await _principal(request, given), service_of(request)
    chosen = _memories(request, given.modelTag)
    memory = chosen[0].name if chosen else None
    languages = given.srcLangCode or None, given.trgLangCode or None
    await run(request, lambda: service.learn(principal, given.source, given.target, *languages, memory))


router = APIRouter()
for _name in ("MTRestService", "MtRestService"):
    router.include_router(actions, prefix=f"/{_name}")
