"""Filling of string catalogues in the layout of the file."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nearmt.corpus.document import Filling, Fillings
from nearmt.corpus.json_text import JsonObject, spliced

_KEY = re.compile(r'"(?:[^"\\]|\\.)*"')
_LINE_START = re.compile(r"[ \t]*")


@dataclass(frozen=True)
class Layout:
    """How a file is laid out; Xcode writes lines with two spaces and ` : `."""

    newline: str = "\n"
    indent: str = "  "
    colon: str = " : "
    ascii_only: bool = False

    @classmethod
    def of(cls, root: JsonObject) -> Layout:
        """Take the layout from the first member of a file; without a line break before it, all is one line."""
        first = next(iter(root.members.values()))
        before = root.text[root.start + 1 : first.start]
        newline, _, indent = before.rpartition("\n")
        key = _KEY.match(root.text, first.start)
        assert key is not None
        colon = root.text[key.end() : first.value]
        ascii_only = root.text.isascii() and "\\u" in root.text
        if "\n" not in before:
            return cls("", "", colon, ascii_only)
        return cls("\r\n" if newline.endswith("\r") else "\n", indent, colon, ascii_only)

    def written(self, value: Any, around: str) -> str:
        """Write a value whose lines begin with the given white space, except the first."""
        if not self.newline:
            return json.dumps(value, ensure_ascii=self.ascii_only, separators=(",", self.colon))
        text = json.dumps(value, ensure_ascii=self.ascii_only, indent=self.indent or None, separators=(",", self.colon))
        return text.replace("\n", self.newline + around)

    def insertion(self, parent: JsonObject, key: str, value: Any) -> tuple[int, int, str]:
        """Make the edit that adds a member to an object, in the order of keys."""
        if not parent.members:
            outer = _indent_of(parent) if self.newline else ""
            inner = outer + self.indent
            new = f"{{{self.newline}{inner}{self._member(key, value, inner)}{self.newline}{outer}}}"
            return parent.start, parent.end, new
        first = next(iter(parent.members.values()))
        space = parent.text[parent.start + 1 : first.start]
        member = self._member(key, value, space.rpartition("\n")[2])
        following = next((found for name, found in parent.members.items() if name > key), None)
        if following is not None:
            return following.start, following.start, f"{member},{space}"
        last = max(found.end for found in parent.members.values())
        return last, last, f",{space}{member}"

    def _member(self, key: str, value: Any, around: str) -> str:
        return json.dumps(key, ensure_ascii=self.ascii_only) + self.colon + self.written(value, around)


@dataclass(frozen=True)
class Place:
    """Where a localization that does not exist belongs."""

    entry: JsonObject
    localizations: JsonObject | None
    #: Exists without a text.
    target: JsonObject | None
    language: str

    def edit(self, localization: Any, layout: Layout) -> tuple[int, int, str]:
        """Make the edit that puts a localization there."""
        if self.localizations is None:
            return layout.insertion(self.entry, "localizations", {self.language: localization})
        if self.target is None:
            return layout.insertion(self.localizations, self.language, localization)
        return self.target.start, self.target.end, layout.written(localization, _indent_of(self.target))


def _indent_of(value: JsonObject) -> str:
    """Return the white space that begins the line of a value."""
    found = _LINE_START.match(value.text, value.text.rfind("\n", 0, value.start) + 1)
    return found[0] if found else ""


def fill_leaves(
    text: str, offset: int, end: int, leaves: Sequence[JsonObject], layout: Layout, fillings: Fillings
) -> str:
    """Replace value and state of string units."""
    edits = []
    for leaf, filling in zip(leaves, fillings, strict=True):
        for key, new in _string_unit(filling).items() if filling else ():
            present = leaf.member(key)
            if present is None:
                edits.append(layout.insertion(leaf, key, new))
            else:
                edits.append((present.start, present.end, layout.written(new, "")))
    return spliced(text, offset, end, edits)


def fill_place(
    text: str,
    offset: int,
    place: Place,
    source: JsonObject | None,
    paths: Sequence[tuple[str, ...]],
    layout: Layout,
    fillings: Fillings,
) -> str:
    """Add a localization with the structure of the source, so with its plural categories and devices."""
    localization: dict[str, Any] = json.loads(source.raw) if source is not None and any(paths) else {}
    for path, filling in zip(paths, fillings, strict=True):
        parent = localization
        for key in path:
            parent = parent[key]
        parent["stringUnit"] = _string_unit(filling) if filling else {"state": "new", "value": ""}
    return spliced(text, offset, place.entry.end, [place.edit(localization, layout)])


def _string_unit(filling: Filling) -> dict[str, str]:
    return {"state": "translated" if filling.is_confirmed else "needs_review", "value": filling.text}
