"""Translation of texts."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import Field

from nearmt.corpus.glossary import Term
from nearmt.languages import base_language
from nearmt.serve.api.dependencies import service_of
from nearmt.serve.dialects.deepl.answers import principal_of
from nearmt.serve.dialects.languages import Refusals
from nearmt.serve.dialects.parameters import Names, Parameters, Texts, parameters, parsed
from nearmt.serve.dialects.translating import Answer, memories_of, translate
from nearmt.serve.errors import RequestError
from nearmt.serve.keys import Principal
from nearmt.serve.service import Service
from nearmt.serve.values import MemoryUse, TranslationRequest

router = APIRouter()

MISSING = "Parameter '{}' not specified."
_UNSUPPORTED = "Value for '{}_lang' not supported."
REFUSALS = Refusals(
    _UNSUPPORTED.format("source"), _UNSUPPORTED.format("target"), "Translation from '{}' to '{}' is not supported."
)
#: Weblate sends it for languages without formality, too.
_ANY_FORMALITY = ("default", "prefer_more", "prefer_less", "")


class CommonParameters(Parameters):
    """Parameters of texts and documents."""

    target_lang: str
    source_lang: str | None = None
    formality: str = "default"
    glossary_id: str | None = None
    glossary_ids: Names = ()
    translation_memory_id: str | None = None
    translation_memory_threshold: int | None = Field(None, ge=0, le=100)
    style_id: str | None = None

    def check(self) -> None:
        """Refuse what would change the translation but is not supported."""
        if self.formality not in _ANY_FORMALITY:
            raise RequestError("'formality' is not supported for given 'target_lang'.")
        if self.style_id:
            raise RequestError("Style rules are not supported.")
        if (self.glossary_id or self.glossary_ids) and not self.source_lang:
            raise RequestError("A glossary needs 'source_lang'.")

    def memories(self, request: Request) -> tuple[MemoryUse, ...] | None:
        name = self.translation_memory_id
        return (MemoryUse(name),) if name else memories_of(request)

    @property
    def settings(self) -> dict[str, object]:
        """From the threshold on, stored translations of similar sources are repaired and used."""
        threshold = self.translation_memory_threshold
        return {} if threshold is None else {"fuzzy": threshold / 100}

    def terms(self, service: Service, principal: Principal) -> list[Term] | None:
        """The terms of the glossaries, in their order."""
        wanted = base_language(self.source_lang or ""), base_language(self.target_lang)
        found: list[Term] = []
        for name in (self.glossary_id,) if self.glossary_id else self.glossary_ids:
            terms = service.glossaries.get(principal, name).terms.get(wanted)
            if not terms:
                raise RequestError("The glossary has no dictionary for the given 'source_lang' and 'target_lang'.")
            found += terms
        return found or None


class TranslateParameters(CommonParameters):
    text: Texts
    split_sentences: Literal["0", "1", "nonewlines"] = "1"
    tag_handling: Literal["xml", "html", ""] = ""
    ignore_tags: Names = ()
    splitting_tags: Names = ()
    show_billed_characters: bool = False
    model_type: str | None = None
    custom_instructions: Texts = ()


@router.post("/v2/translate")
async def translate_texts(request: Request) -> dict[str, Any]:
    principal, service = await principal_of(request), service_of(request)
    given = parsed(TranslateParameters, await parameters(request), MISSING)
    given.check()
    if given.custom_instructions:
        raise RequestError("Custom instructions are not supported.")
    asked = TranslationRequest(
        given.text,
        given.source_lang or None,
        given.target_lang,
        given.memories(request),
        settings=given.settings,
        format=given.tag_handling or "text",
        terms=given.terms(service, principal),
        split_sentences=given.split_sentences != "0",
        ignore_tags=given.ignore_tags,
        splitting_tags=given.splitting_tags,
    )
    answers = await translate(request, principal, asked, REFUSALS)
    translations = [_shown(source, answer, given) for source, answer in zip(given.text, answers, strict=True)]
    return {"translations": translations}


def _shown(source: str, answer: Answer, given: TranslateParameters) -> dict[str, Any]:
    found: dict[str, Any] = {"detected_source_language": base_language(answer.source_lang).upper(), "text": answer.text}
    if given.show_billed_characters:
        found["billed_characters"] = len(source)
    if given.model_type:
        found["model_type_used"] = given.model_type.removeprefix("prefer_")
    return found
