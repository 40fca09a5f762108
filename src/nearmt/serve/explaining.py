"""Words of a translation, and why they are there."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from nearmt.contracts import TokenProvenance
from nearmt.serve.matching import PairFinder
from nearmt.serve.values import Word, WordSilenced, WordWitness

#: Most pairs that are named for a word.
_MOST_PAIRS = 8
#: Names of tokens that are no text.
_SPECIAL = re.compile(r"<[^<>]+>|__\w+__")
_ORIGINS: tuple[Literal["search", "cache"], ...] = ("search", "cache")


@dataclass(frozen=True)
class _Group:
    """The tokens of a word."""

    text: str
    step: int
    tokens: tuple[TokenProvenance, ...]


def words_of(text: str, tokens: Sequence[TokenProvenance], pairs: PairFinder) -> tuple[Word, ...]:
    """The words of a translation that the model wrote, with their places in the text.

    What stands in place of a mark, such as a tag or a placeholder, is no word of the model.
    """
    words, at = [], 0
    for group in _groups(tokens):
        start = text.find(group.text, at)
        if start >= 0:
            at = start + len(group.text)
            words.append(_word(group, start, at, pairs))
    return tuple(words)


def _groups(tokens: Sequence[TokenProvenance]) -> Iterator[_Group]:
    """Group subwords into words: a blank begins or ends one, and so does what is no text (the end of a sentence)."""
    first = 0
    for number in range(1, len(tokens) + 1):
        if number == len(tokens) or _is_break(tokens[number - 1].token, tokens[number].token):
            group = tuple(tokens[first:number])
            if text := "".join(token.token for token in group).strip():
                yield _Group(text, first, group)
            first = number


def _is_break(before: str, after: str) -> bool:
    return after.startswith(" ") or before.endswith(" ") or any(map(_SPECIAL.fullmatch, (before, after)))


def _word(group: _Group, start: int, end: int, pairs: PairFinder) -> Word:
    origins = {token.origin for token in group.tokens}
    return Word(
        text=group.text,
        start=start,
        end=end,
        step=group.step,
        origin=next((origin for origin in _ORIGINS if origin in origins), "model"),
        searched=any(token.searched for token in group.tokens),
        before=math.prod(token.model_probability for token in group.tokens),
        after=math.prod(token.probability for token in group.tokens),
        witnesses=_witnesses(group, pairs),
        silenced=_silenced(group, pairs),
    )


def _witnesses(group: _Group, pairs: PairFinder) -> tuple[WordWitness, ...]:
    """The pairs with the largest mean shares."""
    shares: dict[str, float] = defaultdict(float)
    for token in group.tokens:
        for witness in token.witnesses:
            shares[witness.pair_id] += witness.share / len(group.tokens)
    found = []
    for identity, share in sorted(shares.items(), key=lambda item: -item[1])[:_MOST_PAIRS]:
        if (known := pairs.find(identity)) is not None:
            memory, pair = known
            found.append(WordWitness(identity, memory, pair.source, pair.target, share))
    return tuple(found)


def _silenced(group: _Group, pairs: PairFinder) -> tuple[WordSilenced, ...]:
    shares: dict[tuple[str, str], float] = defaultdict(float)
    for token in group.tokens:
        for silenced in token.silenced:
            shares[silenced.pair_id, silenced.token.strip()] += silenced.share / len(group.tokens)
    found = []
    for (identity, text), share in sorted(shares.items(), key=lambda item: -item[1])[:_MOST_PAIRS]:
        if (known := pairs.find(identity)) is not None:
            found.append(WordSilenced(identity, text, share, known[1].source, known[1].target))
    return tuple(found)
