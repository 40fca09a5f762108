"""Compiled catalogues of gettext, read with polib."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from nearmt.contracts import Pair
from nearmt.corpus.lines import open_bytes, reading
from nearmt.corpus.po import is_turned_round, pairs_of
from nearmt.corpus.po_entries import Message, header_fields
from nearmt.corpus.report import Report, Request
from nearmt.errors import MissingPackageError

if TYPE_CHECKING:
    from polib import MOEntry, MOFile


def read_mo(path: Path, request: Request, report: Report) -> Iterator[Pair]:
    """Pairs of a compiled catalogue, as `read_po` gives them; comments and occurrences are not compiled."""
    with reading(path), open_bytes(path) as file:
        data = file.read()
    try:
        catalogue = _mo_catalogue(data)
        header = header_fields("\n".join(f"{name}: {value}" for name, value in catalogue.metadata.items()))
        charset = _mo_charset(header)
        unread = _mo_unread(catalogue, data)
    except (OSError, ValueError, LookupError, struct.error) as error:
        report.problem(path, None, f"is no compiled catalogue, or a damaged one ({error})")
        return
    language = header.get("language", "")
    turned = is_turned_round(header, request, report)
    if turned is None:
        return
    if unread:
        report.units += unread
        report.skipped["system-dependent"] += unread
    for entry in catalogue:
        report.units += 1
        try:
            message = _mo_message(entry, charset)
        except UnicodeError:
            report.problem(path, None, f"an entry is not {charset}, as the header says")
        else:
            yield from pairs_of(message, path, language, turned, report)


def _mo_catalogue(data: bytes) -> MOFile:
    """The catalogue with every byte as one character: it says only inside how it is encoded."""
    try:
        import polib
    except ImportError as error:
        raise MissingPackageError("reading MO files needs the package polib: pip install polib") from error
    # The types of polib know only paths, but bytes serve as well.
    catalogue: MOFile = polib.mofile(data, encoding="latin-1")  # type: ignore[call-overload]
    order = _mo_order(catalogue)
    count, *tables = struct.unpack_from(order + "3I", data, 8)
    for table in tables:
        for length, start in struct.iter_unpack(order + "2I", data[table : table + 8 * count]):
            if start + length > len(data):
                raise ValueError("it ends too early")
    return catalogue


def _mo_order(catalogue: MOFile) -> str:
    return "<" if catalogue.magic_number == catalogue.MAGIC else ">"


def _mo_unread(catalogue: MOFile, data: bytes) -> int:
    """Messages with the likes of `%<PRIu64>`: they are compiled in pieces, and polib passes over them."""
    is_minor_revision = catalogue.version & 0xFFFF
    return int(struct.unpack_from(_mo_order(catalogue) + "I", data, 36)[0]) if is_minor_revision else 0


def _mo_charset(header: Mapping[str, str]) -> str:
    declared = re.search(r"charset=([\w.:-]+)", header.get("content-type", ""))
    charset = "utf-8" if declared is None or declared[1] == "CHARSET" else declared[1]
    "".encode(charset)
    return charset


def _mo_message(entry: MOEntry, charset: str) -> Message:
    def text(characters: str) -> str:
        return characters.encode("latin-1").decode(charset)

    plural = text(entry.msgid_plural) if entry.msgid_plural else None
    forms = [entry.msgstr] if plural is None else [form for _, form in sorted(entry.msgstr_plural.items())]
    metadata = {"context": text(entry.msgctxt)} if entry.msgctxt else {}
    return Message(text(entry.msgid), plural, [text(form) for form in forms], metadata)
