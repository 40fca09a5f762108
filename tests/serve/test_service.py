"""What all endpoints call."""

from __future__ import annotations

from nearmt.models import TranslationModel
from nearmt.serve.keys import ANONYMOUS
from nearmt.serve.service import MemoryUse, Service, TranslationRequest
from nearmt.translator import Translator


def test_texts_are_translated_as_by_a_translator(service: Service, tiny: TranslationModel) -> None:
    texts = ["die pumpe öffnen .", "der motor nicht ."]
    result = service.translate(ANONYMOUS, TranslationRequest(texts))
    assert [found.text for found in result.translations] == [found.text for found in Translator(tiny).translate(texts)]
    assert (result.source_lang, result.target_lang) == ("de", "en")


def test_a_learnt_pair_is_used_at_once(service: Service) -> None:
    service.create_memory(ANONYMOUS, "mine")
    service.learn(ANONYMOUS, "die pumpe .", "the pump .", memory="mine")
    (found,) = service.translate(
        ANONYMOUS, TranslationRequest(["die pumpe ."], memories=[MemoryUse("mine")])
    ).translations
    assert (found.text, found.origin) == ("the pump .", "memory")
