"""Workbooks as packages of XML files: what is in them, and how one with other sheets is written."""

from __future__ import annotations

import codecs
import copy
import posixpath
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO

from nearmt.corpus.limits import LimitsConfig
from nearmt.corpus.report import Report
from nearmt.corpus.unpacking import check_ratio, open_bytes, reading
from nearmt.corpus.xml import UnitScanner
from nearmt.corpus.xml_nodes import Fragment, Node
from nearmt.errors import InputError

#: Between the texts of sheets; XML cannot have it.
SEPARATOR = "\0"
_CHUNK = 1 << 18
_DAMAGED = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, NotImplementedError, RuntimeError)


class Package:
    """An open workbook; its members are read as XML in UTF-8."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, limits: LimitsConfig) -> None:
        self.path, self.archive, self.limits = path, archive, limits
        self._names = frozenset(archive.namelist())

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def content(self, name: str) -> Iterator[bytes]:
        try:
            with self.archive.open(name) as member:
                while chunk := member.read(_CHUNK):
                    yield chunk
        except (*_DAMAGED, OSError, KeyError) as error:
            raise InputError(f"{self.path}: damaged workbook: {name} cannot be read ({error})") from error

    def scan(self, name: str, units: str, report: Report | None = None) -> Iterator[Fragment]:
        """Scan a member for elements; without a report, broken ones are errors."""
        report = report or Report(strict=True)
        scanner = UnitScanner(self.path / name, report, frozenset({units}), frozenset(), self.limits)
        return scanner.scan(self._text(name))

    def nodes(self, name: str, units: str) -> Iterator[Node]:
        """Yield the elements of a member; none if it is not there."""
        if name in self:
            yield from (fragment.node for fragment in self.scan(name, units) if fragment.node is not None)

    def _text(self, name: str) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        for chunk in chain(self.content(name), [b""]):
            text = decoder.decode(chunk, final=not chunk)
            if SEPARATOR in text:
                raise InputError(f"{self.path}: {name} is not XML in UTF-8; save the workbook again")
            yield text

    def related(self, name: str, kind: str) -> dict[str, str]:
        """Return members that a member refers to, by the id of the relationship, whose type ends in `kind`."""
        folder, base = posixpath.split(name)
        found = {}
        for node in self.nodes(posixpath.join(folder, "_rels", f"{base}.rels"), "Relationship"):
            attributes = node.attributes
            is_kind = attributes.get("Type", "").rpartition("/")[2] == kind
            if is_kind and attributes.get("TargetMode") != "External":
                target = posixpath.normpath(posixpath.join("/", folder, attributes.get("Target", "")))
                found[attributes.get("Id", "")] = target.lstrip("/")
        return found


@contextmanager
def open_package(path: Path, limits: LimitsConfig) -> Iterator[Package]:
    """Open a workbook, which may be compressed as a whole."""
    with _seekable(path, limits) as file:
        try:
            archive = zipfile.ZipFile(file)
        except (*_DAMAGED, OSError) as error:
            reason = "is no workbook (.xlsx), or is damaged or encrypted; save it anew without a password"
            raise InputError(f"{path}: {reason}") from error
        with archive:
            members = archive.infolist()
            if any(member.flag_bits & 1 for member in members):
                raise InputError(f"{path}: is encrypted; save it without a password")
            if len({member.filename for member in members}) < len(members):
                raise InputError(f"{path}: damaged workbook: it has two files of one name")
            size = file.seek(0, 2)
            check_ratio(path, sum(member.file_size for member in members), size, limits)
            yield Package(path, archive, limits)


@contextmanager
def _seekable(path: Path, limits: LimitsConfig) -> Iterator[IO[bytes]]:
    with ExitStack() as opened:
        with reading(path):
            file = opened.enter_context(open_bytes(path, limits))
            if not file.seekable():
                packed, file = file, opened.enter_context(tempfile.TemporaryFile())
                shutil.copyfileobj(packed, file)
                file.seek(0)
        yield file


@dataclass(frozen=True)
class Workbook:
    """The container of a workbook: the texts of some of its members make a document."""

    path: Path
    limits: LimitsConfig
    members: tuple[str, ...]

    def pack(self, text: IO[bytes], out: IO[bytes]) -> None:
        """Write the workbook with the given texts of its members, and everything else as it was."""
        texts = dict(zip(self.members, text.read().split(SEPARATOR.encode()), strict=True))
        with open_package(self.path, self.limits) as package:
            changed = {name: new for name, new in texts.items() if new != b"".join(package.content(name))}
            if not changed:
                file = package.archive.fp
                assert file is not None
                file.seek(0)
                shutil.copyfileobj(file, out)
                return
            with tempfile.TemporaryFile() as packed:  # the output may not be seekable
                _write(package, changed, packed)
                packed.seek(0)
                shutil.copyfileobj(packed, out)


def _write(package: Package, changed: dict[str, bytes], out: IO[bytes]) -> None:
    with zipfile.ZipFile(out, "w") as new:
        new.comment = package.archive.comment
        for member in package.archive.infolist():
            entry = copy.copy(member)
            entry.extra = b""  # has offsets and sizes, among others
            content = [changed[member.filename]] if member.filename in changed else package.content(member.filename)
            entry.file_size = len(changed.get(member.filename, b"")) or member.file_size
            with new.open(entry, "w") as written:
                for chunk in content:
                    written.write(chunk)
