"""Looking at every byte of a store. Needs no model and loads no tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nearmt.contracts import Pair
from nearmt.datastore.files import sha256
from nearmt.datastore.live import Block, mark_of
from nearmt.datastore.log import Added, Replay, read_log, read_named_log
from nearmt.datastore.manifest import FILE_NAME, FileRecord, Manifest, live_names
from nearmt.datastore.records import read_records
from nearmt.datastore.wrong_numbers import wrong_numbers
from nearmt.errors import DatastoreError

LOCK = ".lock"
#: A file is as it was; it is not; a log whose last operation did not arrive; what is computed again when it is needed;
#: what nothing vouches for; what does not belong to the store.
SOUND, DAMAGED, TORN, RECOMPUTED, UNKNOWN, STRAY = "sound", "damaged", "torn", "recomputed", "unknown", "stray"
#: A writer may replace the manifest while somebody looks: then all is looked at anew, so many times at most.
_TRIES = 5


@dataclass(frozen=True)
class Finding:
    """One file of a store, and what is to be said about it."""

    file: str
    verdict: str
    detail: str = ""

    @property
    def damaged(self) -> bool:
        return self.verdict == DAMAGED


def verify(folder: Path) -> list[Finding]:
    """A verdict for every file in the folder of a store, and for those that should be there and are not."""
    path = folder / FILE_NAME
    if not folder.is_dir():
        raise DatastoreError(f"{folder}: no such datastore; make one with `nearmt build FILE --out {folder}`")
    found: list[Finding] = []
    for _ in range(_TRIES):
        before = path.read_bytes() if path.is_file() else None
        found = _verified(folder)
        if before == (path.read_bytes() if path.is_file() else None):
            break
    return found


def _verified(folder: Path) -> list[Finding]:
    try:
        manifest = Manifest.load(folder)
    except DatastoreError as error:
        return [Finding(FILE_NAME, DAMAGED, _reason(error, folder / FILE_NAME)), *_unvouched(folder)]
    found = [Finding(FILE_NAME, SOUND)]
    found += [_sealed(folder, name, record) for name, record in sealed_files(manifest).items()]
    wrong = wrong_numbers(folder, manifest, {finding.file for finding in found if finding.damaged})
    found = [Finding(old.file, DAMAGED, wrong[old.file]) if old.file in wrong else old for old in found]
    found += [_named_after_content(folder, name) for name in sorted(manifest.quantisers)]
    found += _log_and_live(folder, manifest)
    known = {finding.file for finding in found} | {LOCK}
    return found + [Finding(name, STRAY, "belongs to nothing") for name in _names(folder) if name not in known]


def sealed_files(manifest: Manifest) -> dict[str, FileRecord]:
    """What the manifest vouches for, by path within the store."""
    files = {manifest.reduction_name: manifest.reduction_file}
    for segment in manifest.segments:
        files |= {f"{segment.name}/{name}": record for name, record in segment.files.items()}
    return files


def _sealed(folder: Path, name: str, record: FileRecord) -> Finding:
    path = folder / name
    if not path.is_file():
        return Finding(name, DAMAGED, "missing")
    if (size := path.stat().st_size) != record.bytes:
        return Finding(name, DAMAGED, f"has {size} bytes instead of {record.bytes}")
    return Finding(name, SOUND) if sha256(path) == record.sha256 else Finding(name, DAMAGED, "its checksum differs")


def _named_after_content(folder: Path, name: str) -> Finding:
    if not (folder / name).is_file():
        return Finding(name, DAMAGED, "missing")
    if sha256(folder / name)[:12] not in name:
        return Finding(name, DAMAGED, "its checksum differs")
    return Finding(name, SOUND)


def _log_and_live(folder: Path, manifest: Manifest) -> Iterator[Finding]:
    if manifest.log is None:
        return
    log, live = live_names(manifest.log)
    finding, added = _log(folder, log, read_named_log)
    computed = None
    if (folder / live).is_file():
        computed, encoded = _live(folder, live, added, manifest.columns)
        if encoded > len(added) and not finding.damaged:
            # Nothing is computed from an operation that is not on disk.
            finding = Finding(log, DAMAGED, f"holds {len(added)} additions, {encoded} were computed from it")
        if encoded > len(added):
            computed = Finding(live, RECOMPUTED, "does not fit the log")
    yield finding
    if computed:
        yield computed


def _log(folder: Path, name: str, read: Callable[[Path], Replay] = read_log) -> tuple[Finding, list[Pair]]:
    """What is to be said about a log, and which pairs it adds."""
    try:
        replay = read(folder / name)
    except DatastoreError as error:
        return Finding(name, DAMAGED, _reason(error, folder / name)), []
    added = [operation.pair for operation in replay.operations if isinstance(operation, Added)]
    if replay.torn:
        return Finding(name, TORN, f"its last {replay.torn} bytes are no complete operation"), added
    return Finding(name, SOUND), added


def _live(folder: Path, name: str, added: list[Pair], columns: int) -> tuple[Finding, int]:
    """What is to be said about blocks, and how many pairs they have."""
    encoded = 0
    try:
        records = read_records(folder / name)
        for payload in records.payloads:
            block = Block.from_bytes(payload, columns)
            if block is None:
                return Finding(name, RECOMPUTED, "has a block that cannot be read"), encoded
            pairs = added[block.first : block.first + len(block.tokens)]
            if block.first != encoded or (len(pairs) == len(block.tokens) and block.made_of != mark_of(pairs)):
                return Finding(name, RECOMPUTED, "does not fit the log"), encoded
            encoded += len(block.tokens)
    except (DatastoreError, ValueError, KeyError) as error:
        return Finding(name, RECOMPUTED, _reason(error, folder / name)), encoded
    if records.torn:
        return Finding(name, RECOMPUTED, f"its last {records.torn} bytes are no complete block"), encoded
    return Finding(name, SOUND), encoded


def _unvouched(folder: Path) -> Iterator[Finding]:
    """Without a manifest only logs can be checked."""
    for name in _names(folder):
        if name.startswith("log-"):
            yield _log(folder, name)[0]
        elif name not in (FILE_NAME, LOCK):
            yield Finding(name, UNKNOWN, f"nothing vouches for it without {FILE_NAME}")


def _names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def _reason(error: Exception, path: Path) -> str:
    """What an error says about a file, without its name and the advice."""
    return str(error).removeprefix(f"{path}: ").removeprefix(f"{path.parent}: ").partition(";")[0]
