"""Inline tags of XLIFF and TMX have to be in the translation once each, and paired."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from nearmt.corpus import Segment, Tag, TagKind
from nearmt.documents.checks.base import CheckedUnit, Finding, Severity, listed

_NAME = re.compile(r"</?(?:[\w.-]+:)?([\w.-]+)")
#: What identifies a tag among those of its name: the other attributes may differ between the sides.
_IDENTITY = re.compile(r"""\s(?:i|x|id|rid|startRef)\s*=\s*("[^"]*"|'[^']*')""")
# Descriptions and titles in Markdown are texts of their own.
_DESCRIPTION = re.compile(r"""(?<=!\[)[^\]]*|\s+(?:"[^"]*"|'[^']*')(?=\)\Z)""")
#: Marks for terms, comments and segments, which translators may add and drop.
_MARKS = ("mrk", "sm", "em")


class TagCheck:
    """Tags that are missing, in excess, or closed before they are opened."""

    name = "tags"

    def __call__(self, unit: CheckedUnit) -> Iterator[Finding]:
        if len(unit.source) <= 1 and len(unit.target) <= 1 and not _has_tags(unit):
            return
        before, after = _tags(unit.source), _tags(unit.target)
        different = [*(before - after), *(f"+{extra}" for extra in after - before)]
        if different:
            yield Finding(self.name, Severity.ERROR, "inline tags differ from the source", listed(different))
        elif crossed := _misplaced(unit.target):
            yield Finding(self.name, Severity.ERROR, "inline tags are closed before they are opened", listed(crossed))


def _has_tags(unit: CheckedUnit) -> bool:
    return any(isinstance(part, Tag) for part in (*unit.source, *unit.target))


def _tags(segment: Segment) -> Counter[str]:
    """Count the opening and single tags by name and identity; the document's syntax pairs elements."""
    found: Counter[str] = Counter()
    for part in segment:
        if isinstance(part, Tag) and not (part.element and part.kind is TagKind.CLOSE) and _name(part) not in _MARKS:
            identity = _IDENTITY.search(part.markup)
            found[f"<{_name(part)} {identity[1][1:-1]}>" if identity else f"<{_name(part)}>"] += 1
    return found


def _name(tag: Tag) -> str:
    found = _NAME.match(tag.markup)
    return found[1] if found else _DESCRIPTION.sub("", tag.markup)


def _misplaced(segment: Segment) -> list[str]:
    """Closing codes before their opening code."""
    open_keys: Counter[str] = Counter()
    later = Counter(part.key for part in segment if isinstance(part, Tag) and part.kind is TagKind.OPEN)
    misplaced = []
    for part in segment:
        if isinstance(part, Tag) and part.kind is TagKind.OPEN:
            open_keys[part.key] += 1
        elif isinstance(part, Tag) and part.kind is TagKind.CLOSE and later[part.key]:
            open_keys[part.key] -= 1
            if open_keys[part.key] < 0:
                misplaced.append(f"<{_name(part)}>")
    return misplaced
