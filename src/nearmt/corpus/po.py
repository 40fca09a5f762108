"""PO catalogues of gettext as memories and as documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from nearmt.contracts import Pair
from nearmt.corpus.document import Document, Part, Unit
from nearmt.corpus.encoding import Encoding, sniff_po
from nearmt.corpus.po_direction import SAMPLE, Direction, check_languages, direction_of, is_symbolic
from nearmt.corpus.po_entries import Block, Entry, Message, entries_of
from nearmt.corpus.po_filling import annotated, rendered
from nearmt.corpus.report import Report, Request
from nearmt.errors import InputError

# Characters that are read to find the direction.
_LARGEST_BEGINNING = 1 << 22
# No language has a hundred plural forms.
_PLURAL_COUNT = re.compile(r"nplurals\s*=\s*([1-9]\d?)\b")


def read_po(path: Path, request: Request, report: Report) -> Iterator[Pair]:
    """Read the pairs of a catalogue: msgid is the source, msgstr the target; of plurals the first and the last form.

    The sides of a catalogue of the opposite direction are swapped.
    """
    encoding = sniff_po(path)

    def is_used(entry: Entry) -> bool:
        return any(entry.message.forms) and (request.unconfirmed or not entry.is_fuzzy)

    direction = direction_of(path, *_beginning(path, encoding, request, is_used), request, report)
    if direction is None:
        return
    for block, entry in entries_of(path, encoding, request, report):
        if entry and entry.is_header:
            continue
        report.units += block.has_message and not block.is_rest
        if block.is_obsolete and not block.is_rest:
            report.skipped["obsolete"] += 1
        elif entry and entry.is_fuzzy and not request.unconfirmed:
            report.skipped["fuzzy"] += 1
        elif entry:
            yield from pairs_of(entry.message, path, direction, request, report)


def po_document(path: Path, request: Request, report: Report) -> Document:
    """Open a catalogue to fill in."""
    encoding = sniff_po(path)
    header, messages = _beginning(path, encoding, request)
    sources = [message.source for message in messages]
    check_languages(path, header, sources, request)
    symbolic = is_symbolic(sources)
    entries = entries_of(path, encoding, request, report, must_end=True)
    parts = _parts(path, entries, Direction("", False, symbolic), report)
    return Document(encoding=encoding, parts=parts, paragraphs=True)


def _beginning(
    path: Path, encoding: Encoding, request: Request, is_wanted: Callable[[Entry], bool] = bool
) -> tuple[dict[str, str], list[Message]]:
    """The header of a catalogue and its first messages. The reading that follows reports their problems."""
    header: dict[str, str] = {}
    messages: list[Message] = []
    size = 0
    with suppress(InputError):
        for block, entry in entries_of(path, encoding, request, Report()):
            if entry and entry.is_header:
                header = entry.header
            elif entry and is_wanted(entry):
                messages.append(entry.message)
                size += sum(len(line.text) for line in block.lines)
            if len(messages) == SAMPLE or size > _LARGEST_BEGINNING:
                break
    return header, messages


def pairs_of(message: Message, path: Path, direction: Direction, request: Request, report: Report) -> Iterator[Pair]:
    """Make the pairs of a message. As in gettext, context and msgid identify it, whatever its translation."""
    if direction.leaves_out(message):
        report.skipped["symbolic msgids"] += 1
        return
    sides = [(name, source, target) for name, source, target in message.sides if target]
    if not sides:
        report.skipped["untranslated"] += 1
    for name, source, target in sides:
        if direction.language:
            report.count_language(direction.language)
        if direction.reverse:
            source, target = target, source  # noqa: PLW2901
        yield Pair(source, target, request.identity(path, name), path.name, message.metadata)


def _parts(
    path: Path, entries: Iterable[tuple[Block, Entry | None]], direction: Direction, report: Report
) -> Iterator[Part]:
    plural_count, keys = None, 0
    for block, entry in entries:
        if entry and entry.is_header:
            match = _PLURAL_COUNT.search(entry.header.get("plural-forms", ""))
            plural_count = int(match[1]) if match else None
        is_key = entry is not None and direction.leaves_out(entry.message)
        keys += is_key
        if entry is None or is_key or not entry.texts["msgid"]:
            yield Part(block.raw)
        else:
            count = plural_count or max(2, len(entry.message.forms))
            yield Part(
                block.raw, tuple(_units(entry, count)), partial(rendered, entry, count), partial(annotated, entry)
            )
    if keys:
        report.problem(path, None, f"{keys:,} symbolic msgids are keys, not texts, and were left alone")


def _units(entry: Entry, plural_count: int) -> Iterator[Unit]:
    _, plural, forms, _ = entry.message
    context = entry.texts.get("msgctxt", "")
    yield Unit((entry.texts["msgid"],), forms[0], entry.line, entry.printf, context=context)
    if plural is not None:
        others = forms[:1] if plural_count == 1 else forms[1:]
        yield Unit((plural,), others[-1] if others else "", entry.line, entry.printf, context=context)
