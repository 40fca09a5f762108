"""The manifest: what a datastore is made of. Written last, so a store without one is unfinished."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from nearmt.datastore.disk.file_names import check_names, is_ours
from nearmt.datastore.disk.files import digest, json_text, sha256, sync, write_json
from nearmt.datastore.disk.manifest_checks import check_manifest
from nearmt.datastore.disk.migrations import FORMAT, migrated
from nearmt.datastore.disk.recovery import recover
from nearmt.errors import DatastoreError, writing
from nearmt.opening import BUILDING, opened

FILE_NAME = "manifest.json"
#: Larger stores are checked for size at every opening and byte by byte only on request.
VERIFIED_AT_OPENING = 1 << 30


ALTERED = "altered (its checksum differs)"
#: What to do about damage.
REPAIR = "`nearmt verify --repair` salvages what is left"


def reduction_name(identity: str) -> str:
    return f"reduction-{identity}.safetensors"


def live_names(log: str | None) -> tuple[str, ...]:
    """The log, and the file of what was computed from it."""
    return () if log is None else (log, log.replace("log-", "live-").replace(".log", ".blocks"))


@dataclass(frozen=True)
class FileRecord:
    """A file as it was when it was sealed."""

    bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Self:
        return cls(path.stat().st_size, sha256(path))


@dataclass(frozen=True)
class Calibration:
    """How far neighbours are in this store, and how many of them its index finds."""

    #: Median squared distance of a sample of entries to their k nearest in other sentences.
    search_scale: float
    #: The same, not squared and on the cache columns.
    cache_scale: float
    queries: int
    k: int
    #: Weight of neighbours under which the store's own tokens are most likely, each sentence left out
    #: of its own search; None where nothing could be measured.
    likely_weight: float | None = None
    #: Familiarity that 19 of 20 of the store's own sources reach, each left out; None where not measured.
    familiar: float | None = None
    #: Share of the k nearest that the index finds; None for exact search.
    recall: float | None = None
    #: How many entries there were: when there are far more, distances are another matter.
    entries: int = 0


@dataclass(frozen=True)
class SegmentRecord:
    """A sealed part of the store."""

    name: str
    pairs: int
    entries: int
    #: Pairs that are longer than the model's positions: kept as text, without entries.
    too_long: int
    files: dict[str, FileRecord]
    #: How it is searched: exactly, or by a FAISS index that is described here; and how it was pruned, if it was.
    index: dict[str, Any] = field(default_factory=lambda: {"kind": "exact"})
    #: The file of the deleted pairs' numbers, how many these are and how many entries they have; None for none.
    deleted: dict[str, Any] | None = None

    @property
    def pruned(self) -> dict[str, Any] | None:
        """The file of weights, the kept entries and how they were chosen; None for a segment that is whole."""
        return self.index.get("pruned")

    @property
    def named_files(self) -> list[str]:
        """All files of its folder that the record speaks of."""
        described = [self.index, self.pruned or {}, self.deleted or {}]
        return [*self.files, *(part["file"] for part in described if "file" in part)]

    @property
    def kept(self) -> int:
        """Entries that can be found."""
        return int(self.pruned["kept"]) if self.pruned else self.entries


@dataclass(frozen=True)
class Manifest:
    """Everything that must fit for a datastore to be used."""

    model: str
    fingerprint: str
    source_lang: str
    target_lang: str
    key_layer: str
    precision: str
    columns: int
    cache_columns: int
    reduction: str
    reduction_file: FileRecord
    calibration: Calibration
    segments: tuple[SegmentRecord, ...]
    nearmt: str
    created: str
    format: int = FORMAT
    #: Signature of the cleaning that the pairs went through; empty if it is not known.
    cleaning: str = ""
    #: The log of what was added and deleted since; None before the first change.
    log: str | None = None

    @property
    def pairs(self) -> int:
        """Pairs in sealed segments, without the deleted ones."""
        return sum(segment.pairs - (segment.deleted or {"pairs": 0})["pairs"] for segment in self.segments)

    @property
    def entries(self) -> int:
        return sum(segment.entries for segment in self.segments)

    @property
    def kept(self) -> int:
        """Entries that can be found: all, unless the store is pruned."""
        return sum(segment.kept for segment in self.segments)

    @property
    def identity(self) -> str:
        """Changes whenever keys, tokens, pairs or the weights of a pruned store do; not when only the index does."""
        digest = hashlib.sha256(self.reduction.encode())
        for segment in self.segments:
            for name, file in sorted(segment.files.items()):
                if not name.startswith("index"):
                    digest.update(file.sha256.encode())
        return digest.hexdigest()[:12]

    @property
    def quantisers(self) -> set[str]:
        """Files of what indexes have in common; each is named after its content."""
        described = [segment.index.get("quantiser") for segment in self.segments]
        return {shared["file"] for shared in described if shared}

    @property
    def reduction_name(self) -> str:
        return reduction_name(self.reduction)

    def files(self) -> dict[str, FileRecord]:
        """Every file that the manifest vouches for by its checksum, by path within the store."""
        files = {self.reduction_name: self.reduction_file}
        for segment in self.segments:
            files |= {f"{segment.name}/{name}": record for name, record in segment.files.items()}
        return files

    def save(self, folder: Path) -> None:
        """Replace the manifest in one step, once everything new that it names is on disk.

        What only the old one knew is removed afterwards.
        """
        with writing(folder / FILE_NAME):
            self._sync_new_files(folder)
        write_json(folder / FILE_NAME, sealed(dataclasses.asdict(self)))
        with writing(folder):
            self._remove_strays(folder)

    def _sync_new_files(self, folder: Path) -> None:
        """Sync what the present manifest does not vouch for: nothing may be named before it is on disk."""
        try:
            known = Manifest.load(folder).files()
        except DatastoreError:
            known = {}
        new = [name for name, record in self.files().items() if known.get(name) != record]
        for name in new:
            sync(folder / name)
        for inner in {(folder / name).parent for name in new}:
            sync(inner)
        sync(folder)

    def _remove_strays(self, folder: Path) -> None:
        """Remove what nearmt wrote and no manifest names; links are removed, never followed."""
        named = {self.reduction_name, *self.quantisers, *live_names(self.log)}
        known = {record.name: record.files for record in self.segments}
        for path in filter(is_ours, folder.iterdir()):
            if path.is_symlink() or not path.is_dir():
                if path.name not in named:
                    path.unlink()
            elif path.name not in known:
                shutil.rmtree(path)
            else:
                for file in path.iterdir():
                    if file.name not in known[path.name]:
                        file.unlink()

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        path = folder / FILE_NAME
        recover(folder)
        if not folder.is_dir():
            raise DatastoreError(f"{folder}: no such datastore; make one with `nearmt build FILE --out {folder}`")
        try:
            with opened(path, "r") as file:
                raw = migrated(_unsealed(file.read()))
        except FileNotFoundError as error:
            raise DatastoreError(f"{folder}: {missing_manifest(folder)}") from error
        except OSError as error:
            raise DatastoreError(f"{path}: cannot be read ({error.strerror})") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DatastoreError(f"{path}: damaged ({type(error).__name__}: {error}); {REPAIR}") from error
        try:
            if raw["format"] != FORMAT:
                raise DatastoreError(
                    f"{folder}: has format {raw['format']}, this nearmt reads format {FORMAT}; "
                    "update nearmt or build the store again"
                )
            manifest = manifest_of(raw)
            check_manifest(manifest)
            check_names(manifest.log, manifest.reduction_name, manifest.quantisers, manifest.segments)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DatastoreError(f"{path}: damaged ({type(error).__name__}: {error}); {REPAIR}") from error
        return manifest

    def check_files(self, folder: Path, thorough: bool | None = None, only: Container[str] | None = None) -> None:
        """Refuse a store whose files (or `only` those of some names) are missing, cut short or altered."""
        files = {n: record for n, record in self.files().items() if only is None or n.rpartition("/")[2] in only}
        if thorough is None:
            thorough = sum(record.bytes for record in files.values()) <= VERIFIED_AT_OPENING
        for name, record in files.items():
            if reason := wrong_with(folder / name, record, thorough):
                raise DatastoreError(f"{folder / name}: {reason}; restore it or build the store again")
        for name in self.quantisers if only is None else ():
            if reason := wrong_with_named(folder / name):
                raise DatastoreError(f"{folder / name}: {reason}; restore it or build the store again")


def wrong_with(path: Path, record: FileRecord, thorough: bool = True) -> str | None:
    """What is wrong with a sealed file; byte by byte if `thorough`."""
    try:
        with opened(path) as file:
            if (size := os.fstat(file.fileno()).st_size) != record.bytes:
                return f"has {size} bytes instead of {record.bytes}"
            return ALTERED if thorough and digest(file) != record.sha256 else None
    except (OSError, DatastoreError) as error:
        return _absence(error)


def wrong_with_named(path: Path) -> str | None:
    """What is wrong with a file that is named after its content."""
    try:
        return None if sha256(path)[:12] in path.name else ALTERED
    except (OSError, DatastoreError) as error:
        return _absence(error)


def _absence(error: Exception) -> str:
    """Why a file cannot be read."""
    if isinstance(error, FileNotFoundError):
        return "missing"
    return "a link, or no ordinary file" if isinstance(error, DatastoreError) else f"cannot be read ({error})"


def missing_manifest(folder: Path) -> str:
    """What a folder without a manifest is, and what to do."""
    ours = {path.name for path in folder.iterdir() if is_ours(path)}
    if ours:
        return f"a damaged datastore (no {FILE_NAME}); {REPAIR}"
    if (folder / BUILDING).is_dir():
        return "an unfinished build; the same `nearmt build` goes on with it"
    return f"not a datastore (no {FILE_NAME}); make one with `nearmt build FILE --out DIR`"


def sealed(raw: dict[str, Any]) -> dict[str, Any]:
    """A manifest with the checksum of its text."""
    return {**raw, "checksum": hashlib.sha256(json_text(raw).encode()).hexdigest()}


def _unsealed(text: str) -> dict[str, Any]:
    """The manifest in a text, refused if a single character is another than it was; format 1 had no checksum."""
    raw: dict[str, Any] = json.loads(text)
    if raw["format"] not in range(1 if "checksum" in raw else 2, FORMAT + 1):
        return raw
    bare = {name: value for name, value in raw.items() if name != "checksum"}
    if json_text(sealed(bare)) != text:
        raise ValueError("its checksum differs")
    return bare


def manifest_of(raw: dict[str, Any]) -> Manifest:
    """What a manifest of today's format says, true or not."""
    segments = tuple(
        SegmentRecord(**{**part, "files": {name: FileRecord(**file) for name, file in part["files"].items()}})
        for part in raw["segments"]
    )
    parts = {
        "reduction_file": FileRecord(**raw["reduction_file"]),
        "calibration": Calibration(**raw["calibration"]),
        "segments": segments,
    }
    return Manifest(**{name: value for name, value in {**raw, **parts}.items() if name != "checksum"})
