"""The manifest: the files a datastore consists of. It is written last, so a store without one is unfinished."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearmt.config.building import KEPT_SECONDS
from nearmt.datastore.disk.adapter_record import AdapterRecord
from nearmt.datastore.disk.file_checks import FileRecord, checking, damage_of_named, damaged_file
from nearmt.datastore.disk.file_names import check_names, check_replaced, is_ours
from nearmt.datastore.disk.files import json_text, sync, write_json
from nearmt.datastore.disk.manifest_checks import check_manifest
from nearmt.datastore.disk.migrations import FORMAT, migrated
from nearmt.datastore.disk.recovery import recover
from nearmt.datastore.disk.retention import mark, remove_unnamed, still_kept
from nearmt.errors import DatastoreError, writing
from nearmt.opening import BUILDING, opened

FILE_NAME = "manifest.json"
#: Up to this size checksums are compared at every opening; of larger stores only sizes, unless asked for.
VERIFIED_AT_OPENING = 1 << 30

#: The advice in errors about damage.
REPAIR = "`nearmt verify --repair` salvages what is left"


def reduction_name(identity: str) -> str:
    return f"reduction-{identity}.safetensors"


def live_names(log: str | None) -> tuple[str, ...]:
    """The names of a log and of the live blocks computed from it."""
    return () if log is None else (log, log.replace("log-", "live-").replace(".log", ".blocks"))


@dataclass(frozen=True)
class Calibration:
    """Typical distances of neighbours in a store, and the recall of its index."""

    #: Median squared distance of a sample of entries to their k nearest in other sentences.
    search_scale: float
    #: The same, not squared and on the cache columns.
    cache_scale: float
    queries: int
    k: int
    #: Lambda that maximises the likelihood of the store's own tokens, each sentence left out of its own
    #: search; None if not measured.
    likely_weight: float | None = None
    #: The strength of source agreement; None if not measured.
    agreement: float | None = None
    #: Familiarity that 19 of 20 of the store's own sources reach, each left out; None if not measured.
    familiar: float | None = None
    #: Share of the k nearest that the index finds; None for exact search.
    recall: float | None = None
    #: Entries at the time; when the store has grown much larger, it is calibrated again.
    entries: int = 0


@dataclass(frozen=True)
class SegmentRecord:
    """A sealed segment of the store."""

    name: str
    pairs: int
    entries: int
    #: Pairs that exceed the model's positions: stored as text, without entries.
    too_long: int
    files: dict[str, FileRecord]
    #: Its index (`kind` exact, or faiss or milvus with a description), and how it was pruned (`pruned`), if it was.
    index: dict[str, Any] = field(default_factory=lambda: {"kind": "exact"})
    #: Deleted pairs: the file of their numbers, their count and that of their entries; None if there are none.
    deleted: dict[str, Any] | None = None

    @property
    def pruned(self) -> dict[str, Any] | None:
        """The file of weights, the number of kept entries and the settings; None for a segment that is not pruned."""
        return self.index.get("pruned")

    @property
    def named_files(self) -> list[str]:
        """All files that the record names."""
        described = [self.index, self.pruned or {}, self.deleted or {}]
        return [*self.files, *(part["file"] for part in described if "file" in part)]

    @property
    def kept(self) -> int:
        """Entries that searches can find: all, unless the segment is pruned."""
        return int(self.pruned["kept"]) if self.pruned else self.entries


@dataclass(frozen=True)
class Manifest:
    """The model, settings, segments and log of a datastore."""

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
    #: Signature of the cleaning rules that were applied to the pairs; empty if unknown.
    cleaning: str = ""
    #: How protected spans are marked in tokens (`corpus.marks.KNOWN_MARKS`); empty: not at all.
    marks: str = ""
    #: The log of changes since; None before the first change.
    log: str | None = None
    #: Of a part of a corpus that is to be merged with the others (`edit.shards`), which part it is.
    shard: dict[str, Any] | None = None
    #: What is merged into the model that the keys are of; None for the model as it is.
    adapter: AdapterRecord | None = None
    #: Seconds for which replaced files stay, for readers on other machines.
    keep_replaced: int = KEPT_SECONDS
    #: Files, and folders of segments, that are replaced and not removed yet, and since when (Unix time).
    replaced: dict[str, float] = field(default_factory=dict)

    @property
    def pairs(self) -> int:
        """Pairs in sealed segments, without the deleted ones."""
        return sum(segment.pairs - (segment.deleted or {"pairs": 0})["pairs"] for segment in self.segments)

    @property
    def entries(self) -> int:
        return sum(segment.entries for segment in self.segments)

    @property
    def kept(self) -> int:
        """Entries that searches can find: all, unless the store is pruned."""
        return sum(segment.kept for segment in self.segments)

    @property
    def identity(self) -> str:
        """A hash of keys, tokens, pairs and pruning weights, but not of the index."""
        digest = hashlib.sha256(self.reduction.encode())
        for segment in self.segments:
            for name, file in sorted(segment.files.items()):
                if not name.startswith("index"):
                    digest.update(file.sha256.encode())
        return digest.hexdigest()[:12]

    @property
    def quantisers(self) -> set[str]:
        """Files of quantisers that indexes share; each is named after its content."""
        described = [segment.index.get("quantiser") for segment in self.segments]
        return {shared["file"] for shared in described if shared}

    @property
    def reduction_name(self) -> str:
        return reduction_name(self.reduction)

    @property
    def shared_names(self) -> set[str]:
        """Files that belong to all segments; each is named after its content."""
        adapter = set() if self.adapter_name is None else {self.adapter_name}
        return {self.reduction_name, *adapter, *self.quantisers}

    @property
    def adapter_name(self) -> str | None:
        return None if self.adapter is None else self.adapter.name

    def files(self) -> dict[str, FileRecord]:
        """All files whose checksums the manifest records, by path within the store."""
        files = {self.reduction_name: self.reduction_file}
        if self.adapter is not None:
            files[self.adapter.name] = self.adapter.file
        for segment in self.segments:
            files |= {f"{segment.name}/{name}": record for name, record in segment.files.items()}
        return files

    @property
    def names(self) -> set[str]:
        """Everything in the folder that belongs to the content: files, and segments with their files."""
        inner = {f"{segment.name}/{name}" for segment in self.segments for name in segment.files}
        segments = {segment.name for segment in self.segments}
        return {*self.shared_names, *live_names(self.log), *segments, *inner}

    def save(self, folder: Path) -> Manifest:
        """Replace the manifest atomically, after syncing the new files that it names; returns it as it is on disk.

        Files that only the old manifest named are kept for readers on other machines, and removed by a later change.
        """
        before = _present(folder)
        with writing(folder / FILE_NAME):
            self._sync_new_files(folder, {} if before is None else before.files())
        replaced: dict[str, float] = {}
        if before is not None:
            replaced = still_kept(before.replaced, before.names, self.names, self.keep_replaced)
        saved = dataclasses.replace(self, replaced=replaced)
        write_json(folder / FILE_NAME, sealed(dataclasses.asdict(saved)))
        with writing(folder):
            mark(folder, replaced)
            remove_unnamed(folder, self.names, replaced)
        return saved

    def _sync_new_files(self, folder: Path, known: Mapping[str, FileRecord]) -> None:
        """Sync the files that the present manifest does not name: none may be named before it is on disk."""
        new = [name for name, record in self.files().items() if known.get(name) != record]
        for name in new:
            sync(folder / name)
        for inner in {(folder / name).parent for name in new}:
            sync(inner)
        sync(folder)

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
            check_names(manifest)
            check_replaced(manifest.replaced)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DatastoreError(f"{path}: damaged ({type(error).__name__}: {error}); {REPAIR}") from error
        return manifest

    def check_files(self, folder: Path, thorough: bool | None = None, only: Container[str] | None = None) -> None:
        """Refuse a store with files (or `only` files of some names) that are missing, cut short or altered.

        `thorough`: whether to compare checksums; None: if the files are not too large.
        """
        with self.checking_files(folder, thorough, only):
            pass

    @contextmanager
    def checking_files(
        self, folder: Path, thorough: bool | None = None, only: Container[str] | None = None
    ) -> Iterator[None]:
        """The same, with checksums of large files computed while the block runs."""
        files = {n: record for n, record in self.files().items() if only is None or n.rpartition("/")[2] in only}
        if thorough is None:
            thorough = sum(record.bytes for record in files.values()) <= VERIFIED_AT_OPENING
        for name in self.quantisers if only is None else ():
            if reason := damage_of_named(folder / name):
                raise damaged_file(folder / name, reason)
        with checking({folder / name: record for name, record in files.items()}, thorough):
            yield


def _present(folder: Path) -> Manifest | None:
    """The manifest that a folder has now; None if there is none that can be read."""
    try:
        return Manifest.load(folder)
    except DatastoreError:
        return None


def missing_manifest(folder: Path) -> str:
    """The error for a folder without a manifest: what the folder is, and what to do."""
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
    """Parse a manifest and refuse it if its checksum differs; format 1 had no checksum."""
    raw: dict[str, Any] = json.loads(text)
    if raw["format"] not in range(1 if "checksum" in raw else 2, FORMAT + 1):
        return raw
    bare = {name: value for name, value in raw.items() if name != "checksum"}
    if json_text(sealed(bare)) != text:
        raise ValueError("its checksum differs")
    return bare


def manifest_of(raw: dict[str, Any]) -> Manifest:
    """Build a manifest of the present format from JSON, without validating its values."""
    segments = tuple(
        SegmentRecord(**{**part, "files": {name: FileRecord(**file) for name, file in part["files"].items()}})
        for part in raw["segments"]
    )
    adapter = raw.get("adapter")
    parts = {
        "adapter": adapter and AdapterRecord(**{**adapter, "file": FileRecord(**adapter["file"])}),
        "reduction_file": FileRecord(**raw["reduction_file"]),
        # Stores of development versions have one value more.
        "calibration": Calibration(**{k: v for k, v in raw["calibration"].items() if k != "agreeing_weight"}),
        "segments": segments,
    }
    return Manifest(**{name: value for name, value in {**raw, **parts}.items() if name != "checksum"})
