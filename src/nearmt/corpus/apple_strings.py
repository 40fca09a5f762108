"""The `.strings` files of iOS and macOS: `"key" = "text";` in one language, with comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from nearmt.corpus.document import Document, Fillings, Part, Unit
from nearmt.corpus.encoding import Encoding, is_text, sniff
from nearmt.corpus.report import Report, Request
from nearmt.corpus.unpacking import open_bytes, reading
from nearmt.corpus.whole import whole_text
from nearmt.errors import InputError

_SPACE = r"(?:\s++|/\*(?:[^*]++|\*(?!/))*+\*/|//[^\n]*+)*+"
_STRING = r"""(?:"(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+'|[\w$:./-]++)"""
_BETWEEN = re.compile(_SPACE)
_ENTRY = re.compile(rf"{_STRING}{_SPACE}(?:={_SPACE}(?P<text>{_STRING}){_SPACE})?+;", re.DOTALL)
#: Where reading continues after a broken entry.
_NEXT_ENTRY = re.compile(r"""\n[ \t]*+(?=["'])""")
_ESCAPE = re.compile(r"(?:\\[Uu][0-9a-fA-F]{4})+|\\([0-7]{1,3})|\\(.)", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})
#: For texts of several lines.
_LINE_ESCAPES = {letter: escape for letter, escape in _ESCAPES.items() if letter != ord("\n")}
_COMPILED = (b"bplist", b"<?xml", b"\xef\xbb\xbf<?xml")


def strings_document(path: Path, request: Request, report: Report) -> Document:
    """Open a file whose texts are replaced by their translations; keys and comments stay."""
    encoding = _sniffed(path)
    return Document(encoding, _parts(path, encoding, request, report), paragraphs=True)


def _sniffed(path: Path) -> Encoding:
    """Detect the encoding: the beginning of a file in UTF-16 has a zero in every other byte."""
    encoding = sniff(path)
    with reading(path), open_bytes(path) as file:
        head = file.read(8)
    if head.startswith(_COMPILED):
        raise InputError(f"{path}: is a compiled property list; translate the .strings file that it was made from")
    if not encoding.bom and len(head) > 1 and 0 in head[:2]:
        return replace(encoding, name="utf-16-be" if head[0] == 0 else "utf-16-le")
    return encoding


def _parts(path: Path, encoding: Encoding, request: Request, report: Report) -> Iterator[Part]:
    text = whole_text(path, encoding, request.limits)
    offset, counted, line, has_entry = 0, 0, 1, False
    position = _after_space(text, 0)
    while position < len(text):
        line, counted = line + text.count("\n", counted, position), position
        entry = _ENTRY.match(text, position)
        if entry is None:
            position = _next_entry(path, text, position, line, report)
            continue
        has_entry = True
        unit = _unit(path, line, entry, request, report)
        if unit is not None:
            render = partial(_rendered, text, offset, entry, unit)
            yield Part(text[offset : entry.end()], (unit,), render)
            offset = entry.end()
        position = _after_space(text, entry.end())
    if not has_entry:
        raise InputError(f"{path}: is empty, or no .strings file: it has no entries")
    yield Part(text[offset:])


def _after_space(text: str, position: int) -> int:
    found = _BETWEEN.match(text, position)
    return found.end() if found else position


def _next_entry(path: Path, text: str, position: int, line: int, report: Report) -> int:
    """Report a broken entry and return where the next one begins; without a next one, the file was cut off."""
    following = _NEXT_ENTRY.search(text, position)
    expected = 'expected "key" = "text";'
    if following is None or text.startswith("/*", position):
        raise InputError(f"{path}, line {line}: {expected}, or the file ends in the middle; get a complete one")
    report.problem(path, line, expected)
    return following.end()


def _unit(path: Path, line: int, entry: re.Match[str], request: Request, report: Report) -> Unit | None:
    """Make the unit of an entry; an entry without a text stands for its key and has none."""
    raw = entry["text"]
    if raw is None:
        return None
    if entry.end() - entry.start() > request.limits.unit_bytes:
        report.problem(path, line, f"an entry of {request.limits.too_large}")
        return None
    content = _decoded(raw)
    if content is None:
        report.problem(path, line, "an escape that cannot be read, or bytes that are not text; write the letter itself")
        return None
    return Unit((content,), line=line)


def _decoded(raw: str) -> str | None:
    content = raw[1:-1] if raw[0] in "\"'" else raw
    try:
        text = _ESCAPE.sub(_letters, content)
    except UnicodeError:
        return None
    return text if is_text(text) else None


def _letters(escape: re.Match[str]) -> str:
    if escape[1]:
        return bytes([int(escape[1], 8) & 0xFF]).decode("ascii")  # the rest is in an encoding of NeXTSTEP
    if escape[2]:
        return _ESCAPED.get(escape[2], escape[2])
    return bytes.fromhex(re.sub(r"\\[Uu]", "", escape[0])).decode("utf-16-be")


def _rendered(text: str, offset: int, entry: re.Match[str], unit: Unit, fillings: Fillings) -> str:
    (filling,) = fillings
    assert filling is not None
    if (filling.text,) == unit.source:  # however it is escaped
        return text[offset : entry.end()]
    new = filling.text.translate(_LINE_ESCAPES if "\n" in entry["text"] else _ESCAPES)
    return f'{text[offset : entry.start("text")]}"{new}"{text[entry.end("text") : entry.end()]}'
