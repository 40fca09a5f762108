"""Spans, their kinds, and the rules that find them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum


class SpanKind(Enum):
    PRINTF = "printf"  # %s, %(name)d, %1$s, %%; Qt's %1, %n; %name%
    BRACE = "brace"  # {name}, {0!r:>10}, {}, {count, number}
    TEMPLATE = "template"  # {{name}}, ${name}, #{name}, %{name}, <%= x %>, {% x %}, $t(key), [X1X]
    VARIABLE = "variable"  # @name, :name, $NAME
    URL = "url"
    EMAIL = "email"
    PATH = "path"
    VERSION = "version"
    ESCAPE = "escape"  # \n and \u00e9, written out
    TAG = "tag"
    ENTITY = "entity"
    CODE = "code"  # `in backticks`
    HASH = "hash"  # #ff8800, 0xff, hexadecimal digests, UUIDs
    DATE_FORMAT = "date format"  # YYYY-MM-DD, HH:MM[:ss]
    PHRASE = "phrase"  # named by the user


#: Kinds whose form says that they are spans. Whether others are may depend on the text around them (`Version 2.0`).
MARKED = frozenset({SpanKind.PRINTF, SpanKind.BRACE, SpanKind.TEMPLATE, SpanKind.TAG, SpanKind.ENTITY})


@dataclass(frozen=True)
class Span:
    """A part of a text, from `start` to `end`, that its translation repeats unchanged."""

    start: int
    end: int
    kind: SpanKind
    #: Whether a translation has to contain it exactly once for each time that the source does. A no-break space or a
    #: quotation mark that is written as an entity may have another form in the translation.
    once: bool = True


@dataclass(frozen=True)
class Rule:
    """A pattern of spans of one kind."""

    kind: SpanKind
    pattern: re.Pattern[str]
    #: The end of the span of a match; its start if the match is not a span.
    end: Callable[[re.Match[str]], int] = re.Match.end


def rule(kind: SpanKind, *alternatives: str, end: Callable[[re.Match[str]], int] = re.Match.end) -> Rule:
    return Rule(kind, re.compile("|".join(alternatives)), end)
