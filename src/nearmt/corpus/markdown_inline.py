"""The text and the inline markup of a Markdown block, with offsets.

markdown-it-py parses; its rules are wrapped, so that each markup that they find is recorded with its span.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin

from nearmt.corpus.document import Tag, TagKind
from nearmt.corpus.html_elements import VOID, is_kept
from nearmt.corpus.passages import Piece

Rule = Callable[[StateInline, bool], bool]
#: What the parser knows of a document, such as its link targets.
Environment = dict[str, Any]

_FOUND = "nearmt"
_HTML_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)[^>]*?(/?)>")
#: White space that ends words; a no-break space does not.
SPACE = re.compile(r"[ \t\r\n\x0b\x0c]+")
#: Markup that stands for a word of its sentence.
_WORDS = {"code_inline", "link_open", "math_inline", "math_inline_double"}


@dataclass
class _Mark:
    """Markup found by a rule, and its token, whose type later rules may change."""

    start: int
    end: int
    token: Token
    kind: TagKind = TagKind.SINGLE
    #: Written instead of the markup, where that depends on the text that is translated.
    markup: str | None = None


class _Parser(MarkdownIt):
    """A parser of CommonMark with tables, footnotes, definition lists, formulas and strikethrough."""

    def __init__(self) -> None:
        super().__init__("commonmark", {"maxNesting": 100})
        self.enable(["table", "strikethrough"])
        self.use(footnote_plugin).use(deflist_plugin)
        self.use(dollarmath_plugin, allow_space=False, allow_digits=False, allow_labels=False)
        for name in self.inline.ruler.get_active_rules():
            if name != "text":
                self.inline.ruler.at(name, _recording(name, _rule_of(self, name)))
        self.inline.ruler2.disable("fragments_join")

    # Links are kept, whatever they are.

    def normalizeLink(self, url: str) -> str:
        return url

    def validateLink(self, url: str) -> bool:
        return True


def _rule_of(parser: MarkdownIt, name: str) -> Rule:
    rules = {rule.name: rule.fn for rule in parser.inline.ruler.__rules__}
    return rules[name]


def _recording(name: str, rule: Rule) -> Rule:
    """Wrap a rule, so that it records its markup in the environment."""

    def recorded(state: StateInline, silent: bool) -> bool:
        start, pushed = state.pos, len(state.tokens)
        found: list[_Mark] = state.env.setdefault(_FOUND, [])
        before = len(found)
        label_end = -1
        if name == "link" and not silent and state.src[start] == "[":
            label_end = state.md.helpers.parseLinkLabel(state, start, True)
        if not rule(state, silent):
            return False
        if not silent:
            tokens = state.tokens[pushed:]
            if name == "link":
                _record_link(found, before, state, start, label_end, tokens)
            elif name in {"emphasis", "strikethrough"}:
                _record_delimiters(found, state.pos, tokens)
            else:
                del found[before:]  # of texts inside, such as that of an image
                _record_single(found, state, start, tokens)
        return True

    return recorded


def _record_link(
    found: list[_Mark], before: int, state: StateInline, start: int, label_end: int, tokens: Sequence[Token]
) -> None:
    opening = next(token for token in tokens if token.type == "link_open")
    found.insert(before, _Mark(start, start + 1, opening, TagKind.OPEN))
    # `[text]` and `[text][]` refer to a target by the text itself, which a translation would change.
    label = f"][{state.src[start + 1 : label_end]}]" if state.src[label_end : state.pos] in {"]", "][]"} else None
    found.append(_Mark(label_end, state.pos, tokens[-1], TagKind.CLOSE, label))


def _record_delimiters(found: list[_Mark], end: int, tokens: Sequence[Token]) -> None:
    """Record the tokens of a run of delimiters, which end at the parser's position."""
    own = [token for token in tokens if token.content and not set(token.content) - set("*_~")]
    marks: list[_Mark] = []
    for token in reversed(own):
        start = end - len(token.content)
        if start < 0:
            break
        marks.insert(0, _Mark(start, end, token))
        end = start
    found += marks


