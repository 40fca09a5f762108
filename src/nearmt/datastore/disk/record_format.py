"""The binary format of a file of records: a header, and frames with checksums.

header   magic, format (u32), crc32 (u32)
record   magic, length (u32), synced (u64), crc32 (u32) of length, synced and payload; payload

`synced` is the length of the file that was known to be on disk when the record was written, 0 in files
that are never synced: all records before it were acknowledged.

Format 2 (the log) adds a commit: an append is written and synced with zeros in place of its first magic, and the
magic is written last. So a torn tail has no complete magic, and a bad record with a complete magic was altered after
it was acknowledged. Files of format 1 (live blocks, logs of nearmt 0.4) have no commit: there a bad record is a torn
tail unless a valid record follows it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from nearmt.datastore.disk.file_system import File
from nearmt.errors import DamagedError, DatastoreError

#: Formats without and with a commit.
PLAIN, COMMITTED = 1, 2
LONGEST = (1 << 32) - 1
#: They begin with bytes that no UTF-8 text contains, so scanning for records never finds one inside a pair.
_FILE_MAGIC, MAGIC = b"\xffnmt", b"\xfenmr"
_HEADER = struct.Struct("<4sII")
_FRAME = struct.Struct("<4sIQI")
#: The fields of a frame that its checksum covers, besides the payload.
_COVERED = struct.Struct("<IQ")
_BLOCK = 1 << 16


@dataclass(frozen=True)
class Record:
    """A valid record, and its position in the file."""

    payload: bytes
    synced: int
    begin: int
    end: int


def header(version: int = COMMITTED) -> bytes:
    start = _FILE_MAGIC + struct.pack("<I", version)
    return start + struct.pack("<I", crc32(start))


def frame(payload: bytes, synced: int) -> bytes:
    checksum = crc32(payload, crc32(_COVERED.pack(len(payload), synced)))
    return _FRAME.pack(MAGIC, len(payload), synced, checksum) + payload


def first(file: File, path: Path, size: int, durable: bool) -> int:
    """Offset of the first record; 0 if the file has no header yet."""
    if version_of(file, path):
        return _HEADER.size
    if durable and size > _HEADER.size:
        raise _damaged(path, 0)
    return 0


def version_of(file: File, path: Path) -> int | None:
    """The format in a valid header, None if there is no header; an unknown format is refused."""
    head = file.read(0, _HEADER.size)
    if len(head) < _HEADER.size:
        return None
    magic, version, checksum = _HEADER.unpack(head)
    if magic != _FILE_MAGIC or checksum != crc32(head[:-4]):
        return None
    if version not in (PLAIN, COMMITTED):
        raise DatastoreError(f"{path}: has format {version}, this nearmt reads format {COMMITTED}; update nearmt")
    return int(version)


def walk(file: File, path: Path, start: int, size: int, durable: bool) -> Iterator[Record]:
    """Yield records up to the end or a torn tail; damage to a durable file is an error."""
    end = start
    while end and (record := _record_at(file, end, size)):
        if record.synced > end:  # bytes before it are missing
            raise _damaged(path, end)
        yield record
        end = record.end
    if end == size or not end:
        return
    if durable and version_of(file, path) == COMMITTED and not _uncommitted(file.read(end, len(MAGIC))):
        raise _damaged(path, end)
    whole = durable and version_of(file, path) == PLAIN
    if any(whole or later.synced > end for later in found(file, end, size)):
        raise _damaged(path, end)


def _uncommitted(head: bytes) -> bool:
    """Whether a tail begins with a magic that was not, or not completely, written."""
    if len(head) < len(MAGIC):
        return not any(head)
    return head != MAGIC and all(byte in (0, right) for byte, right in zip(head, MAGIC, strict=True))


def found(file: File, start: int, size: int) -> Iterator[Record]:
    """Scan for valid records at or behind `start`."""
    offset: int | None = start
    while offset is not None:
        if record := _record_at(file, offset, size):
            yield record
            offset = record.end
        else:
            offset = _next_magic(file, offset + 1)


def _record_at(file: File, offset: int, size: int) -> Record | None:
    frame = file.read(offset, _FRAME.size)
    if len(frame) < _FRAME.size:
        return None
    magic, length, synced, checksum = _FRAME.unpack(frame)
    begin = offset + _FRAME.size
    if magic != MAGIC or begin + length > size:
        return None
    payload = file.read(begin, length)
    if len(payload) < length or crc32(payload, crc32(_COVERED.pack(length, synced))) != checksum:
        return None
    return Record(payload, synced, offset, begin + length)


def _next_magic(file: File, offset: int) -> int | None:
    while block := file.read(offset, _BLOCK):
        if (at := block.find(MAGIC)) >= 0:
            return offset + at
        if len(block) < _BLOCK:
            break
        offset += _BLOCK - len(MAGIC) + 1
    return None


def _damaged(path: Path, offset: int) -> DamagedError:
    return DamagedError(f"{path}: damaged at byte {offset}; `nearmt verify --repair` salvages what is left")
