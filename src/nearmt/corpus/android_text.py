"""Texts of Android's string resources: escapes, quotes and white space."""

from __future__ import annotations

import re
import unicodedata

_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.)|\Z)", re.DOTALL)
_SPACES = re.compile(r"[ \t\r\n\f\v]+")
_CONTROL = {"n": "\n", "t": "\t"}
_SIGNS = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", '"': '\\"', "'": "\\'"}
#: Parts of a text: an escape, a quote, or others.
_PART = re.compile(r'\\(?:u[0-9A-Fa-f]{4}|.|\Z)|"|[^\\"]+', re.DOTALL)


def unescaped(raw: str, in_quotes: bool) -> tuple[str, bool]:
    """Decode a text without XML escapes, and return whether a quote is open at its end.

    White space outside of quotes is collapsed. Characters beyond the basic plane are two escapes.
    """
    parts = []
    for found in _PART.finditer(raw):
        part = found.group()
        if part == '"':
            in_quotes = not in_quotes
        elif part.startswith("\\"):
            parts.append(_ESCAPE.sub(_decoded, part))
        else:
            parts.append(part if in_quotes else _SPACES.sub(" ", part))
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace"), in_quotes


def _decoded(escape: re.Match[str]) -> str:
    if escape[1]:
        return chr(int(escape[1], 16))
    letter = escape[2] or ""
    return _CONTROL.get(letter, "" if letter in "\r\n" else letter)


def escaped(text: str, in_quotes: bool) -> str:
    """Escape a text, for use within quotes or without them."""
    parts = []
    for index, letter in enumerate(text):
        if letter == "'" and in_quotes:
            parts.append(letter)
        elif letter == " " and not in_quotes and text[index - 1 : index] == " ":
            parts.append("\\u0020")  # a second blank would be dropped
        elif letter in _SIGNS:
            parts.append(_SIGNS[letter])
        elif letter != " " and unicodedata.category(letter) in {"Cc", "Cf", "Zs", "Zl", "Zp"}:
            parts.append(_as_escapes(letter))
        else:
            parts.append(letter)
    return "".join(parts)


def _as_escapes(letter: str) -> str:
    units = letter.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02X}{units[at + 1]:02X}" for at in range(0, len(units), 2))


def with_safe_start(text: str) -> str:
    """Escape what has a meaning at the beginning of a resource without quotes: a reference's sign, and a blank."""
    if text.startswith(("@", "?")):
        return "\\" + text
    return "\\u0020" + text[1:] if text.startswith(" ") else text


def with_safe_end(text: str) -> str:
    """Escape a blank at the end of a resource without quotes."""
    return text[:-1] + "\\u0020" if text.endswith(" ") else text


def in_cdata(text: str, encoding: str) -> str:
    """Make a text that can stand in a CDATA section, where character references have no meaning."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = "".join(letter if _fits(letter, encoding) else _as_escapes(letter) for letter in text)
    return text.replace("]]>", "]]]]><![CDATA[>")


def _fits(letter: str, encoding: str) -> bool:
    try:
        letter.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
