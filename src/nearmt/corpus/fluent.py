"""Fluent files (.ftl): messages with attributes and terms in one language; as a memory, two files of two languages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fluent.syntax import FluentParser, ast

from nearmt.contracts import Pair
from nearmt.corpus.cleaning import clean
from nearmt.corpus.document import Document, Filling, Fillings, Part, Unit, plain_text
from nearmt.corpus.encoding import Encoding, is_text, sniff
from nearmt.corpus.fluent_patterns import Message, bounds, message_of
from nearmt.corpus.icu import MessageError, parse_message
from nearmt.corpus.report import Report, Request
from nearmt.corpus.whole import whole_text
from nearmt.errors import InputError

#: Attributes that are letters of keyboards, and others that are no text.
_ACCESS_KEY = "accesskey"
_NO_TEXT = frozenset({"key", "keycode", "commandkey", "modifiers", "style", "width", "height", "tag"})


def fluent_document(path: Path, request: Request, report: Report) -> Document:
    """Open a file whose messages and terms are replaced by their translations; comments and identifiers stay."""
    encoding = sniff(path)
    return Document(encoding, _parts(path, encoding, request, report), paragraphs=True)


@dataclass(frozen=True)
class _Text:
    """A pattern that is translated: of a message, a term, or an attribute of a message."""

    name: str
    start: int
    end: int
    message: Message


def _entries(path: Path, text: str, report: Report) -> Iterator[ast.Message | ast.Term]:
    """The messages and terms of a file; broken entries are reported."""
    found = False
    for entry in FluentParser(with_spans=True).parse(text).body:
        if isinstance(entry, ast.Junk):
            reason = entry.annotations[0].message if entry.annotations else "cannot be read"
            start, _ = bounds(entry.annotations[0] if entry.annotations else entry)
            report.problem(path, text.count("\n", 0, start) + 1, f"{reason}; the entry is kept as it is")
        elif isinstance(entry, ast.Message | ast.Term):
            found = True
            yield entry
    if not found:
        raise InputError(f"{path}: is empty, or no Fluent file: it has no messages")


def _texts(entry: ast.Message | ast.Term, text: str) -> Iterator[_Text]:
    name = f"-{entry.id.name}" if isinstance(entry, ast.Term) else entry.id.name
    patterns = [(name, entry.value)] if entry.value is not None else []
    if isinstance(entry, ast.Message):  # attributes of terms are for selecting
        patterns += [(f"{name}.{a.id.name}", a.value) for a in entry.attributes if not _is_kept(a)]
    for full_name, pattern in patterns:
        start, end = bounds(pattern)
        while text[start].isspace():  # of a pattern that begins on a line of its own
            start += 1
        yield _Text(full_name, start, end, message_of(pattern, text))


def _is_kept(attribute: ast.Attribute) -> bool:
    return attribute.id.name in _NO_TEXT or attribute.id.name == _ACCESS_KEY


def _parts(path: Path, encoding: Encoding, request: Request, report: Report) -> Iterator[Part]:
    text = whole_text(path, encoding, request.limits)
    line_end = "\r\n" if "\r\n" in text else "\n"
    offset, counted, line = 0, 0, 1
    for entry in _entries(path, text, report):
        start, end = bounds(entry)
        line, counted = line + text.count("\n", counted, start), start
        if end - start > request.limits.unit_bytes:
            report.problem(path, line, f"a message of {request.limits.too_large}")
            continue
        found = [each for each in _texts(entry, text) if _has_text(each)]
        if not all(is_text(text[each.start : each.end]) for each in found):
            report.problem(path, line, "bytes that are not UTF-8")
            continue
        units = tuple(
            Unit(each.message.source, "", line + text.count("\n", counted, each.start), key=each.name) for each in found
        )
        render = partial(_rendered, text, offset, entry, found, line_end)
        yield Part(text[offset:end], units, render if units else None)
        offset = end
    yield Part(text[offset:])


def _has_text(text: _Text) -> bool:
    return any(map(str.isalpha, plain_text(text.message.source)))


def _rendered(
    text: str, offset: int, entry: ast.Message | ast.Term, found: list[_Text], line_end: str, fillings: Fillings
) -> str:
    edits = [
        (each.start, each.end, new.replace("\n", line_end))
        for each, filling in zip(found, fillings, strict=True)
        if filling is not None and (new := _pattern(text, each, filling)) is not None
    ]
    labels = {each.name: plain_text(filling.target) for each, filling in zip(found, fillings, strict=True) if filling}
    parts = []
    for start, end, new in sorted([*edits, *_access_keys(text, entry, labels)]):
        parts += [text[offset:start], new]
        offset = end
    return "".join([*parts, text[offset : bounds(entry)[1]]])


def _pattern(text: str, each: _Text, filling: Filling) -> str | None:
    if filling.target == each.message.source:
        return None
    line_start = text.rfind("\n", 0, each.start) + 1
    before = text[line_start : each.start]
    at_line_start = not before.strip()
    indent = before if at_line_start else " " * (len(before) - len(before.lstrip(" "))) + "    "
    return each.message.written(filling.target, indent, at_line_start=at_line_start)


def _access_keys(text: str, entry: ast.Message | ast.Term, labels: Mapping[str, str]) -> Iterator[tuple[int, int, str]]:
    """Access keys of translated labels: the same letter, or else the first one of the label."""
    name = entry.id.name
    label = labels.get(f"{name}.label", labels.get(name, ""))
    for attribute in entry.attributes if isinstance(entry, ast.Message) else ():
        start, end = bounds(attribute.value)
        letter = text[start:end]
        if attribute.id.name == _ACCESS_KEY and len(letter) == 1 and letter.casefold() not in label.casefold():
            chosen = next(filter(str.isalnum, label), letter)
            yield start, end, chosen


def read_fluent(source: Path, target: Path, request: Request, report: Report) -> Iterator[Pair]:
    """Pair the texts of two files by their names, variants of select expressions by their keys."""
    sides = []
    for path in (source, target):
        text = whole_text(path, sniff(path), request.limits)
        sides.append(
            {each.name: each.message for entry in _entries(path, text, report) for each in _texts(entry, text)}
        )
    languages = request.source_lang or "", request.target_lang or ""
    for name, message in sides[0].items():
        report.units += 1
        other = sides[1].get(name)
        if other is None or not plain_text(other.source).strip():
            report.skipped["untranslated"] += 1
            continue
        variants = [_variants(one, language) for one, language in zip((message, other), languages, strict=True)]
        for key in [key for key in variants[0] if key in variants[1]]:
            identity = request.identity(source, name, key)
            pair = Pair(variants[0][key], variants[1][key], identity, source.name, {"resname": name})
            if clean(pair.source) and clean(pair.target):
                yield pair


def _variants(message: Message, language: str) -> dict[str, str]:
    """The texts of a message by their variants; a message without any has one."""
    text = plain_text(message.source)
    try:
        parsed = parse_message(text, language, language)
    except MessageError:
        return {}
    if parsed is None:
        return {"": text}
    return {",".join(keyword for _, _, keyword in branch.path): branch.text for branch in parsed.branches}
