"""Translation of the texts of a request."""

from __future__ import annotations

import base64
import binascii
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fastapi import Request

from nearmt.errors import ConfigError
from nearmt.languages import base_language
from nearmt.scheduler import Ticket
from nearmt.serve.access import admitted, bearer
from nearmt.serve.api.dependencies import service_of
from nearmt.serve.dialects.languages import Refusals, check_direction, is_probe, is_supported
from nearmt.serve.errors import RequestError
from nearmt.serve.keys import Principal
from nearmt.serve.running import run
from nearmt.serve.service import Service
from nearmt.serve.values import MemoryUse, Translated, TranslationRequest

#: Names memories, with weights other than 1 as `name=0.5`, separated by commas; `none` is the model alone.
MEMORY_HEADER = "x-nearmt-memory"
_MODEL_ALONE = "none"


@dataclass(frozen=True)
class Answer:
    """The translation of a text, and the language that the text is in."""

    translated: Translated
    source_lang: str
    #: Of the language, if it was detected.
    confidence: float = 1.0

    @property
    def text(self) -> str:
        return self.translated.text


async def principal_of_key(request: Request, key: str | None) -> Principal:
    """The principal of a key that came in the dialect's own way, else of one in `Authorization`.

    There it is a bearer token, or the password of an address `http://key:KEY@host`: some clients know nothing else.
    """
    return await admitted(request, key or bearer(request) or _password(request))


def _password(request: Request) -> str | None:
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        return base64.b64decode(given).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return None


def memories_of(request: Request) -> tuple[MemoryUse, ...] | None:
    """The memories that a header names; None without the header."""
    given = request.headers.get(MEMORY_HEADER)
    if given is None:
        return None
    if given.strip().lower() == _MODEL_ALONE:
        return ()
    return tuple(_use(name) for name in given.split(",") if name.strip())


def _use(text: str) -> MemoryUse:
    name, _, weight = text.strip().partition("=")
    try:
        return MemoryUse(name.strip(), float(weight or 1.0))
    except ValueError as error:
        raise RequestError(f"weight of memory '{name}': not a number") from error


async def translate(
    request: Request, principal: Principal, asked: TranslationRequest, refusals: Refusals
) -> list[Answer]:
    """Translate the texts of a request into `target_lang`; a source language that is left open is detected."""
    service = service_of(request)
    ticket = service.ticket(principal, asked)
    return await run(request, lambda: _answers(service, principal, asked, ticket, refusals), ticket)


def _answers(
    service: Service, principal: Principal, asked: TranslationRequest, ticket: Ticket, refusals: Refusals
) -> list[Answer]:
    principal.check("translate")
    source, target, directions = asked.source_lang, asked.target_lang, service.directions()
    if target is None:
        raise ConfigError("no target language")
    if not is_supported(directions, source, target) and is_probe(source, target, asked.texts):
        return [Answer(Translated(text, text, 0.0, "copied"), str(source)) for text in asked.texts]
    check_direction(directions, source, target, refusals)
    languages = (
        [(source, 1.0)] * len(asked.texts) if source else [_detected(service, text, target) for text in asked.texts]
    )
    by_source: dict[str, list[int]] = defaultdict(list)
    for number, (language, _) in enumerate(languages):
        by_source[language].append(number)
    answers: dict[int, Answer] = {}
    for language, numbers in by_source.items():
        part = replace(asked, texts=[asked.texts[number] for number in numbers], source_lang=language)
        found = service.translate(principal, part, ticket).translations
        for number, translated in zip(numbers, found, strict=True):
            answers[number] = Answer(translated, language, languages[number][1])
    return [answers[number] for number in range(len(asked.texts))]


def _detected(service: Service, text: str, target: str) -> tuple[str, float]:
    """The most likely language among those that can be translated, and its confidence."""
    likely: Sequence[tuple[str, float]] = service.detect(text)
    sources = [source for source, other in service.directions() if other == base_language(target)]
    return next(((language, confidence) for language, confidence in likely if language in sources), (sources[0], 0.0))
