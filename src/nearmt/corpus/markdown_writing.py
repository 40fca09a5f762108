"""Writing of a translation as Markdown, so that it is read as the same text with the same markup.

A text is escaped only where parsing shows that it has to be.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from markdown_it.token import Token

from nearmt.corpus.document import Segment, Tag, TagKind
from nearmt.corpus.markdown_inline import PARSER, SPACE, Environment, pieces_of

#: The box of a task list, and the kind of a note, which are no text of their block.
HEAD = re.compile(r"\[[ xX]\][ \t]+|\[![A-Za-z]+\][ \t]*\n[ \t]*")
#: The identifier of a heading.
TAIL = re.compile(r"[ \t]+\{:?[ \t]*[#.][^{}\n]*\}\Z")
# Signs of inline markup; `!` before a link would make it an image, and `#` may end a heading.
_SIGNS = re.compile(r"[\\`*_\[\]<&~$^]|[!#]\Z|\{(?=[:#.][^{}]*\}\Z)")
# Signs of a block at the beginning of a line.
_START = re.compile(r"\A(\s*\d{0,9})([#>+=:~|.)-])")
_IN_DESCRIPTION = re.compile(r"[\\\[\]*_`<&!$~^]")
_ELEMENTS = {"*": "em", "_": "em", "**": "strong", "__": "strong", "~~": "del"}


class Frame(Enum):
    """What a text stands in."""

    PARAGRAPH = "paragraph"
    HEADING = "heading"
    CELL = "cell"


@dataclass(frozen=True)
class Around:
    """The rest of a block, in which a text has to be read as intended."""

    before: str
    after: str
    #: What the parser finds there.
    values_before: Segment
    values_after: Segment
    frame: Frame
    environment: Environment

    def keeps(self, text: str, meant: Segment) -> bool:
        """Whether the block with this text is read as what is meant."""
        whole = self.before + text + self.after
        found = tuple(piece.value for piece in pieces_of(whole, self.environment))
        wanted = self.values_before + meant + self.values_after
        return _signature(found) == _signature(wanted) and _is_block(whole, self.frame)


def written(segment: Segment, around: Around) -> str:
    """Format a segment within its block, with as few escapes as possible."""
    plain = tuple(SPACE.sub(" ", part) if isinstance(part, str) else part for part in segment)
    tried: list[Callable[[Segment], Segment]] = [
        *(tuple, _with_starts_escaped, _escaped, _with_elements, _with_references)
    ]
    text = ""
    for candidate in tried:
        text = "".join(part if isinstance(part, str) else part.markup for part in candidate(plain))
        text = text.strip(" ").replace("\u00a0", "&nbsp;")
        meant = plain if candidate is not _with_elements else _as_elements(plain)
        if around.keeps(text, meant):
            break
    return text


def description_written(segment: Segment) -> str:
    """Format the description of an image."""
    return _IN_DESCRIPTION.sub(r"\\\g<0>", _text(segment))


def title_written(segment: Segment, quote: str) -> str:
    """Format the title of a link within its quotes."""
    return re.sub(rf"[\\&{quote}]", r"\\\g<0>", _text(segment))


def _text(segment: Segment) -> str:
    whole = "".join(part if isinstance(part, str) else part.markup for part in segment)
    return SPACE.sub(" ", whole).strip(" ")


def _signature(segment: Segment) -> list[tuple[bool, str]]:
    """Return the texts and the markup of a segment, without white space around them."""
    found: list[tuple[bool, str]] = []
    for part in segment:
        if isinstance(part, Tag):
            found.append((True, part.markup))
        elif found and not found[-1][0]:
            found[-1] = (False, found[-1][1] + part)
        else:
            found.append((False, part))
    texts = [(is_tag, value if is_tag else SPACE.sub(" ", value).strip()) for is_tag, value in found]
    return [entry for entry in texts if entry[1]]


def _is_block(content: str, frame: Frame) -> bool:
    """Whether a content is one block, and all of it."""
    if HEAD.match(content) or (frame is Frame.HEADING and TAIL.search(content)):
        return False
    if frame is Frame.CELL:
        return "\n" not in content
    mark = "# " if frame is Frame.HEADING else ""
    tokens: list[Token] = []
    PARSER.block.parse(mark + content, PARSER, {}, tokens)
    kind = "heading_open" if mark else "paragraph_open"
    types = [token.type for token in tokens]
    return types == [kind, "inline", kind.replace("open", "close")] and tokens[1].content == content.strip()


def _with_starts_escaped(segment: Segment) -> Segment:
    """Escape what could begin a block, in each line."""
    parts: list[str | Tag] = []
    at_start = True
    for part in segment:
        parts.append(_START.sub(r"\1\\\2", part) if at_start and isinstance(part, str) else part)
        at_start = isinstance(part, Tag) and part.markup.endswith("\n")
    return tuple(parts)


def _escaped(segment: Segment) -> Segment:
    """Escape all signs of markup in texts."""
    texts = tuple(_SIGNS.sub(r"\\\g<0>", part) if isinstance(part, str) else part for part in segment)
    return _with_starts_escaped(texts)


def _with_references(segment: Segment) -> Segment:
    """Escape texts, and write the letters at both ends as references: emphasis before or behind them, which does not
    belong to the segment, then meets punctuation."""
    parts = list(_escaped(segment))
    if parts and isinstance(parts[0], str):
        parts[0] = re.sub(r"\A\w", _reference, parts[0])
    if parts and isinstance(parts[-1], str):
        parts[-1] = re.sub(r"\w\Z", _reference, parts[-1])
    return tuple(parts)


def _reference(match: re.Match[str]) -> str:
    return f"&#{ord(match[0])};"


def _with_elements(segment: Segment) -> Segment:
    """Escape texts, and write emphasis as HTML elements, which may begin and end within a word."""
    return _escaped(_as_elements(segment))


def _as_elements(segment: Segment) -> Segment:
    """Emphasis as elements. Where it crosses other tags its ends are single tags: of two alike, the first opens."""
    parts: list[str | Tag] = []
    opened: set[str] = set()
    for part in segment:
        if isinstance(part, str) or part.markup not in _ELEMENTS:
            parts.append(part)
            continue
        closes = part.markup in opened if part.kind is TagKind.SINGLE else part.kind is TagKind.CLOSE
        opened ^= {part.markup} if part.kind is TagKind.SINGLE else set()
        parts.append(replace(part, markup=f"<{'/' if closes else ''}{_ELEMENTS[part.markup]}>"))
    return tuple(parts)
