"""Single inline tags as protected spans of the text: the model sees them, and decides where they go."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from nearmt.contracts import Translation
from nearmt.corpus import Segment, Tag, TagKind, plain_text

# Characters for private use, which `corpus.marks` protects; a text that has some itself is left alone.
_FIRST, _LAST = "\ue000", "\uf8ff"
_PRIVATE = re.compile(f"([{_FIRST}-{_LAST}])")


@dataclass(frozen=True)
class InlineTags:
    """A segment in which characters stand for its single tags."""

    segment: Segment
    tags: tuple[Tag, ...] = ()

    def restored(self, target: Segment) -> Segment:
        """A translation with the tags in place of the characters. Tags that it lacks are at its end."""
        if not self.tags:
            return target
        left = dict(enumerate(self.tags))
        parts: list[str | Tag] = []
        for part in target:
            if isinstance(part, Tag):
                parts.append(part)
                continue
            for number, text in enumerate(_PRIVATE.split(part)):
                tag = left.pop(ord(text) - ord(_FIRST), None) if number % 2 else None
                parts += [tag] if tag is not None else [text] if text and not number % 2 else []
        return (*parts, *left.values())

    def explained(self, translation: Translation) -> Translation:
        """A translation whose provenance has the markup of tags in place of the characters."""
        if not self.tags or translation.provenance is None:
            return translation
        markup = {ord(_FIRST) + number: tag.markup for number, tag in enumerate(self.tags)}
        tokens = (replace(token, token=token.token.translate(markup)) for token in translation.provenance)
        return replace(translation, provenance=tuple(tokens))


def with_single_tags(segment: Segment) -> InlineTags:
    """Put a character in place of each single tag; tags that represent a blank stay, they belong between words."""
    tags = [part for part in segment if _is_single(part)]
    if not tags or len(tags) > ord(_LAST) - ord(_FIRST) or _PRIVATE.search(plain_text(segment)):
        return InlineTags(segment)
    parts: list[str | Tag] = []
    found: list[Tag] = []
    for part in segment:
        text: str | Tag = part
        if isinstance(part, Tag) and _is_single(part):
            text = chr(ord(_FIRST) + len(found))
            found.append(part)
        if isinstance(text, str) and parts and isinstance(parts[-1], str):
            parts[-1] += text
        else:
            parts.append(text)
    return InlineTags(tuple(parts), tuple(found))


def _is_single(part: str | Tag) -> bool:
    return isinstance(part, Tag) and part.kind is TagKind.SINGLE and not part.blank
