"""Search of protected spans: the leftmost match of all rules, of those that begin there the longest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from nearmt.corpus.spans.literals import LITERALS
from nearmt.corpus.spans.markup import MARKUP, is_kept_entity
from nearmt.corpus.spans.placeholders import CERTAIN_PRINTF, LIKELY_PRINTF, PLACEHOLDERS
from nearmt.corpus.spans.span import Rule, Span, SpanKind

#: Of matches of equal length the first in this order counts.
_RULES = (*MARKUP, *PLACEHOLDERS, *LITERALS)
# Most texts have none of the characters that every span but a hash and a phrase has, but a full stop at the end.
_ANY_SIGN = re.compile(r"[%{}$#<>@/\\`&*]|[.:]\w|\[X|[vV]ersion|[vV]\d|\d[a-fx]|[a-f]\d|__|MM|HH|hh:|mm:|-mm")


def find_spans(text: str, printf: bool | None = None, phrases: Sequence[str] = ()) -> list[Span]:
    """Find the protected spans of a text, in order and without overlaps.

    `printf` says whether `%s` and similar are placeholders; None if the document does not say. `phrases` are not to be
    translated where they occur as whole words, in upper and lower case as given.
    """
    rules = _rules(printf, tuple(phrases))
    if not phrases and not _ANY_SIGN.search(text):
        return []
    return [_span(text, start, end, kind) for start, end, kind in _leftmost_longest(text, rules)]


@lru_cache(maxsize=64)
def _rules(printf: bool | None, phrases: tuple[str, ...]) -> tuple[Rule, ...]:
    directives = {True: (CERTAIN_PRINTF,), None: (LIKELY_PRINTF,), False: ()}[printf]
    named = [_phrase(phrase) for phrase in sorted(phrases, key=len, reverse=True) if phrase.split()]
    given = (Rule(SpanKind.PHRASE, re.compile("|".join(named))),) if named else ()
    return (*given, *directives, *_RULES)


def _phrase(phrase: str) -> str:
    """The pattern of a phrase as whole words, with any white space between them."""
    words = phrase.split()
    before = r"(?<!\w)" if words[0][0].isalnum() else ""
    after = r"(?!\w)" if words[-1][-1].isalnum() else ""
    return before + r"\s+".join(map(re.escape, words)) + after


#: Start, end, place of the rule among the rules.
_Found = tuple[int, int, int]


def _leftmost_longest(text: str, rules: Sequence[Rule]) -> Iterator[tuple[int, int, SpanKind]]:
    following = {number: found for number in range(len(rules)) if (found := _next(text, rules, number, 0))}
    while following:
        start, end, number = min(following.values(), key=lambda found: (found[0], -found[1], found[2]))
        yield start, end, rules[number].kind
        for each in [each for each, found in following.items() if found[0] < end]:
            found = _next(text, rules, each, end)
            if found is None:
                del following[each]
            else:
                following[each] = found


def _next(text: str, rules: Sequence[Rule], number: int, offset: int) -> _Found | None:
    for found in rules[number].pattern.finditer(text, offset):
        if (end := rules[number].end(found)) > found.start():
            return found.start(), end, number
    return None


def _span(text: str, start: int, end: int, kind: SpanKind) -> Span:
    return Span(start, end, kind, kind is not SpanKind.ENTITY or is_kept_entity(text[start:end]))
