"""Apertium APy, under /apertium: https://wiki.apertium.org/wiki/Apertium-apy. OmegaT and Weblate speak it."""

from __future__ import annotations

import http
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from nearmt.serve.api.dependencies import service_of
from nearmt.serve.dialects.languages import Refusals, language_name
from nearmt.serve.dialects.parameters import Given, Parameters, parameters, parsed
from nearmt.serve.dialects.translating import memories_of, principal_of_key, translate
from nearmt.serve.errors import RequestError
from nearmt.serve.keys import Principal
from nearmt.serve.problems import Problem
from nearmt.serve.values import TranslationRequest

router = APIRouter(prefix="/apertium")

_MISSING = "Missing argument {}"
_NOT_INSTALLED = "That pair is not installed"
_REFUSALS = Refusals(_NOT_INSTALLED, _NOT_INSTALLED, _NOT_INSTALLED)
_BOTH = ["GET", "POST"]


def shape(problem: Problem) -> Response:
    phrase = http.HTTPStatus(problem.status).phrase if problem.status in set(http.HTTPStatus) else problem.title
    # OmegaT shows `responseDetails`, all others read the four fields of Apertium.
    content = {
        "status": "error",
        "code": problem.status,
        "message": phrase,
        "explanation": problem.detail,
        "responseStatus": problem.status,
        "responseDetails": problem.detail,
    }
    return JSONResponse(content, problem.status, problem.all_headers())


class KeyParameters(Parameters):
    key: str | None = None


class TranslateParameters(KeyParameters):
    q: str
    langpair: str
    format: str = "txt"


class IdentifyParameters(KeyParameters):
    q: str


class ListParameters(KeyParameters):
    q: str = "pairs"


class NamesParameters(KeyParameters):
    languages: str = ""


@router.api_route("/translate", methods=_BOTH)
async def translate_text(request: Request) -> dict[str, Any]:
    given = await _given(request, TranslateParameters)
    principal = await _principal(request, given)
    source, separator, target = given.langpair.partition("|")
    if not separator or not source or not target:
        raise RequestError("That pair is invalid, use e.g. deu|eng")
    asked = TranslationRequest(
        [given.q],
        source,
        target,
        memories_of(request),
        format="html" if given.format == "html" else "text",
        split_sentences=True,
    )
    [answer] = await translate(request, principal, asked, _REFUSALS)
    return _response({"translatedText": answer.text})


@router.api_route("/listPairs", methods=_BOTH)
async def list_pairs(request: Request) -> dict[str, Any]:
    await _principal(request, await _given(request, KeyParameters))
    return _pairs(request)


@router.api_route("/list", methods=_BOTH)
async def list_modes(request: Request) -> dict[str, Any]:
    """Pairs only: there are no analysers, generators and taggers."""
    given = await _given(request, ListParameters)
    await _principal(request, given)
    return _pairs(request) if given.q == "pairs" else {}


@router.api_route("/identifyLang", methods=_BOTH)
async def identify(request: Request) -> dict[str, float]:
    given = await _given(request, IdentifyParameters)
    (await _principal(request, given)).check("translate")
    return dict(service_of(request).detect(given.q))


@router.api_route("/listLanguageNames", methods=_BOTH)
async def list_names(request: Request) -> dict[str, str]:
    """English names, whatever the locale."""
    given = await _given(request, NamesParameters)
    await _principal(request, given)
    directions = service_of(request).directions()
    codes = given.languages.split() or sorted({code for direction in directions for code in direction})
    return {code: language_name(code) for code in codes}


async def _given(request: Request, kind: type[Given]) -> Given:
    return parsed(kind, await parameters(request), _MISSING)


async def _principal(request: Request, given: KeyParameters) -> Principal:
    return await principal_of_key(request, given.key)


def _pairs(request: Request) -> dict[str, Any]:
    directions = service_of(request).directions()
    return _response([{"sourceLanguage": source, "targetLanguage": target} for source, target in directions])


def _response(data: object) -> dict[str, Any]:
    return {"responseData": data, "responseDetails": None, "responseStatus": 200}
