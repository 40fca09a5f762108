"""Verifying every byte of a store. Needs no model and loads no tensors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nearmt.contracts import Pair
from nearmt.datastore.disk.file_checks import damage_of, damage_of_named
from nearmt.datastore.disk.file_names import is_ours
from nearmt.datastore.disk.files import LOCK
from nearmt.datastore.disk.live_segment import Block, check_logged, mark_of, readable_blocks
from nearmt.datastore.disk.log import Added, Replay, read_log, read_named_log
from nearmt.datastore.disk.manifest import (
    FILE_NAME,
    Manifest,
    live_names,
    missing_manifest,
)
from nearmt.datastore.disk.records import read_records
from nearmt.datastore.disk.recovery import recover
from nearmt.datastore.disk.segment_checks import segment_damage
from nearmt.errors import DatastoreError
from nearmt.opening import ADAPTING, BUILDING, REPAIRING, exists_inside

#: Verdicts: undamaged; damaged; a log with an incomplete last operation; computed again when it is needed; without a
#: recorded checksum; no longer part of the store; not part of the store; keys that a server does not have, or does not
#: show.
SOUND, DAMAGED, TORN, RECOMPUTED, UNKNOWN = "sound", "damaged", "torn", "recomputed", "unknown"
REPLACED, STRAY, LOST = "replaced", "stray", "lost"
#: Attempts to verify a store whose manifest another process replaces meanwhile.
_ATTEMPTS = 5
_UNFINISHED = {
    BUILDING: "a build that did not finish; the same `nearmt build` goes on with it",
    ADAPTING: "an adapter whose training did not finish; `nearmt adapt --resume` goes on with it",
    REPAIRING: "a repair that did not finish; it can be deleted",
}


@dataclass(frozen=True)
class Finding:
    """The verdict on one file of a store."""

    file: str
    verdict: str
    detail: str = ""

    @property
    def damaged(self) -> bool:
        return self.verdict == DAMAGED


def verify(folder: Path) -> list[Finding]:
    """A verdict on every file in the folder of a store, and on missing files."""
    check_is_store(folder)
    for left in reversed(range(_ATTEMPTS)):
        before = _manifest_of(folder)
        try:
            found = _verified(folder)
        except OSError as error:  # files were removed meanwhile, or the disk cannot be read
            if not left or before == _manifest_of(folder):
                raise DatastoreError(f"{folder}: cannot be read ({error})") from error
            continue
        if before == _manifest_of(folder):
            break
    return found


def _manifest_of(folder: Path) -> bytes | None:
    path = folder / FILE_NAME
    return path.read_bytes() if path.is_file() else None


def check_is_store(folder: Path) -> None:
    """Refuse a folder without any file of a store."""
    recover(folder)
    if not folder.is_dir():
        raise DatastoreError(f"{folder}: no such datastore; make one with `nearmt build FILE --out {folder}`")
    if not (folder / FILE_NAME).exists() and not any(map(is_ours, folder.iterdir())):
        raise DatastoreError(f"{folder}: {missing_manifest(folder)}")


def _verified(folder: Path) -> list[Finding]:
    try:
        manifest = Manifest.load(folder)
    except DatastoreError as error:
        return [Finding(FILE_NAME, DAMAGED, _reason(error, folder / FILE_NAME)), *_unvouched(folder)]
    found = [Finding(FILE_NAME, SOUND)]
    found += [_sealed(name, damage_of(folder / name, record)) for name, record in manifest.files().items()]
    wrong = segment_damage(folder, manifest, {finding.file for finding in found if finding.damaged})
    found = [Finding(old.file, DAMAGED, wrong[old.file]) if old.file in wrong else old for old in found]
    found += [_sealed(name, damage_of_named(folder / name)) for name in sorted(manifest.quantisers)]
    found += _log_and_live(folder, manifest)
    found += _rows(folder, manifest)
    known = {finding.file for finding in found} | {LOCK}
    return found + [_unnamed(name, manifest) for name in _names(folder) if name not in known]


def _rows(folder: Path, manifest: Manifest) -> Iterator[Finding]:
    """Verdicts on what segments have on a server, where they have something there and are whole."""
    remote = [record for record in manifest.segments if record.index["kind"] == "milvus"]
    if not remote:
        return
    from nearmt.datastore.search.remote import remote_problems

    wrong = dict(remote_problems(folder, manifest))
    for record in remote:
        name = f"{record.name} in {record.index['factory'].partition('?')[0]}"
        yield Finding(name, LOST, wrong[record.name]) if record.name in wrong else Finding(name, SOUND)


def _sealed(name: str, reason: str | None) -> Finding:
    return Finding(name, DAMAGED, reason) if reason else Finding(name, SOUND)


def _log_and_live(folder: Path, manifest: Manifest) -> Iterator[Finding]:
    if manifest.log is None:
        return
    log, live = live_names(manifest.log)
    blocks, computed = _blocks(folder / live, manifest.columns)
    finding, added = _log(folder, log, read_named_log)
    if not finding.damaged:
        try:
            check_logged(blocks, 0, added, folder / log)
        except DatastoreError as error:
            finding = Finding(log, DAMAGED, _reason(error, folder / log))
    yield finding
    if computed:
        fit = sum(len(block.tokens) for block in blocks) <= len(added) and all(map(_made_of(added), blocks))
        yield computed if fit else Finding(live, RECOMPUTED, "does not fit the log")


def _made_of(added: list[Pair]) -> Callable[[Block], bool]:
    """Whether a block was computed from these pairs."""
    return lambda block: block.made_of == mark_of(added[block.first : block.first + len(block.tokens)])


def _log(folder: Path, name: str, read: Callable[[Path], Replay] = read_log) -> tuple[Finding, list[Pair]]:
    """The verdict on a log, and the pairs that it adds."""
    try:
        replay = read(folder / name)
    except DatastoreError as error:
        return Finding(name, DAMAGED, _reason(error, folder / name)), []
    added = [operation.pair for operation in replay.operations if isinstance(operation, Added)]
    if replay.torn:
        return Finding(name, TORN, f"its last {replay.torn} bytes are no complete operation"), added
    return Finding(name, SOUND), added


def _blocks(path: Path, columns: int) -> tuple[list[Block], Finding | None]:
    """The blocks of a file and the verdict on it; None if the file does not exist."""
    try:
        if not exists_inside(path):
            return [], None
        records = read_records(path)
    except DatastoreError as error:
        return [], Finding(path.name, RECOMPUTED, _reason(error, path))
    blocks = readable_blocks(records.payloads, columns)
    if len(blocks) < len(records.payloads):
        return blocks, Finding(path.name, RECOMPUTED, "has a block that cannot be read")
    if records.torn:
        return blocks, Finding(path.name, RECOMPUTED, f"its last {records.torn} bytes are no complete block")
    return blocks, Finding(path.name, SOUND)


def _unvouched(folder: Path) -> Iterator[Finding]:
    """Verdicts without a manifest: only logs can be checked."""
    for name in _names(folder):
        if name.startswith("log-"):
            yield _log(folder, name)[0]
        elif name not in (FILE_NAME, LOCK):
            yield Finding(name, UNKNOWN, f"cannot be checked without {FILE_NAME}")


def _names(folder: Path) -> list[str]:
    """All files in a store's folder, and the folder of an unfinished build or repair."""
    names = []
    # Unlike glob, `walk` tolerates folders that a writer removes meanwhile.
    for inner, folders, files in os.walk(folder):
        links = [name for name in folders if (Path(inner) / name).is_symlink()]
        names += [(Path(inner) / name).relative_to(folder) for name in [*files, *links]]
    return sorted({name.parts[0] if name.parts[0] in _UNFINISHED else name.as_posix() for name in names})


def _unnamed(name: str, manifest: Manifest) -> Finding:
    """The verdict on a file that is not part of the content."""
    if {name, name.partition("/")[0]} & manifest.replaced.keys():
        return Finding(name, REPLACED, "kept for readers on other machines, and removed by a later change")
    return Finding(name, STRAY, _UNFINISHED.get(name, "belongs to nothing"))


def _reason(error: Exception, path: Path) -> str:
    """The message of an error without the file's name and the advice."""
    _, named, rest = str(error).partition(f"{path.name}: ")
    return (rest if named else str(error).partition(": ")[2] or str(error)).partition(";")[0]
