"""Compiled catalogues of gettext: tables of string offsets, then the strings."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nearmt.contracts import Pair
from nearmt.corpus.po import pairs_of
from nearmt.corpus.po_direction import SAMPLE, direction_of
from nearmt.corpus.po_entries import Message, header_fields
from nearmt.corpus.report import Report, Request
from nearmt.corpus.unpacking import open_bytes, read_up_to, reading
from nearmt.corpus.whole import UNITS_HELD

_MAGIC = 0x950412DE


def read_mo(path: Path, request: Request, report: Report) -> Iterator[Pair]:
    """Read the pairs of a compiled catalogue like `read_po`; it has no comments and occurrences."""
    most = UNITS_HELD * request.limits.unit_bytes
    with reading(path), open_bytes(path, request.limits) as file:
        data = read_up_to(file, most + 1)
    if len(data) > most:
        report.problem(path, None, f"a compiled catalogue of more than {most >> 20} MiB (see the setting max-unit)")
        return
    try:
        catalogue = _Catalogue.of(data)
        header = header_fields(catalogue.header)
        charset = _charset(header)
    except (ValueError, LookupError, struct.error) as error:
        report.problem(path, None, f"is not a compiled catalogue, or damaged ({error})")
        return
    direction = direction_of(path, header, catalogue.beginning(charset), request, report)
    if direction is None:
        return
    if catalogue.system_dependent:
        report.units += catalogue.system_dependent
        report.skipped["system-dependent"] += catalogue.system_dependent
    for number in range(catalogue.count):
        source, target = catalogue.strings(number)
        if not source:
            continue
        report.units += 1
        if len(source) + len(target) > request.limits.unit_bytes:
            report.problem(path, None, f"entry {number + 1}: {request.limits.too_large}")
            continue
        try:
            message = _message(source, target, charset)
        except UnicodeError:
            report.problem(path, None, f"entry {number + 1} is not {charset}, as the header says")
        else:
            yield from pairs_of(message, path, direction, request, report)


@dataclass(frozen=True)
class _Catalogue:
    """The bytes of a catalogue, with all offsets checked."""

    data: bytearray
    order: str
    count: int
    #: Offsets of the tables of originals and translations.
    tables: tuple[int, int]
    #: Number of messages with system-dependent parts like `%<PRIu64>`, which are skipped.
    system_dependent: int

    @classmethod
    def of(cls, data: bytearray) -> _Catalogue:
        orders = [order for order in "<>" if data[:4] == struct.pack(order + "I", _MAGIC)]
        if not orders:
            raise ValueError("its magic number is wrong")
        revision, count, *tables = struct.unpack_from(orders[0] + "4I", data, 4)
        if revision >> 16 > 1 or revision & 0xFFFF > 1:
            raise ValueError("its revision is unknown")
        if any(table + 8 * count > len(data) for table in tables):
            raise ValueError("it ends too early")
        system_dependent = struct.unpack_from(orders[0] + "I", data, 36)[0] if revision & 0xFFFF else 0
        catalogue = cls(data, orders[0], count, (tables[0], tables[1]), system_dependent)
        catalogue._check_offsets()
        return catalogue

    def _check_offsets(self) -> None:
        """Check that strings are inside the file and do not overlap, so that a small file cannot expand."""
        total = 0
        for table in self.tables:
            for length, start in struct.iter_unpack(self.order + "2I", self.data[table : table + 8 * self.count]):
                total += length
                if start + length > len(self.data):
                    raise ValueError("it ends too early")
        # Tools may store an original and an equal translation once.
        if total > 2 * len(self.data):
            raise ValueError("its strings overlap")

    def strings(self, number: int) -> tuple[bytes, bytes]:
        """Return the original of a message and its translation."""
        original, translation = (self._string(table + 8 * number) for table in self.tables)
        return original, translation

    def beginning(self, charset: str) -> list[Message]:
        """The first messages that can be read."""
        messages: list[Message] = []
        for number in range(min(self.count, SAMPLE)):
            source, target = self.strings(number)
            with suppress(UnicodeError):
                messages += [_message(source, target, charset)] if source and target else []
        return messages

    def _string(self, offset: int) -> bytes:
        length, start = struct.unpack_from(self.order + "2I", self.data, offset)
        return bytes(self.data[start : start + length])

    @property
    def header(self) -> str:
        """The translation of the empty message, which is the first, since messages are sorted."""
        found = (target for source, target in map(self.strings, range(self.count)) if not source)
        return next(found, b"").decode("latin-1")


def _charset(header: Mapping[str, str]) -> str:
    declared = re.search(r"charset=([\w.:-]+)", header.get("content-type", ""))
    charset = "utf-8" if declared is None or declared[1] == "CHARSET" else declared[1]
    "".encode(charset)
    return charset


def _message(source: bytes, target: bytes, charset: str) -> Message:
    """Parse `context EOT msgid NUL plural`, and the translations separated by NUL."""
    context, has_context, text = source.decode(charset).rpartition("\x04")
    singular, has_plural, plural = text.partition("\0")
    forms = target.decode(charset).split("\0") if has_plural else [target.decode(charset)]
    return Message(singular, plural if has_plural else None, forms, {"context": context} if has_context else {})
