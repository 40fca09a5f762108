"""How a text differs from a stored one that resembles it: other numbers, other placeholders, another term."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import Enum

from nearmt.corpus import Tag
from nearmt.documents.numbers import NUMBER
from nearmt.documents.placeholders import as_tags
from nearmt.models.alignment import Span

_TOKEN = re.compile(rf"(?P<number>{NUMBER.pattern})|(?P<word>[^\W_]+)|(?P<other>\S)")
# Longer texts are not compared: the time grows with the square of the length.
_LONGEST = 2000
#: The most words of a term.
_TERM = 3


class Kind(Enum):
    NUMBER = "number"
    PLACEHOLDER = "placeholder"
    WORD = "word"
    OTHER = "other"


@dataclass(frozen=True)
class Token:
    text: str
    kind: Kind
    span: Span


@dataclass(frozen=True)
class Difference:
    """Tokens of the stored text, and those that the new text has in their place."""

    old: tuple[Token, ...]
    new: tuple[Token, ...]

    @property
    def kind(self) -> Kind:
        return self.old[0].kind


def tokens_of(text: str, printf: bool | None = None) -> list[Token]:
    """Split a text into numbers, placeholders, words and other characters."""
    tokens: list[Token] = []
    offset = 0
    for part in as_tags((text,), printf):
        if isinstance(part, Tag):
            tokens.append(Token(part.markup, Kind.PLACEHOLDER, (offset, offset + len(part.markup))))
            offset += len(part.markup)
            continue
        for found in _TOKEN.finditer(part):
            assert found.lastgroup is not None
            span = (offset + found.start(), offset + found.end())
            tokens.append(Token(found.group(), Kind(found.lastgroup), span))
        offset += len(part)
    return tokens


def differences(stored: str, new: str, printf: bool | None = None) -> list[Difference] | None:
    """What differs, if it is nothing but numbers, placeholders and at most one term; else None."""
    if max(len(stored), len(new)) > _LONGEST:
        return None
    old_tokens, new_tokens = tokens_of(stored, printf), tokens_of(new, printf)
    matcher = SequenceMatcher(None, list(map(_shape, old_tokens)), list(map(_shape, new_tokens)), autojunk=False)
    found: list[Difference] = []
    for operation, a, b, c, d in matcher.get_opcodes():
        old, new_part = tuple(old_tokens[a:b]), tuple(new_tokens[c:d])
        if operation == "equal":
            pairs = zip(old, new_part, strict=True)
            found += [Difference((one,), (other,)) for one, other in pairs if one.text != other.text]
        elif operation == "replace" and _is_term(old) and _is_term(new_part):
            found.append(Difference(old, new_part))
        else:
            return None
    terms = [difference for difference in found if difference.kind is Kind.WORD]
    words = sum(token.kind is Kind.WORD for token in old_tokens)
    # Texts that have no other word in common do not resemble one another.
    if len(terms) > 1 or (terms and words == len(terms[0].old)):
        return None
    return found


def _shape(token: Token) -> str:
    """What two tokens have in common that can stand for one another."""
    if token.kind is Kind.NUMBER:
        return "number"
    return f"placeholder {token.text[0]}" if token.kind is Kind.PLACEHOLDER else f"={token.text}"


def _is_term(tokens: tuple[Token, ...]) -> bool:
    return len(tokens) <= _TERM and all(token.kind is Kind.WORD for token in tokens)
