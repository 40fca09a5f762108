"""The log of a datastore: additions and deletions since its segments were sealed, in order.

Needs no model. Operations are on disk when `Log.append` returns.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from nearmt.contracts import Pair
from nearmt.datastore.disk.file_names import log_name, next_number
from nearmt.datastore.disk.file_system import DISK, Disk
from nearmt.datastore.disk.pairs import pair_from_json, pair_to_json
from nearmt.datastore.disk.records import RecordWriter, read_records, salvage
from nearmt.errors import DamagedError, DatastoreError, InputError, NearmtWarning


@dataclass(frozen=True)
class Added:
    """A pair was added, or replaced the pair with its id."""

    pair: Pair


@dataclass(frozen=True)
class Deleted:
    """Pairs were deleted."""

    ids: tuple[str, ...]


Operation = Added | Deleted


def ids_of(operation: Operation) -> tuple[str, ...]:
    """The ids of the pairs that an operation adds or deletes."""
    return operation.ids if isinstance(operation, Deleted) else (operation.pair.id,)


class Replay(NamedTuple):
    """The operations of a log, the byte where reading can continue, and the bytes of an incomplete record behind it."""

    operations: list[Operation]
    end: int
    torn: int


class Log:
    """Appends operations. One writer at a time; opening truncates a torn tail."""

    def __init__(self, path: Path, disk: Disk = DISK) -> None:
        self._writer = RecordWriter(path, durable=True, disk=disk)
        if self.cut:
            # It was never acknowledged; the warning explains a change that is missing.
            told = f"{path}: the last record was not complete; {self.cut} bytes were cut off"
            warnings.warn(told, NearmtWarning, stacklevel=2)

    @property
    def path(self) -> Path:
        return self._writer.path

    @property
    def end(self) -> int:
        """Length of the acknowledged part of the log."""
        return self._writer.end

    @property
    def cut(self) -> int:
        """Bytes of a torn tail that were truncated at opening."""
        return self._writer.cut

    def append(self, operations: Sequence[Operation]) -> int:
        """Write operations with one sync for all, and return the new end of the log."""
        return self._writer.append([_encoded(operation) for operation in operations])

    def close(self) -> None:
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def begin_log(folder: Path, pairs: Iterable[Pair] = ()) -> str:
    """Write a new log that begins with these pairs, and return its name; it takes effect once a manifest names it."""
    name = log_name(next_number(folder, "log"))
    with Log(folder / name) as log:
        log.append([Added(pair) for pair in pairs])
    return name


def read_log(path: Path, start: int = 0, disk: Disk = DISK) -> Replay:
    """Read the operations from byte `start` on: 0, or the `end` of an earlier reading."""
    try:
        records = read_records(path, start, durable=True, disk=disk)
    except DamagedError as error:
        raise DamagedError(_with_lost(str(error), salvage_log(path, disk).lost)) from error
    return Replay([_decoded(payload, path) for payload in records.payloads], records.end, records.torn)


def _with_lost(damage: str, lost: list[str]) -> str:
    """Insert the lost pairs into an error message about damage."""
    what, _, advice = damage.partition("; ")
    more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
    named = f" (lost: {', '.join(lost[:3])}{more})" if lost else ""
    return f"{what}{named}; {advice}"


def read_named_log(path: Path, start: int = 0) -> Replay:
    """Read a log that a manifest names. Its header was on disk before the manifest, so an empty log is an error."""
    replay = read_log(path, start)
    if not replay.end:
        raise DatastoreError(f"{path}: its beginning is missing; `nearmt verify --repair` salvages what is left")
    return replay


@dataclass(frozen=True)
class Salvage:
    """The readable content of a damaged log."""

    #: Intact operations, and deletions of the ids that are readable in damaged ones.
    operations: list[Operation]
    #: Pairs whose addition is unreadable: their ids, or the position of the operation.
    lost: list[str]


def salvage_log(path: Path, disk: Disk = DISK) -> Salvage:
    """Read a log, skipping damaged records."""
    operations: list[Operation] = []
    lost: list[str] = []
    for number, stretch in enumerate(salvage(path, disk), 1):
        if stretch.whole:
            operations.append(_decoded(stretch.data, path))
            continue
        added, deleted = _ids_in(_ADDITION, stretch.data), _ids_in(_DELETION, stretch.data)
        if deleted:  # a deleted pair must not reappear because its record is damaged
            operations.append(Deleted(tuple(deleted)))
        lost += added or ([] if deleted else [f"operation {number} of {path.name}"])
    return Salvage(operations, lost)


#: The beginning of an operation, with its ids.
_ADDITION = re.compile(rb'"op":"add","pair":\{"id":("(?:[^"\\]|\\.)*")')
_DELETION = re.compile(rb'"op":"delete","ids":\[((?:"(?:[^"\\]|\\.)*",?)+)')


def _ids_in(operation: re.Pattern[bytes], damaged: bytes) -> list[str]:
    """The ids that are readable in damaged operations."""
    found = []
    for match in operation.finditer(damaged):
        with suppress(ValueError):
            found += json.loads(b"[%s]" % match.group(1).rstrip(b","))
    return found


def _encoded(operation: Operation) -> bytes:
    raw: dict[str, Any]
    match operation:
        case Added(pair):
            _check(_texts(pair), f"pair {pair.id!a}")
            raw = {"op": "add", "pair": pair_to_json(pair)}
        case Deleted(ids):
            _check(ids, "an id to delete")
            raw = {"op": "delete", "ids": list(ids)}
    return json.dumps(raw, ensure_ascii=False, separators=(",", ":")).encode()


def _texts(pair: Pair) -> Iterable[object]:
    return (pair.id, pair.source, pair.target, pair.origin, *pair.metadata, *pair.metadata.values())


def _check(texts: Iterable[object], what: str) -> None:
    """Refuse what could not be read back, or not be stored in a segment or tokenised."""
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"{what}: has {text!a} where text belongs")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"{what}: has half a character ({text[error.start]!a}); mend the text") from error


def _decoded(payload: bytes, path: Path) -> Operation:
    """Decode an operation. One with a valid checksum and unknown content was written by a newer nearmt."""
    try:
        raw = json.loads(payload)
        if raw["op"] == "add":
            pair = pair_from_json(raw["pair"])
            _check(_texts(pair), "pair")
            return Added(pair)
        if raw["op"] == "delete" and isinstance(raw["ids"], list):
            _check(raw["ids"], "id")
            return Deleted(tuple(raw["ids"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, InputError) as error:
        raise _unknown(path) from error
    raise _unknown(path)


def _unknown(path: Path) -> DatastoreError:
    return DatastoreError(f"{path}: has an unknown operation; a newer nearmt wrote it: update this one")
