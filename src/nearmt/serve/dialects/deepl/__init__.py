"""DeepL, versions 2 and 3, under /deepl: https://developers.deepl.com.

`translation_memory_id` chooses the memory, `glossary_id` a glossary.
"""

from __future__ import annotations

from fastapi import APIRouter

from nearmt.serve.dialects.deepl import documents, files, glossaries, languages, memories, multilingual, translation
from nearmt.serve.dialects.deepl.answers import shape

__all__ = ["router", "shape"]

router = APIRouter(prefix="/deepl")
for _part in (documents, files, glossaries, languages, memories, multilingual, translation):
    router.include_router(_part.router)
