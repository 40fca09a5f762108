"""Patterns of Fluent as segments, and translations as patterns.

A pattern with select expressions becomes an ICU message: `{ $n -> [one] a *[other] b }` is `{n, plural, one {a} other
{b}}`, so its variants are translated as whole sentences, one by one. Placeables that are no protected spans are tags.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fluent.syntax import ast

from nearmt.corpus.document import Segment, Tag
from nearmt.corpus.icu import MessageError
from nearmt.corpus.icu.syntax import Choice, Pattern, Simple, parse
from nearmt.corpus.spans import find_spans

_CATEGORIES = frozenset({"zero", "one", "two", "few", "many", "other"})
_NUMBER = re.compile(r"\d{1,6}")
#: Stands for a tag while a translation is parsed.
_FIRST_TAG = 0xF0000
_TAG = re.compile("[\U000f0000-\U000ffffd]")
# Line breaks within a paragraph mean no more than blanks.
_WRAPPED = re.compile(r"(?<!\n)\n(?!\n)")
#: Signs that a line of a pattern must not begin with.
_STARTS = "[*.}"


@dataclass(frozen=True)
class _Selector:
    """What a select expression depends on, as written, and its default variant."""

    raw: str
    default: str


@dataclass
class Message:
    """A pattern as a segment."""

    source: Segment
    _selectors: dict[str, _Selector] = field(default_factory=dict)

    def written(self, target: Segment, indent: str, *, at_line_start: bool) -> str | None:
        """A translation as a pattern whose lines are indented; None if it is no message any more."""
        if not self._selectors:
            text = "".join(_escaped(part) if isinstance(part, str) else part.markup for part in target)
            return _lines(text.strip(" "), indent, at_line_start)
        tags = [part for part in target if isinstance(part, Tag)]
        numbers = iter(range(len(tags)))
        text = "".join(part if isinstance(part, str) else chr(_FIRST_TAG + next(numbers)) for part in target)
        try:
            return self._select(parse(text.strip()), tags, indent)
        except (MessageError, KeyError):
            return None

    def _select(self, pattern: Pattern, tags: Sequence[Tag], indent: str) -> str:
        texts = []
        for part in pattern:
            if isinstance(part, Choice):
                texts.append(self._choice(part, tags, indent))
            elif isinstance(part, Simple):
                quoted = part.raw[1:-1].replace("''", "'") if part.raw[0] == "'" else None
                texts.append(part.raw if quoted is None else _escaped(quoted))
            else:
                text = _escaped(part) if isinstance(part, str) else "#"
                texts.append(_TAG.sub(lambda found: tags[ord(found[0]) - _FIRST_TAG].markup, text))
        return _lines("".join(texts).strip(" "), f"{indent}    ", False)

    def _choice(self, choice: Choice, tags: Sequence[Tag], indent: str) -> str:
        selector = self._selectors[choice.name]
        default = selector.default if selector.default in choice.cases else next(reversed(choice.cases))
        lines = []
        for key, case in choice.cases.items():
            sign = "   *" if key == default else "    "
            lines.append(f"{indent}{sign}[{key.lstrip('=')}] {self._select(case, tags, f'{indent}    ')}")
        return "\n".join([f"{{ {selector.raw} ->", *lines, f"{indent}}}"])


def bounds(node: ast.SyntaxNode) -> tuple[int, int]:
    """Where a node begins and ends."""
    assert node.span is not None
    return node.span.start, node.span.end


def message_of(pattern: ast.Pattern, text: str) -> Message:
    """The segment of a pattern, which is a span of a text."""
    reader = _Reader(text)
    has_select = any(map(_select_of, pattern.elements))
    parts = list(reader.parts(pattern, has_select, False))
    return Message(_merged(parts), reader.selectors)


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self.selectors: dict[str, _Selector] = {}

    def parts(self, pattern: ast.Pattern, quotes: bool, in_plural: bool) -> Iterator[str | Tag]:
        for element in pattern.elements:
            if isinstance(element, ast.TextElement):
                text = _WRAPPED.sub(" ", element.value)
                yield _quoted(text, in_plural) if quotes else text
            elif (select := _select_of(element)) and (kind := _kind(select)):
                yield from self._select(select, kind, in_plural)
            else:
                raw = self._slice(element)
                is_span = [(span.start, span.end) for span in find_spans(raw)] == [(0, len(raw))]
                yield raw if is_span else Tag(raw, key=f"placeable {bounds(element)[0]}")

    def _select(self, select: ast.SelectExpression, kind: str, in_plural: bool) -> Iterator[str | Tag]:
        yield f"{{{self._name(select)}, {kind}, "
        for variant in select.variants:
            yield f"{_key(variant)} {{"
            yield from self.parts(variant.value, True, in_plural or kind != "select")
            yield "} "
        yield "}"

    def _name(self, select: ast.SelectExpression) -> str:
        """The name of a selector: that of its variable, by which it is found in its variants."""
        raw = self._slice(select.selector)
        selector = _Selector(raw, next(_key(variant) for variant in select.variants if variant.default))
        variable = re.search(r"\$([A-Za-z][\w-]*)", raw)
        name = base = variable[1] if variable else "selector"
        number = 1
        while self.selectors.get(name, selector).raw != raw:
            number += 1
            name = f"{base}-{number}"
        self.selectors.setdefault(name, selector)
        return name

    def _slice(self, node: ast.SyntaxNode) -> str:
        return self._text[slice(*bounds(node))].strip()


def _select_of(element: ast.TextElement | ast.Placeable) -> ast.SelectExpression | None:
    found = element.expression if isinstance(element, ast.Placeable) else None
    return found if isinstance(found, ast.SelectExpression) else None


def _kind(select: ast.SelectExpression) -> str:
    """The type of ICU; empty if the variants cannot be branches of one."""
    keys = [variant.key for variant in select.variants]
    names = {key.name for key in keys if isinstance(key, ast.Identifier)}
    numbers = [key.value for key in keys if isinstance(key, ast.NumberLiteral)]
    if not all(map(_NUMBER.fullmatch, numbers)):
        return ""
    default = next(variant.key for variant in select.variants if variant.default)
    if names <= _CATEGORIES and isinstance(default, ast.Identifier) and default.name == "other":
        return "selectordinal" if _is_ordinal(select.selector) else "plural"
    return "" if numbers else "select"


def _is_ordinal(selector: ast.Expression) -> bool:
    return isinstance(selector, ast.FunctionReference) and any(
        argument.name.name == "type" and getattr(argument.value, "value", "") == "ordinal"
        for argument in selector.arguments.named
    )


def _key(variant: ast.Variant) -> str:
    key = variant.key
    return f"={key.value}" if isinstance(key, ast.NumberLiteral) else key.name


def _quoted(text: str, in_plural: bool) -> str:
    """Text as text of an ICU message."""
    doubled = text.replace("'", "''")
    return doubled.replace("#", "'#'") if in_plural else doubled


def _escaped(text: str) -> str:
    """Text as text of a pattern; protected placeables stay."""
    parts, offset = [], 0
    for start, end in _placeables(text):
        parts += [_without_braces(text[offset:start]), text[start:end]]
        offset = end
    return "".join([*parts, _without_braces(text[offset:])])


def _placeables(text: str) -> Iterator[tuple[int, int]]:
    found = re.finditer(r"\{ *[$-][A-Za-z][\w-]*(?:\.[A-Za-z][\w-]*)? *\}", text)
    return (match.span() for match in found)


def _without_braces(text: str) -> str:
    return re.sub(r"[{}]", lambda found: f'{{"{found[0]}"}}', text)


def _lines(text: str, indent: str, at_line_start: bool) -> str:
    """Indent the lines of a pattern, and quote signs at their beginnings that would end it."""
    first, *others = text.split("\n")
    lines = [_safe(first) if at_line_start else first]
    inside = first.count("{") - first.count("}")
    for line in others:
        # Lines of a select expression are laid out already.
        lines.append(line if inside or not line.strip() else indent + _safe(line.strip(" ")))
        inside += line.count("{") - line.count("}")
    return "\n".join(lines) or '{ "" }'


def _safe(line: str) -> str:
    return f'{{"{line[0]}"}}{line[1:]}' if line[:1] and line[0] in _STARTS else line


def _merged(parts: Sequence[str | Tag]) -> Segment:
    merged: list[str | Tag] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        elif part != "":
            merged.append(part)
    return tuple(merged)
