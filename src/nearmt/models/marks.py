"""Which tokens a model may write next, so that a translation has every mark of its source exactly once.

A mark is `[`, digits and `]`, in as many tokens as the vocabulary needs (`corpus.marks`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from nearmt.models.codec import TextCodec

Tokens = NDArray[np.int64]


@dataclass(frozen=True)
class Marks:
    """The marks that a sentence has to have."""

    numbers: frozenset[int]
    #: Of a mark that closes something, the number of the mark that opens it.
    opened_by: tuple[tuple[int, int], ...] = ()

    def allowed(self, written: Sequence[int]) -> frozenset[int]:
        """The marks that may come next. Pairs of tags are within those that have them in the source, and no others."""
        openers, around = self._openers, self._around
        left = self.numbers.difference(written)
        opened = frozenset(opener for closer, opener in self.opened_by if opener not in left and closer in left)
        missing = frozenset[int]().union(*(around[number] for number in left if number in around))

        def may_follow(number: int) -> bool:
            if (opener := openers.get(number)) is None:
                return around.get(number, opened) == opened
            return opener in opened and opener not in missing and opener == max(opened)

        return frozenset(filter(may_follow, left))

    @cached_property
    def _openers(self) -> dict[int, int]:
        return dict(self.opened_by)

    @cached_property
    def _around(self) -> dict[int, frozenset[int]]:
        """The opening marks of the pairs around each pair, by its own; numbers are in the order of the source."""
        return {
            opener: frozenset(other for end, other in self.opened_by if other < opener and closer < end)
            for closer, opener in self.opened_by
        }

    def room_for(self, written: Sequence[int]) -> int:
        """The most tokens that the marks which are missing can take."""
        return sum(len(f"[{number}]") for number in self.numbers.difference(written))


@dataclass(frozen=True)
class Progress:
    """How far a hypothesis is: the marks it has, and what it has of the one that it is writing."""

    written: tuple[int, ...] = ()
    #: The digits since `[`; None outside of a mark.
    digits: str | None = None

    def read(self, text: str, allowed: frozenset[int] | None = None) -> Progress | None:
        """Progress after some more text; None if the text breaks a mark, or begins one that is not allowed."""
        written, digits = self.written, self.digits
        for character in text:
            if digits is None:
                if character == "]":
                    return None
                digits = "" if character == "[" else None
            elif character == "]" and digits and (allowed is None or int(digits) in allowed):
                written, digits = (*written, int(digits)), None
                allowed = None if allowed is None else allowed - {written[-1]}
            elif character in "0123456789":
                digits += character
            else:
                return None
            if digits is not None and allowed is not None and not any(str(n).startswith(digits) for n in allowed):
                return None
        return Progress(written, digits)


class MarkTokens:
    """The tokens of a vocabulary that marks can be made of."""

    def __init__(self, codec: TextCodec, vocabulary: int) -> None:
        subwords = codec.subwords(range(vocabulary))
        #: Tokens with brackets, and those that can follow in a mark: by number, their text without blanks.
        self._brackets = {n: text.strip() for n, text in enumerate(subwords) if "[" in text or "]" in text}
        digits = {n: text for n, text in enumerate(subwords) if text and text.isascii() and text.isdigit()}
        self._inside = {n: text for n, text in {**self._brackets, **digits}.items() if not subwords[n][0].isspace()}
        #: Whether the model can write every mark.
        self.complete = "[" in self._brackets.values() and set("]0123456789").issubset(self._inside.values())
        #: Tokens that begin a mark.
        self.openers = [n for n, text in self._brackets.items() if text.endswith("[") and text.count("[") == 1]
        self._next = lru_cache(maxsize=4096)(self._find_next)

    def progress(self, tokens: Sequence[int]) -> Progress:
        """How far a hypothesis is. What is no mark does not count."""
        found = Progress()
        if self._brackets.keys().isdisjoint(tokens):
            return found
        for token in tokens:
            text = self._brackets.get(token)
            if text is None and found.digits is not None:
                text = self._inside.get(token)
            if text is not None:
                found = found.read(text) or Progress(found.written)
        return found

    def next_tokens(self, marks: Marks, progress: Progress) -> tuple[Tokens | None, Tokens, Tokens]:
        """The only tokens that may follow (None: all), tokens that may not, and those that may begin a mark."""
        return self._next(marks.allowed(progress.written), progress.digits)

    def _find_next(self, allowed: frozenset[int], digits: str | None) -> tuple[Tokens | None, Tokens, Tokens]:
        progress = Progress(digits=digits)
        if digits is not None:
            only = [n for n, text in self._inside.items() if progress.read(text, allowed) is not None]
            return _numbers(only), _numbers(), _numbers()
        banned = {n for n, text in self._brackets.items() if progress.read(text, allowed) is None}
        return None, _numbers(sorted(banned)), _numbers(n for n in self.openers if n not in banned)


def _numbers(tokens: Iterable[int] = ()) -> Tokens:
    return np.fromiter(tokens, dtype=np.int64)
