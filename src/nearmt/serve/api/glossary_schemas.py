"""Bodies of requests and answers about glossaries."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from nearmt.corpus.glossary import Term, TermStatus
from nearmt.serve.api.schemas import Answer, Body
from nearmt.serve.glossaries import Glossary


class EntryBody(Body):
    """A term and its translation."""

    source: Annotated[str, Field(min_length=1, max_length=300)]
    target: Annotated[str, Field(max_length=300)] = ""
    status: Literal["use", "forbidden", "do-not-translate"] = "use"

    def term(self) -> Term:
        status = TermStatus(self.status)
        return Term(self.source, self.source if status is TermStatus.KEEP else self.target, status)


class DirectionBody(Body):
    """The terms of a direction."""

    source_lang: Annotated[str, Field(pattern=r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*$", max_length=40)]
    target_lang: Annotated[str, Field(pattern=r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*$", max_length=40)]
    entries: Annotated[list[EntryBody], Field(min_length=1, max_length=10_000)]


class GlossaryBody(Body):
    """A glossary to store, or to put in the place of another one."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "pumps",
                    "terms": [
                        {
                            "source_lang": "de",
                            "target_lang": "en",
                            "entries": [{"source": "Welle", "target": "shaft"}],
                        }
                    ],
                }
            ]
        }
    )

    name: Annotated[str, Field(min_length=1, max_length=200)]
    terms: Annotated[list[DirectionBody], Field(min_length=1, max_length=100)]

    def by_direction(self) -> dict[tuple[str, str], list[Term]]:
        return {(each.source_lang, each.target_lang): [entry.term() for entry in each.entries] for each in self.terms}


class GlossaryAnswer(Answer):
    """A stored glossary."""

    id: str
    name: str
    created: str
    terms: list[DirectionBody]

    @classmethod
    def of(cls, glossary: Glossary) -> GlossaryAnswer:
        terms = [
            DirectionBody.model_construct(
                source_lang=source_lang,
                target_lang=target_lang,
                entries=[
                    EntryBody.model_construct(source=term.source, target=term.target, status=term.status.value)
                    for term in entries
                ],
            )
            for (source_lang, target_lang), entries in glossary.terms.items()
        ]
        return cls.model_construct(id=glossary.id, name=glossary.name, created=glossary.created, terms=terms)


class GlossariesAnswer(Answer):
    glossaries: list[GlossaryAnswer]
