"""Markdown documents to translate: CommonMark with tables, footnotes, definition lists and formulas.

Code, HTML blocks, link targets, front matter and everything else that is no text stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

from nearmt.corpus.document import Document, Part, Tag
from nearmt.corpus.encoding import Encoding, sniff
from nearmt.corpus.markdown_blocks import Block, blocks
from nearmt.corpus.markdown_inline import Environment, pieces_of
from nearmt.corpus.markdown_writing import Around, description_written, title_written, written
from nearmt.corpus.passages import Passage, Piece, Span, Write, part_of, passage_of, usable
from nearmt.corpus.report import Report, Request
from nearmt.corpus.whole import whole_text

#: Longer paragraphs are not parsed: of brackets alone, the time grows with the square of the length.
_LONGEST = 20_000
_IMAGE = re.compile(r"!\[([^\[\]\\*_`<&!$~^]*)\]\(")
_TITLE = re.compile(r"""\]\([^\n]*\s(?:"([^"\\&\n]*)"|'([^'\\&\n]*)')\s*\)""")


def markdown_document(path: Path, request: Request, report: Report) -> Document:
    """Open a document whose paragraphs, headings, items and cells are units."""
    encoding = sniff(path)
    return Document(encoding, _parts(path, encoding, request, report), paragraphs=True)


def _parts(path: Path, encoding: Encoding, request: Request, report: Report) -> Iterator[Part]:
    text = whole_text(path, encoding, request.limits)
    environment: Environment = {}
    at = 0
    for block in blocks(text, environment):
        if block.start > at:
            yield Part(text[at : block.start])
        raw, at = text[block.start : block.end], block.end
        if len(block.content) > _LONGEST:
            report.problem(
                path, block.line, f"a paragraph of more than {_LONGEST:,} characters, which is kept as it is"
            )
            yield Part(raw)
            continue
        passages = usable(_passages(block, environment), block.content, block.line, path, request, report)
        yield part_of(raw, passages, block.line, block.content, block.restored)
    if at < len(text):
        yield Part(text[at:])


def _passages(block: Block, environment: Environment) -> list[Passage]:
    """Return the text of a block, and the descriptions of images and titles of links in it."""
    pieces = [part for piece in pieces_of(block.content, environment) for part in _with_ends_apart(piece)]
    inner = [passage for piece in pieces for passage in _attributes(piece)]
    outer = passage_of(pieces, str)
    if outer is None:
        return inner
    around = Around(
        block.content[: outer.start],
        block.content[outer.end :],
        tuple(piece.value for piece in pieces if piece.end <= outer.start),
        tuple(piece.value for piece in pieces if piece.start >= outer.end),
        block.frame,
        environment,
    )
    outer = replace(outer, write=partial(written, around=around))
    return sorted([outer, *inner], key=lambda passage: (passage.start, -passage.end))


def _with_ends_apart(piece: Piece) -> list[Piece]:
    """Split a text from the white space at its ends, so that it can be left out."""
    if not isinstance(piece.value, str) or len(piece.value) != piece.end - piece.start:
        return [piece]
    left = len(piece.value) - len(piece.value.lstrip())
    right = len(piece.value.rstrip())
    cuts = [0, left, right, len(piece.value)] if left < right else [0, len(piece.value)]
    spans = pairwise(cuts)
    return [Piece(piece.start + a, piece.start + b, piece.value[a:b]) for a, b in spans if a < b]


def _attributes(piece: Piece) -> Iterator[Passage]:
    if not isinstance(piece.value, Tag):
        return
    markup = piece.value.markup
    image = _IMAGE.match(markup)
    if image:
        yield from _attribute(piece, image.span(1), description_written)
    title = _TITLE.fullmatch(markup, image.end() - 2 if image else 0)
    if title:
        group = 1 if title[1] is not None else 2
        yield from _attribute(piece, title.span(group), partial(title_written, quote="\"'"[group - 1]))


def _attribute(piece: Piece, span: Span, write: Write) -> Iterator[Passage]:
    assert isinstance(piece.value, Tag)
    text = piece.value.markup[slice(*span)]
    place = Piece(piece.start + span[0], piece.start + span[1], text)
    if "\n" not in text and (passage := passage_of([place], write)):
        yield passage
