"""Numbers of memories, which this service has and nearmt has not.

The number of a memory follows from its name, so it stays the same. Where a number is expected, the name is accepted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from nearmt.serve.errors import NotFound, RequestError
from nearmt.serve.glossaries import Glossary
from nearmt.serve.keys import Principal
from nearmt.serve.service import Service
from nearmt.serve.values import MemoryUse

#: JavaScript has no larger exact integers.
_BITS = 53


def number_of(name: str) -> int:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - _BITS)


def find_memory(service: Service, principal: Principal, given: str) -> str:
    """The name of the memory with a number or a name."""
    for name in service.memories.names():
        if given in (name, str(number_of(name))) and principal.sees(name):
            return name
    raise NotFound(f"no memory '{given[:64]}'")


def find_glossary(service: Service, principal: Principal, given: str) -> Glossary | None:
    """The glossary with the number or the name of a memory, or with an id of its own."""
    glossaries = service.glossaries.all(principal)
    return next(
        (glossary for glossary in glossaries if given in (glossary.id, glossary.name, str(number_of(glossary.name)))),
        None,
    )


def hinted(service: Service, principal: Principal, hints: Iterable[str], vector: str) -> tuple[MemoryUse, ...]:
    """Memories of hints, with weight 1, and of a context vector `12:0.5,13:0.2`, with its weights."""
    named = [(name, 1.0) for name in hints] + list(_weighted(vector))
    uses: dict[str, MemoryUse] = {}
    for given, weight in named:
        name = find_memory(service, principal, given)
        uses.setdefault(name, MemoryUse(name, weight))
    return tuple(uses.values())


def _weighted(vector: str) -> Iterator[tuple[str, float]]:
    for item in filter(None, map(str.strip, vector.split(","))):
        name, separator, weight = item.rpartition(":")
        try:
            yield (name, float(weight)) if separator else (item, 1.0)
        except ValueError as error:
            raise RequestError(f"context_vector: '{item[:64]}' is not a memory with its score") from error