def _record_single(found: list[_Mark], state: StateInline, start: int, tokens: Sequence[Token]) -> None:
    own = next((token for token in tokens if token.type != "text"), None)
    if own is None:
        return
    if own.type in {"softbreak", "hardbreak"}:
        while start > 0 and state.src[start - 1] == " ":
            start -= 1
    found.append(_Mark(start, state.pos, own))


PARSER = _Parser()


def pieces_of(content: str, environment: Environment) -> list[Piece]:
    """Return the texts and tags of a block's content."""
    environment[_FOUND] = []
    PARSER.inline.parse(content, PARSER, environment, [])
    marks: list[_Mark] = environment.pop(_FOUND)
    pieces: list[Piece] = []
    at = 0
    for mark in _with_strong(marks):
        if mark.start < at or (mark.token.type == "text" and mark.token.content):
            continue
        pieces += _text(content, at, mark.start)
        pieces.append(_piece(mark, content))
        at = mark.end
    return list(_with_kept_elements([*pieces, *_text(content, at, len(content))], content))


def _with_kept_elements(pieces: Sequence[Piece], content: str) -> Iterator[Piece]:
    """Make one tag of an HTML element that is not translated, such as `<kbd>`, and of its content."""
    at = 0
    while at < len(pieces):
        piece, end = pieces[at], at
        if piece.name.startswith("<") and _kind(piece) is TagKind.OPEN and is_kept(content[piece.start : piece.end]):
            end = _end_of_element(pieces, at)
        if end > at:
            piece = Piece(piece.start, pieces[end].end, Tag(content[piece.start : pieces[end].end]), is_word=True)
        yield piece
        at = end + 1


def _end_of_element(pieces: Sequence[Piece], start: int) -> int:
    """The place of the end tag of an element; of its start tag, if it does not end."""
    depth = 0
    for place in range(start, len(pieces)):
        if pieces[place].name == pieces[start].name:
            depth += 1 if _kind(pieces[place]) is TagKind.OPEN else -1
            if not depth:
                return place
    return start


def _kind(piece: Piece) -> TagKind | None:
    return piece.value.kind if isinstance(piece.value, Tag) else None


def _text(content: str, start: int, end: int) -> list[Piece]:
    return [Piece(start, end, SPACE.sub(" ", content[start:end]))] if start < end else []


def _with_strong(marks: Sequence[_Mark]) -> list[_Mark]:
    """Join the two delimiters of `**`; the parser leaves one of them as an empty text."""
    joined: list[_Mark] = []
    empty: _Mark | None = None
    for mark in marks:
        is_empty = mark.token.type == "text" and not mark.token.content
        if is_empty and joined and joined[-1].token.type == "strong_close" and joined[-1].end == mark.start:
            joined[-1].end = mark.end
        elif is_empty:
            empty = mark
        else:
            if empty is not None and mark.token.type == "strong_open":
                mark.start = empty.start
            empty = None
            joined.append(mark)
    return joined


def _piece(mark: _Mark, content: str) -> Piece:
    token, raw = mark.token, content[mark.start : mark.end]
    if token.type == "text_special":
        return Piece(mark.start, mark.end, token.content)
    if token.type == "softbreak":
        return Piece(mark.start, mark.end, " ")
    if token.type == "html_inline":
        return _html_piece(mark, raw)
    if token.type.startswith(("em_", "strong_", "s_")):
        kind = TagKind.OPEN if token.nesting > 0 else TagKind.CLOSE
        return Piece(mark.start, mark.end, Tag(raw, kind), name=token.tag)
    if mark.kind is not TagKind.SINGLE:
        return Piece(mark.start, mark.end, Tag(mark.markup or raw, mark.kind), name="link")
    return Piece(mark.start, mark.end, Tag(raw, blank=token.type == "hardbreak"), is_word=token.type in _WORDS)


def _html_piece(mark: _Mark, raw: str) -> Piece:
    tag = _HTML_TAG.fullmatch(raw)
    if tag is None or tag[3] or tag[2].lower() in VOID:
        is_break = tag is not None and tag[2].lower() == "br"
        return Piece(mark.start, mark.end, Tag(raw, blank=is_break))
    kind = TagKind.CLOSE if tag[1] else TagKind.OPEN
    return Piece(mark.start, mark.end, Tag(raw, kind), name=f"<{tag[2].lower()}>")
