"""PO catalogues of gettext as memories and as documents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from nearmt.contracts import Pair
from nearmt.corpus.document import Document, Part, Unit
from nearmt.corpus.encoding import sniff_po
from nearmt.corpus.po_entries import Block, Entry, Message, entries_of
from nearmt.corpus.po_filling import rendered
from nearmt.corpus.report import Report, Request
from nearmt.errors import InputError
from nearmt.languages import same_language

#: The source language, unless the header names another.
_USUAL_SOURCE = "en"
# No language has a hundred plural forms.
_PLURAL_COUNT = re.compile(r"nplurals\s*=\s*([1-9]\d?)\b")


def read_po(path: Path, request: Request, report: Report) -> Iterator[Pair]:
    """Read the pairs of a catalogue: msgid is the source, msgstr the target; of plurals the first and the last form.

    The sides of a catalogue of the opposite direction are swapped.
    """
    language, reverse = "", False
    for block, entry in entries_of(path, sniff_po(path), request, report):
        if entry and entry.is_header:
            language = entry.header.get("language", "")
            direction = is_reversed(entry.header, request, report)
            if direction is None:
                return
            reverse = direction
            continue
        report.units += block.has_message and not block.is_rest
        if block.is_obsolete and not block.is_rest:
            report.skipped["obsolete"] += 1
        elif entry and entry.is_fuzzy and not request.unconfirmed:
            report.skipped["fuzzy"] += 1
        elif entry:
            yield from pairs_of(entry.message, path, language, reverse, request, report)


def po_document(path: Path, request: Request, report: Report) -> Document:
    """Open a catalogue to fill in."""
    encoding = sniff_po(path)
    entries = entries_of(path, encoding, request, report, must_end=True)
    return Document(encoding=encoding, parts=_parts(path, entries, request), paragraphs=True)


def pairs_of(
    message: Message, path: Path, language: str, reverse: bool, request: Request, report: Report
) -> Iterator[Pair]:
    """Make the pairs of a message. As in gettext, context and msgid identify it, whatever its translation."""
    sides = [(name, source, target) for name, source, target in message.sides if target]
    if not sides:
        report.skipped["untranslated"] += 1
    for name, source, target in sides:
        if language:
            report.count_language(language)
        if reverse:
            source, target = target, source  # noqa: PLW2901
        yield Pair(source, target, request.identity(path, name), path.name, message.metadata)


def is_reversed(header: Mapping[str, str], request: Request, report: Report) -> bool | None:
    """Whether a catalogue translates from the requested target language into the source language.

    Then its sides are swapped. None if it is of other languages, which is usual in folders of catalogues.
    """
    language = header.get("language", "")
    if same_language(language, request.target_lang):
        return False
    written_in = header.get("x-source-language", _USUAL_SOURCE)
    opposite = request.source_lang and same_language(language, request.source_lang)
    if opposite and same_language(written_in, request.target_lang):
        return True
    report.skipped["catalogues of other languages"] += 1
    return None


def _parts(path: Path, entries: Iterable[tuple[Block, Entry | None]], request: Request) -> Iterator[Part]:
    plural_count = None
    for block, entry in entries:
        if entry and entry.is_header:
            language = entry.header.get("language", "")
            if not same_language(language, request.target_lang):
                wanted = request.target_lang
                raise InputError(f"{path}: is a catalogue of '{language}', the model translates into '{wanted}'")
            match = _PLURAL_COUNT.search(entry.header.get("plural-forms", ""))
            plural_count = int(match[1]) if match else None
        if entry is None or not entry.texts["msgid"]:
            yield Part(block.raw)
        else:
            count = plural_count or max(2, len(entry.message.forms))
            yield Part(block.raw, tuple(_units(entry, count)), partial(rendered, entry, count))


def _units(entry: Entry, plural_count: int) -> Iterator[Unit]:
    _, plural, forms, _ = entry.message
    yield Unit((entry.texts["msgid"],), forms[0], entry.line, entry.printf)
    if plural is not None:
        others = forms[:1] if plural_count == 1 else forms[1:]
        yield Unit((plural,), others[-1] if others else "", entry.line, entry.printf)
