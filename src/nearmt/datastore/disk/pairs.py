"""Pairs as JSON, the same in segments and in the log, and blocks of pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from nearmt.contracts import Pair

#: Limits of a block of pairs, which is logged, encoded or copied at a time.
BLOCK = 2048
_CHARACTERS = 1 << 25


def blocks_of(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    block: list[Pair] = []
    characters = 0
    for pair in pairs:
        block.append(pair)
        characters += len(pair.source) + len(pair.target)
        if len(block) >= BLOCK or characters > _CHARACTERS:
            yield block
            block, characters = [], 0
    if block:
        yield block


def pair_to_json(pair: Pair) -> dict[str, Any]:
    fields = {"id": pair.id, "source": pair.source, "target": pair.target, "origin": pair.origin}
    return {**fields, "metadata": dict(sorted(pair.metadata.items()))} if pair.metadata else fields


def pair_from_json(raw: Any) -> Pair:
    """Decode a pair; ValueError if it is not valid."""
    try:
        pair = Pair(**raw)
        for text in (pair.id, pair.source, pair.target, pair.origin, *pair.metadata, *pair.metadata.values()):
            str.encode(text)  # must be a string without lone surrogates
    except (TypeError, AttributeError, UnicodeEncodeError) as error:
        raise ValueError("not a pair of texts") from error
    return pair
