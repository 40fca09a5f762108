"""Rows of a worksheet: the texts of cells, and cells with a new text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nearmt.corpus.markup import escaped, spliced, with_attributes
from nearmt.corpus.xml_nodes import Fragment, Node

#: The number of columns of a worksheet.
_MOST_COLUMNS = 1 << 14
_REFERENCE = re.compile(r"([A-Z]{1,3})[1-9][0-9]*")
#: A character that XML cannot have.
_ESCAPE = re.compile(r"(?:_x[0-9A-Fa-f]{4}_)+")
_LOOKS_ESCAPED = re.compile(r"_(?=x[0-9A-Fa-f]{4}_)")
_IMPOSSIBLE = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]")


@dataclass(frozen=True)
class Cell:
    #: Counted from 0.
    column: int
    node: Node
    #: Its text; of a number or a date the stored value.
    text: str
    is_text: bool
    is_formula: bool


def column_name(column: int) -> str:
    """`A` for 0, `AA` for 26."""
    name = ""
    while column >= 0:
        column, letter = divmod(column, 26)
        name, column = chr(ord("A") + letter) + name, column - 1
    return name


def cells_of(row: Node, shared: Sequence[str]) -> list[Cell]:
    """Return the cells of a row, of each column the first; `shared` are the workbook's shared strings."""
    found: dict[int, Cell] = {}
    column = -1
    for node in row.elements("c"):
        column = _column(node.attributes.get("r", ""), column + 1)
        if column < _MOST_COLUMNS and column not in found:
            kind = node.attributes.get("t", "n")
            value = node.element("v")
            text = "" if value is None else value.text()
            is_text = kind in ("s", "inlineStr", "str")
            if kind == "s":
                text = shared[int(text)] if text.isdecimal() and int(text) < len(shared) else ""
            elif kind == "inlineStr":
                text = string_of(node.element("is"))
            elif kind == "str":
                text = _decoded(text)
            found[column] = Cell(column, node, text, is_text, node.element("f") is not None)
    return sorted(found.values(), key=lambda cell: cell.column)


def _column(reference: str, following: int) -> int:
    """Return the column that a cell names, or else the next one."""
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        return following
    number = 0
    for letter in match[1]:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number - 1


def string_of(node: Node | None) -> str:
    """Return the text of a string, without the formats of its runs and without the reading of characters."""
    if node is None:
        return ""
    texts = [*node.elements("t"), *(text for run in node.elements("r") for text in run.elements("t"))]
    return _decoded("".join(text.text() for text in texts))


def _decoded(text: str) -> str:
    def letters(escapes: re.Match[str]) -> str:
        codes = bytes.fromhex(re.sub("_x|_", "", escapes[0]))
        return codes.decode("utf-16-be", "replace")

    return _ESCAPE.sub(letters, text)


def with_cell(row: Fragment, number: int, cells: Sequence[Cell], column: int, text: str) -> str:
    """Return a row with a text in a column; the other cells and the format of this one stay."""
    assert row.node is not None
    prefix, attributes = row.node.prefix, {"r": f"{column_name(column)}{number}", "t": "inlineStr"}
    edits: list[tuple[int, int, str]] = []
    present = next((cell.node for cell in cells if cell.column == column), None)
    if present is not None:
        tag = re.sub(r"\s*/?>$", ">", row.slice(present.start, present.inner))
        edits.append((present.start, present.end, _cell(with_attributes(tag, attributes, "utf-8"), prefix, text)))
    else:
        cell = _cell(with_attributes(f"<{prefix}c>", attributes, "utf-8"), prefix, text)
        before = [other.node for other in cells if other.column < column]
        at = before[-1].end if before else row.node.inner
        edits.append((at, at, cell))
    edits += _wider(row, column)
    return spliced(row, edits)


def _cell(tag: str, prefix: str, text: str) -> str:
    content = escaped(_IMPOSSIBLE.sub(_escape, _LOOKS_ESCAPED.sub("_x005F_", text)))
    return f'{tag}<{prefix}is><{prefix}t xml:space="preserve">{content}</{prefix}t></{prefix}is></{prefix}c>'


def _escape(letter: re.Match[str]) -> str:
    return f"_x{ord(letter[0]):04X}_"


def _wider(row: Fragment, column: int) -> list[tuple[int, int, str]]:
    """Make the edit that includes a column in the range of columns that a row states."""
    assert row.node is not None
    first, _, last = row.node.attributes.get("spans", "").partition(":")
    if not (first.isdecimal() and last.isdecimal()) or int(first) <= column + 1 <= int(last):
        return []
    spans = f"{min(int(first), column + 1)}:{max(int(last), column + 1)}"
    tag = row.slice(0, row.node.inner)
    return [(0, row.node.inner, with_attributes(tag, {"spans": spans}, "utf-8"))]
