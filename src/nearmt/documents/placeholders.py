"""Placeholders in texts: finding, comparing, and conversion to tags if the model would lose them."""

from __future__ import annotations

import re
from collections import Counter

from nearmt.corpus import Segment, Tag, TagKind, plain_text

_PRINTF = r"%(?:\(\w+\)|\d+\$)?[-+0#]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|L|q|j|z|t)?[diouxXeEfFgGcrsabAp]|%%"
_OTHERS = [
    r"\$\{[^{}\s]+\}",  # ${name}
    r"%\{[^{}\s]+\}",  # %{name}
    r"\{\{[^{}]+\}\}",  # {{name}}
    r"\{[\w.\[\]]*(?:![rsa])?(?::[^{}]*)?\}",  # {name}, {0}, {name!r:>10}
    r"</?[A-Za-z][^<>]*>",  # <b>, <x id="1"/>, </b>
    r"&(?:[A-Za-z]\w*|#\d+|#x[0-9A-Fa-f]+);",  # &amp;
]
# Longest first, so that `${name}` is not matched as `{name}` after a dollar.
_WITHOUT_PRINTF = re.compile("|".join(_OTHERS))
_WITH_PRINTF = re.compile("|".join([*_OTHERS, _PRINTF]))
# If the document does not mark format strings, `50%ig` is a word.
_MAYBE_PRINTF = re.compile("|".join([*_OTHERS, rf"(?<!\d)(?:{_PRINTF})(?![A-Za-z])"]))
_ELEMENT = re.compile(r"<(/?)([A-Za-z][\w:.-]*)[^<>]*?(/?)>")
_OWN = "placeholder "


def _pattern(printf: bool | None) -> re.Pattern[str]:
    return {False: _WITHOUT_PRINTF, True: _WITH_PRINTF, None: _MAYBE_PRINTF}[printf]


def placeholders(text: str, printf: bool | None = None) -> Counter[str]:
    """Count the placeholders of a text."""
    return Counter(_pattern(printf).findall(text))


def without_placeholders(text: str, printf: bool | None = None) -> str:
    return _pattern(printf).sub(" ", text)


def as_tags(segment: Segment, printf: bool | None = None) -> Segment:
    """Convert placeholders to tags, which are removed before translation and projected back."""
    parts: list[str | Tag] = []
    for part in segment:
        if isinstance(part, Tag):
            parts.append(part)
            continue
        offset = 0
        for found in _pattern(printf).finditer(part):
            parts += [part[offset : found.start()], Tag(found.group(), key=f"{_OWN}{len(parts)}")]
            offset = found.end()
        parts.append(part[offset:])
    return _paired(tuple(part for part in parts if part != ""))


def _paired(segment: Segment) -> Segment:
    """Pair start and end tags among the placeholders."""
    parts = list(segment)
    waiting: list[tuple[str, int]] = []
    for index, part in enumerate(parts):
        found = _ELEMENT.fullmatch(part.markup) if isinstance(part, Tag) and part.key.startswith(_OWN) else None
        if found is None or found.group(3):
            continue
        if not found.group(1):
            waiting.append((found.group(2), index))
        elif waiting and waiting[-1][0] == found.group(2):
            opened_at = waiting.pop()[1]
            opening = parts[opened_at]
            assert isinstance(opening, Tag) and isinstance(part, Tag)
            parts[opened_at] = Tag(opening.markup, TagKind.OPEN, opening.key, element=True)
            parts[index] = Tag(part.markup, TagKind.CLOSE, opening.key, element=True)
    return tuple(parts)


def as_text(segment: Segment) -> Segment:
    """Reverse `as_tags`."""
    parts: list[str | Tag] = []
    for part in segment:
        converted = part.markup if isinstance(part, Tag) and part.key.startswith(_OWN) else part
        if isinstance(converted, str) and parts and isinstance(parts[-1], str):
            parts[-1] += converted
        else:
            parts.append(converted)
    return tuple(parts)


def lost(source: Segment, target: Segment, printf: bool | None = None) -> list[str]:
    """List placeholders that the target lacks, and, with a plus, those it has in excess."""
    before, after = placeholders(plain_text(source), printf), placeholders(plain_text(target), printf)
    return [*(before - after), *(f"+{extra}" for extra in after - before)]


def spaced(source: str, target: str, printf: bool | None = None) -> str:
    """Insert blanks between placeholders and words of the target, unless they are adjacent in the source."""
    pattern = _pattern(printf)
    # (placeholder, side) without an adjacent word in the source.
    free = {(found.group(), side) for found in pattern.finditer(source) for side in (0, 1) if not _word(found, side)}

    def replace(found: re.Match[str]) -> str:
        before, after = ((found.group(), side) in free and _word(found, side) for side in (0, 1))
        return " " * before + found.group() + " " * after

    return pattern.sub(replace, target)


def _word(found: re.Match[str], side: int) -> bool:
    """Whether a word is adjacent to the match, before (0) or after (1) it."""
    start = max(0, found.start() - 1) if side == 0 else found.end()
    end = found.start() if side == 0 else found.end() + 1
    return found.string[start:end].isalnum()
