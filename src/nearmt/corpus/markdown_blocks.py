"""The blocks of text of a Markdown document, located in its lines.

markdown-it-py finds the blocks and names their lines. The content of a block ends each line that it takes part in; the
marks of lists and quotations stand before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from markdown_it.token import Token

from nearmt.corpus.markdown_inline import PARSER, Environment
from nearmt.corpus.markdown_writing import HEAD, TAIL, Frame

_LINE_END = re.compile(r"\r\n?|\n")
_FRONT_MATTER = re.compile(
    r"---[ \t]*\n(?!\s*\n).*?\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)|\+\+\+[ \t]*\n.*?\n\+\+\+[ \t]*(?:\n|\Z)", re.DOTALL
)
_CLOSING_SIGNS = re.compile(r"\s*#*\s*")


@dataclass(frozen=True)
class Block:
    """A block: its span in the document, and its content without the marks before its lines."""

    start: int
    end: int
    content: str
    line: int
    frame: Frame
    #: Ends a line of the content and begins the next one.
    line_break: str = "\n"

    def restored(self, content: str) -> str:
        """Turn content into text of the document."""
        if self.frame is Frame.CELL:
            return content.replace("|", "\\|")
        return content.replace("\n", self.line_break)


def blocks(text: str, environment: Environment) -> Iterator[Block]:
    """Yield the blocks of a document in order, and note its link targets in the environment."""
    plain = _LINE_END.sub("\n", text)
    front = _FRONT_MATTER.match(plain)
    skipped = front.group() if front else ""
    tokens: list[Token] = []
    PARSER.block.parse(plain[len(skipped) :], PARSER, environment, tokens)
    lines = _Lines(text, plain, skipped.count("\n"))
    for opening, token in pairwise(tokens):
        if token.type == "inline" and token.map is not None:
            if opening.type in {"th_open", "td_open"}:
                found = lines.cell(token.map[0], token.content)
            else:
                is_heading = opening.type == "heading_open" and opening.markup.startswith("#")
                found = lines.block(token.map[0], token.content, Frame.HEADING if is_heading else Frame.PARAGRAPH)
            if found is not None:
                yield found


class _Lines:
    """The lines of a document, in which contents are found from top to bottom."""

    def __init__(self, text: str, plain: str, skipped: int) -> None:
        ends = list(_LINE_END.finditer(text))
        self._lines = plain.split("\n")
        self._starts = [0, *(match.end() for match in ends)]
        self._line_end = ends[0].group() if ends else "\n"
        self._skipped = skipped
        #: The row of a table, and the column up to which its cells were found.
        self._row, self._column = -1, 0

    def block(self, line: int, content: str, frame: Frame) -> Block | None:
        """Locate the content of a block that begins in a line."""
        first = self._skipped + line
        found = self._spans(first, content, frame)
        if found is None:
            return None
        start, end = found[0][0], found[-1][1]
        begin = 0
        if head := HEAD.match(content):
            begin = head.end()
            lines_passed = head.group().count("\n")
            found = found[lines_passed:]
            first += lines_passed
            start = found[0][0] + (0 if lines_passed else begin)
        tail = TAIL.search(content, begin) if frame is Frame.HEADING else None
        stop = tail.start() if tail else len(content)
        line_break = self._line_end
        if len(found) > 1:
            line_break += self._lines[first + 1][: found[1][0] - self._starts[first + 1]]
        end -= len(content) - stop
        return Block(start, end, content[begin:stop], first + 1, frame, line_break) if start < end else None

    def _spans(self, first: int, content: str, frame: Frame) -> list[tuple[int, int]] | None:
        """Return the span of each line of a content; None if one is not where it should be."""
        spans = []
        for number, part in enumerate(content.split("\n"), first):
            if number >= len(self._lines):
                return None
            inner = part.strip(" \t")
            start = self._lines[number].rfind(inner)
            rest = self._lines[number][start + len(inner) :]
            if start < 0 or (rest.strip() and not (frame is Frame.HEADING and _CLOSING_SIGNS.fullmatch(rest))):
                return None
            spans.append((self._starts[number] + start, self._starts[number] + start + len(inner)))
        return spans

    def cell(self, line: int, content: str) -> Block | None:
        """Locate the next cell of a row."""
        row = self._skipped + line
        if row != self._row:
            self._row, self._column = row, 0
        raw = content.replace("|", "\\|")
        column = self._lines[row].find(raw, self._column) if raw else -1
        if column < 0:
            return None
        self._column = column + len(raw)
        start = self._starts[row] + column
        return Block(start, start + len(raw), content, row + 1, Frame.CELL)
