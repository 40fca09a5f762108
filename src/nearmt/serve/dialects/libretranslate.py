"""LibreTranslate, at the root: https://docs.libretranslate.com. Its `/health` is that of the server.

The API key chooses the memory. `suggest` learns.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from nearmt.serve.api.dependencies import TheService, service_of
from nearmt.serve.dialects.languages import Refusals, all_languages, language_name, targets_by_source
from nearmt.serve.dialects.parameters import Parameters, Texts, parameters, parsed
from nearmt.serve.dialects.translating import Answer, memories_of, principal_of_key, translate
from nearmt.serve.errors import RequestError
from nearmt.serve.keys import Keyring
from nearmt.serve.problems import Problem
from nearmt.serve.running import run
from nearmt.serve.values import TranslationRequest

router = APIRouter()

_MISSING = "Invalid request: missing {} parameter"
_REFUSALS = Refusals("{} is not supported", "{} is not supported", "{} to {} is not supported")
_AUTO = "auto"


def shape(problem: Problem) -> Response:
    """Errors have one field. A key that is not known is forbidden."""
    status = 403 if problem.status == 401 else problem.status
    return JSONResponse({"error": problem.detail}, status, problem.all_headers())


class TranslateParameters(Parameters):
    q: Texts
    source: str
    target: str
    format: str = "text"
    alternatives: str = "0"
    api_key: str | None = None

    @property
    def count(self) -> int:
        if not self.alternatives.isdecimal():
            raise RequestError("Invalid request: alternatives parameter is not a number")
        return int(self.alternatives)


class DetectParameters(Parameters):
    q: str
    api_key: str | None = None


class SuggestParameters(Parameters):
    q: str
    s: str
    source: str
    target: str
    api_key: str | None = None


@router.post("/translate")
async def translate_texts(request: Request) -> dict[str, Any]:
    values = await parameters(request)
    given = parsed(TranslateParameters, values, _MISSING)
    principal = await principal_of_key(request, given.api_key)
    if not given.q:
        raise RequestError(_MISSING.format("q"))
    if given.format not in ("text", "html"):
        raise RequestError(f"{given.format} format is not supported")
    asked = TranslationRequest(
        texts=given.q,
        source_lang=None if given.source == _AUTO else given.source,
        target_lang=given.target,
        memories=memories_of(request),
        alternatives=given.count,
        format="html" if given.format == "html" else "text",
        split_sentences=True,
    )
    answers = await translate(request, principal, asked, _REFUSALS)
    found: dict[str, list[Any]] = {"translatedText": [answer.text for answer in answers]}
    if given.source == _AUTO:
        found["detectedLanguage"] = [_detected(answer) for answer in answers]
    if given.count:
        found["alternatives"] = [list(answer.translated.alternatives) for answer in answers]
    if isinstance(values["q"], list):
        return found
    return {name: items[0] for name, items in found.items()}


def _detected(answer: Answer) -> dict[str, Any]:
    return {"confidence": _percent(answer.confidence), "language": answer.source_lang}


def _percent(confidence: float) -> float:
    return round(100 * confidence, 1)


@router.api_route("/languages", methods=["GET", "POST"])
def languages(service: TheService) -> list[dict[str, Any]]:
    """All languages of either side, and into which each can be translated."""
    directions = service.directions()
    targets = targets_by_source(directions)
    return [
        {"code": code, "name": language_name(code), "targets": targets.get(code, [])}
        for code in all_languages(directions)
    ]


@router.post("/detect")
async def detect(request: Request) -> list[dict[str, Any]]:
    given = parsed(DetectParameters, await parameters(request), _MISSING)
    (await principal_of_key(request, given.api_key)).check("translate")
    found = service_of(request).detect(given.q)
    return [{"confidence": _percent(confidence), "language": language} for language, confidence in found]


@router.post("/suggest")
async def suggest(request: Request) -> dict[str, bool]:
    """Learn a corrected translation `s` of `q`."""
    given = parsed(SuggestParameters, await parameters(request), _MISSING)
    principal = await principal_of_key(request, given.api_key)
    chosen = memories_of(request)
    memory = chosen[0].name if chosen else None
    service = service_of(request)
    await run(request, lambda: service.learn(principal, given.q, given.s, given.source, given.target, memory))
    return {"success": True}


@router.get("/frontend/settings")
def frontend_settings(request: Request, service: TheService) -> dict[str, Any]:
    source, target = service.directions()[0]
    keyring: Keyring = request.app.state.keyring
    needs_key = keyring.required
    return {
        "apiKeys": needs_key,
        "keyRequired": needs_key,
        "charLimit": service.config.max_characters,
        "frontendTimeout": 500,
        "suggestions": True,
        "filesTranslation": False,
        "supportedFilesFormat": [],
        "language": {
            "source": {"code": source, "name": language_name(source)},
            "target": {"code": target, "name": language_name(target)},
        },
    }
