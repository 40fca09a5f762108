"""Rules of markup in plain text: tags, elements that are not translated, entities, code, escape sequences."""

from __future__ import annotations

import html
import re

from nearmt.corpus.spans.span import Rule, SpanKind, rule

# A word behind the name is an attribute only if it has a value, or is one of HTML's that have none: `<wenn a und b>`
# is prose. Templates stand between attributes, too.
_BOOLEAN = (
    r"checked|controls|defer|disabled|download|hidden|multiple|novalidate|open|readonly|required|selected|data-[\w-]+"
)
_VALUE = r"""(?:"[^"]*+"|'[^']*+'|[^\s"'<>=`]++)"""
_TEMPLATE = r"\{[{%][^<>{}]{0,200}[}%]\}|%\(\w+\)s|%s|\{\w*\}"
_ATTRIBUTE = rf"\s++(?:[\w:@.*()\[\]#-]+\s*+=\s*+{_VALUE}|(?:{_BOOLEAN})\b|{_TEMPLATE})"
TAGS = rule(
    SpanKind.TAG,
    rf"<[A-Za-z][\w:.-]*+(?:{_ATTRIBUTE})*+\s*+/?>",
    r"</ ?[A-Za-z][\w:.-]*+\s*+>",
    r"</?\d{1,4}\s?/?>",  # react-i18next
    r"<!--[^<]*?-->",
    r"<[!?][A-Za-z][^<>]*+>",
)

_WITHOUT_TAGS = r"[^<>]{0,200}"
_ATTRIBUTES = rf"(?:{_ATTRIBUTE})*+\s*+"
KEPT_ELEMENTS = rule(
    SpanKind.TAG,
    rf"<(?P<code>code|kbd|samp|var){_ATTRIBUTES}>{_WITHOUT_TAGS}</(?P=code)\s*+>",
    rf"<(?P<kept>[A-Za-z][\w:.-]*+)(?=[^<>]*?\stranslate\s*=\s*[\"']no[\"']){_ATTRIBUTES}>{_WITHOUT_TAGS}</(?P=kept)\s*+>",
)

#: Entities of XML's own characters; others may become the character, and the reverse.
_KEPT = frozenset({"&amp;", "&lt;", "&gt;"})
_ENTITY = r"&(?:[A-Za-z][A-Za-z0-9.]{1,31}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});"


def _end_of_entity(found: re.Match[str]) -> int:
    """Letters written as entities belong to a word, which is translated."""
    character = html.unescape(found[0])
    return found.start() if len(character) == 1 and character.isalpha() else found.end()


ENTITIES = rule(SpanKind.ENTITY, _ENTITY, end=_end_of_entity)


def is_kept_entity(text: str) -> bool:
    """Whether an entity has to stay in a translation: one of XML's, or one that a document type defines."""
    return text in _KEPT or html.unescape(text) == text


CODE = rule(
    SpanKind.CODE,
    r"(?<![\w`])``(?!`)[^`\n]++``(?![\w`])",
    # GNU's quotes, `this' and `that', are not code.
    r"(?<![\w`])`(?![\s`])[^`\n]*+(?<!\s)`(?![\w`])",
)
# The first alternative that fits counts.
ESCAPES = rule(
    SpanKind.ESCAPE,
    r"\\[a-zA-Z]{2,30}\*?(?=[{\[])",  # LaTeX
    r"\\(?:u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]{1,6}\}|U[0-9A-Fa-f]{8}|[xX][0-9A-Fa-f]{2}|[0-7]{3}|e\[[\d;]*m)",
    r"""\\[nrtfbv0"'\\]""",
)

MARKUP: tuple[Rule, ...] = (TAGS, KEPT_ELEMENTS, ENTITIES, CODE, ESCAPES)
