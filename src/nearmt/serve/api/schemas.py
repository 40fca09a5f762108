"""Bodies of requests and answers about translation. Values of the service that need no other shape are answers too."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from nearmt.corpus.glossary import Term
from nearmt.serve.keys import Principal
from nearmt.serve.systems import MOST_BEAMS
from nearmt.serve.translation import MOST_MATCHES
from nearmt.serve.values import MemoryUse, TextFormat, TranslationRequest

Language = Annotated[str, Field(max_length=40, examples=["de"])]
#: JSON knows one kind of number: 1.0 is a whole one. Stands behind the bounds, so that the schema has them.
WHOLE = BeforeValidator(lambda value: int(value) if isinstance(value, float) and value.is_integer() else value)


class Body(BaseModel):
    """What a client sends: nothing is guessed, and nothing that is not known is left out."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Answer(BaseModel):
    """What a client gets."""

    model_config = ConfigDict(from_attributes=True)


class MemoryUseBody(Body):
    """A memory and the weight of its neighbours."""

    name: Annotated[str, Field(max_length=64, examples=["manuals"])]
    weight: Annotated[float, Field(ge=0, le=1e6)] = 1.0

    def use(self) -> MemoryUse:
        return MemoryUse(self.name, self.weight)


class TranslateBody(Body):
    """Texts to translate, and how."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"texts": ["Die Pumpe ist undicht."], "source_lang": "de", "target_lang": "en"},
                {"texts": ["Die Pumpe ist undicht."], "memories": [{"name": "manuals"}], "matches": 3},
            ]
        }
    )

    texts: list[str]
    source_lang: Language | None = None
    target_lang: Language | None = None
    memories: Annotated[
        list[MemoryUseBody] | None,
        Field(max_length=16, description="Left out: the default memory of the key; empty: the model alone."),
    ] = None
    filter: Annotated[
        str | list[str] | None,
        Field(description="KEY=VALUE: only pairs with this metadata; of several all must hold."),
    ] = None
    method: Literal["plain", "knn", "chunk"] | None = None
    settings: Annotated[
        dict[str, bool | int | float | str | None],
        Field(description="Settings of the method and of the beam search, as `nearmt settings` lists them."),
    ] = {}
    beams: Annotated[int, Field(ge=1, le=MOST_BEAMS), WHOLE] | None = None
    alternatives: Annotated[int, Field(ge=0, lt=MOST_BEAMS), WHOLE] = 0
    explain: bool = False
    matches: Annotated[int, Field(ge=0, le=MOST_MATCHES), WHOLE] = 0
    format: TextFormat = "text"
    exact: bool = True
    split_sentences: bool = False
    glossary: Annotated[str | None, Field(max_length=64, description="The id of a stored glossary.")] = None
    deadline: Annotated[float | None, Field(gt=0, le=3600, description="Seconds.")] = None

    def request(self, terms: tuple[Term, ...] | None) -> TranslationRequest:
        memories = None if self.memories is None else tuple(memory.use() for memory in self.memories)
        given = self.model_dump(exclude={"memories", "glossary"})
        given["settings"] = {name: value for name, value in self.settings.items() if value is not None}
        return TranslationRequest(**given, memories=memories, terms=terms)


class SentencesBody(Body):
    """A text to split."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "Eins. Zwei.", "language": "de"}]})

    text: str
    language: Language = "en"


class SpanAnswer(Answer):
    """Characters of a text."""

    start: int
    end: int


class SentencesAnswer(Answer):
    """The sentences of a text; what is between them is white space."""

    sentences: list[SpanAnswer]


class DetectBody(Body):
    """A text whose language is asked for."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "Die Pumpe ist undicht."}]})

    text: str


class LikelyLanguage(Answer):
    language: str
    confidence: float


class LikelyLanguages(Answer):
    languages: list[LikelyLanguage]


class LanguageAnswer(Answer):
    """A language that can be translated from, and into what."""

    code: str
    name: str
    targets: list[str]


class LanguagesAnswer(Answer):
    languages: list[LanguageAnswer]


class ModelAnswer(Answer):
    """A loaded model."""

    name: str
    source_lang: str
    target_lang: str
    fingerprint: str
    precision: str
    device: str


class ModelsAnswer(Answer):
    models: list[ModelAnswer]


class MeAnswer(Answer):
    """Who asks, and what they may do."""

    name: str
    memories: Annotated[list[str] | None, Field(description="null: all memories.")]
    may: list[str]
    default_memory: str | None

    @classmethod
    def of(cls, principal: Principal) -> MeAnswer:
        memories = None if principal.memories is None else sorted(principal.memories)
        return cls(
            name=principal.name,
            memories=memories,
            may=sorted(principal.may),
            default_memory=principal.default_memory,
        )
