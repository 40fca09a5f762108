"""Bodies of requests and answers about memories and their pairs."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from nearmt.contracts import Pair
from nearmt.serve.api.schemas import Answer, Body, Language
from nearmt.serve.learning import MOST_METADATA, MOST_PAIRS
from nearmt.serve.values import MemoryInfo


class MemoryBody(Body):
    """A memory to make."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "manuals", "source_lang": "de", "target_lang": "en"}]}
    )

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    source_lang: Language | None = None
    target_lang: Language | None = None


class MemoriesAnswer(Answer):
    memories: list[MemoryInfo]


class PairBody(Body):
    """A pair; without an id, one is made of its text."""

    source: str
    target: str
    id: Annotated[str, Field(max_length=1000)] = ""
    metadata: Annotated[dict[str, str], Field(default_factory=dict, max_length=MOST_METADATA)]

    def pair(self) -> Pair:
        return Pair(self.source, self.target, self.id, "server", self.metadata)


class PairsBody(Body):
    """Pairs to add, or to put in the place of those with the same ids."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"pairs": [{"source": "Die Pumpe ist undicht.", "target": "The pump leaks.", "id": "7"}]}]
        }
    )

    pairs: Annotated[list[PairBody], Field(min_length=1, max_length=MOST_PAIRS)]


class TargetBody(Body):
    """Another target for a pair."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"target": "The pump is leaking."}]})

    target: str


class PairAnswer(Answer):
    """A pair of a memory."""

    id: str
    source: str
    target: str
    origin: str
    metadata: dict[str, str]

    @classmethod
    def of(cls, pair: Pair) -> PairAnswer:
        return cls(id=pair.id, source=pair.source, target=pair.target, origin=pair.origin, metadata=dict(pair.metadata))


class PairsAnswer(Answer):
    pairs: list[PairAnswer]


class PairPageAnswer(PairsAnswer):
    """Some pairs, and how many there are."""

    total: int
    complete: Annotated[bool, Field(description="Whether the total is exact: a search for a common text ends early.")]
