"""Plain text: each line is a unit, which its translation replaces."""

from __future__ import annotations

from pathlib import Path

from nearmt.corpus.document import Document, Fillings, Part, Unit
from nearmt.corpus.encoding import Encoding
from nearmt.corpus.lines import lines_with_ends, one_line, split_end
from nearmt.corpus.report import Report, Request


def text_document(path: Path, request: Request, report: Report) -> Document:
    lines = lines_with_ends(path, limits=request.limits)
    return Document(Encoding(), (_part(number, line) for number, line in lines), paragraphs=False)


def _part(number: int, line: str) -> Part:
    text, end = split_end(line)
    bom = "\ufeff" if text.startswith("\ufeff") else ""

    def render(fillings: Fillings) -> str:
        (filling,) = fillings
        assert filling is not None
        return bom + one_line(filling.text) + end

    return Part(line, (Unit((text.removeprefix(bom),), "", number),), render)
