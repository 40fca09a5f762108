"""Tokens of HTML with their offsets, by the rules of the HTML standard; whatever is malformed is a token, too.

Joined, the texts of the tokens are the document. The time is linear in its size, which that of html.parser is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from html import unescape
from html.entities import html5

# Names and attributes as the standard has them: quotes may be missing, and `=` and `"` may stand in a name.
_NAME = r"[A-Za-z][^\t\n\f\r />]*+"
_VALUE = r"""\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'>][^\s>]*+)|(?=>))"""
_ATTRIBUTE = re.compile(rf"[\s/]*+([^\s/>][^\s/>=]*+)(?:{_VALUE})?+")
_TAG = re.compile(
    rf"</?+({_NAME})(?:[\s/]*+[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s\"'>][^\s>]*+|(?=>)))?+)*+[\s/]*+>"
)
_OPENS = re.compile(r"</?+[A-Za-z]|<[!?]|</")
_COMMENT = re.compile(r"<!--(?:-?>|.*?--!?>)", re.DOTALL)
# PHP may contain `>`.
_PHP = re.compile(r"<\?(?:php\b|=)")
#: Elements whose content is not parsed: raw text, and text with character references only.
_RAW = {"script", "style", "xmp", "iframe", "noembed", "noframes"}
_ESCAPABLE = {"title", "textarea"}
_REFERENCE = re.compile(r"&[A-Za-z][A-Za-z0-9]*+[;=]?+")
_SPECIAL = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


class Kind(Enum):
    TEXT = "text"
    START = "start"
    END = "end"
    #: Comments, declarations, instructions, and the content of scripts.
    OTHER = "other"
    #: The rest of a document in which a tag does not end.
    REST = "rest"


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its span."""

    kind: Kind
    start: int
    end: int
    #: The lower-case name of a tag.
    name: str = ""
    #: An empty element of XHTML.
    is_empty: bool = False


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute, and the span of its value without quotes."""

    value: str
    start: int
    end: int
    quote: str


def tokens(text: str, *, is_xml: bool = False) -> Iterator[Token]:
    """Split a document into tokens."""
    at = 0
    while at < len(text):
        token = _next(text, at, is_xml)
        yield token
        at = token.end
        if token.kind is Kind.START and not token.is_empty and token.name in _RAW | _ESCAPABLE | {"plaintext"}:
            end = _end_of_content(text, at, token.name)
            if end > at:
                yield Token(Kind.TEXT if token.name in _ESCAPABLE else Kind.OTHER, at, end, token.name)
            at = end


def _next(text: str, at: int, is_xml: bool) -> Token:
    opens = _OPENS.match(text, at)
    if opens is None:  # a text, which may begin with a `<` that opens nothing
        following = _OPENS.search(text, at + 1)
        return Token(Kind.TEXT, at, len(text) if following is None else following.start())
    if not opens.group()[-1].isalpha():
        return Token(Kind.OTHER, at, _end_of_other(text, at, is_xml))
    tag = _TAG.match(text, at)
    if tag is None:
        return Token(Kind.REST, at, len(text))
    if opens.group().startswith("</"):
        return Token(Kind.END, at, tag.end(), tag[1].lower())
    return Token(Kind.START, at, tag.end(), tag[1].lower(), is_xml and text.endswith("/>", at, tag.end()))


def _end_of_other(text: str, at: int, is_xml: bool) -> int:
    """Return the end of a comment or similar; one that does not end takes the rest."""
    if text.startswith("<!--", at):
        found = _COMMENT.match(text, at)
        return len(text) if found is None else found.end()
    closing = "]]>" if is_xml and text.startswith("<![CDATA[", at) else "?>" if _PHP.match(text, at) else ">"
    end = text.find(closing, at)
    return len(text) if end < 0 else end + len(closing)


def _end_of_content(text: str, at: int, name: str) -> int:
    found = re.compile(rf"</{re.escape(name)}(?=[\s/>])", re.IGNORECASE).search(text, at)
    return len(text) if found is None or name == "plaintext" else found.start()


def attributes(text: str, tag: Token) -> dict[str, Attribute]:
    """Return the attributes of a start tag by lower-case name; of several with one name the first counts."""
    found: dict[str, Attribute] = {}
    name = re.compile(_NAME).match(text, tag.start + 1, tag.end)
    assert name is not None
    at = name.end()
    while (match := _ATTRIBUTE.match(text, at, tag.end - 1)) and match.end() > at:
        at = match.end()
        group = next((number for number in (2, 3, 4) if match[number] is not None), 0)
        key = match[1].lower()
        if group and key not in found:
            quote = {2: '"', 3: "'"}.get(group, "")
            found[key] = Attribute(attribute_text(match[group]), *match.span(group), quote)
    return found


def attribute_text(raw: str) -> str:
    """Decode the character references of an attribute, where `&copy=1` is not one."""
    return "".join(unescape(part) if is_reference else part for part, is_reference in _references(raw))


def _references(raw: str) -> Iterator[tuple[str, bool]]:
    """Split a value where a reference without a semicolon may not be decoded."""
    at = 0
    for match in _REFERENCE.finditer(raw):
        if not match.group().endswith(";") and match.group()[1:] not in html5:
            yield raw[at : match.start()], True
            yield match.group(), False
            at = match.end()
    yield raw[at:], True


def escaped(text: str, encoding: str, *, is_xml: bool = False) -> str:
    """Escape text as HTML does; characters outside the encoding become character references."""
    special = _SPECIAL | {"\u00a0": "&#160;" if is_xml else "&nbsp;"}
    whole = "".join(special.get(letter, letter) for letter in text.replace("\r", " "))
    return whole.encode(encoding, "xmlcharrefreplace").decode(encoding)


def quoted(text: str, quote: str, encoding: str, *, is_xml: bool = False) -> str:
    """Format text as the value of an attribute; one that had no quotes gets them."""
    whole = escaped(text, encoding, is_xml=is_xml)
    if quote == "'":
        return whole.replace("'", "&#39;")
    whole = whole.replace('"', "&quot;")
    return whole if quote else f'"{whole}"'
