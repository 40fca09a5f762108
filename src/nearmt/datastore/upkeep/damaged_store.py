"""Reading a damaged store: its pairs, its log, and the model it was built with."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from nearmt.contracts import Pair
from nearmt.datastore.disk import FileRecord, Manifest, SegmentRecord
from nearmt.datastore.disk.file_checks import damage_of
from nearmt.datastore.disk.file_names import check_names
from nearmt.datastore.disk.log import Operation, salvage_log
from nearmt.datastore.disk.manifest import FILE_NAME, manifest_of
from nearmt.datastore.disk.manifest_checks import check_manifest
from nearmt.datastore.disk.replay import remaining_pairs
from nearmt.datastore.disk.retention import is_marked
from nearmt.datastore.disk.segment import END, PAIRS, numbers
from nearmt.datastore.edit.adapting import read_adapter
from nearmt.datastore.upkeep.pair_salvage import Salvaged, parsed, salvage_pairs, without_flip
from nearmt.datastore.upkeep.verify import SOUND, TORN
from nearmt.errors import DatastoreError
from nearmt.models import Adapter, TranslationModel
from nearmt.opening import exists_inside, opened

#: Loads a model, given the settings that could be read.
LoadModel = Callable[[dict[str, Any]], TranslationModel]

_SETTINGS = ("model", "source_lang", "target_lang", "key_layer")
_NAMED = 20


class DamagedStore:
    """Reads what is readable, and reports what is lost."""

    def __init__(self, path: Path, verdicts: Mapping[str, str], load: LoadModel) -> None:
        self.path, self._verdicts, self._load = path, verdicts, load
        self.report: list[str] = []
        #: Lost pairs: their ids, or their positions where the ids are unknown.
        self.lost: list[str] = []
        #: Whether the model has been loaded.
        self.loaded = False

    def is_sound(self, file: str) -> bool:
        return self._verdicts.get(file) == SOUND

    def is_whole(self, log: str) -> bool:
        """Whether a log is undamaged, apart from a torn tail."""
        return self._verdicts.get(log) in (SOUND, TORN)

    @cached_property
    def manifest(self) -> Manifest | None:
        """None if it is damaged."""
        return Manifest.load(self.path) if self.is_sound(FILE_NAME) else None

    @cached_property
    def claimed(self) -> Manifest | None:
        """The content of a damaged manifest, if it can be parsed; nothing in it is certain."""
        try:
            return self.manifest or claimed_by(self.path / FILE_NAME)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    @cached_property
    def model(self) -> TranslationModel:
        path, settings = self.path / FILE_NAME, {}
        text = _bytes_of(path).decode(errors="replace")
        for name in _SETTINGS:
            if known := re.search(rf'"{name}": "([^"\n]*)"', text):
                settings[name.replace("_", "-")] = known.group(1)
        model = self._load(settings)
        self.loaded = True
        return model.adapted(self._adapter())

    def _adapter(self) -> Adapter | None:
        """None if there is none, or if it is lost."""
        try:
            return None if self.claimed is None else read_adapter(self.path, self.claimed)
        except DatastoreError:
            return None

    def all_pairs(self) -> list[Pair]:
        """All readable pairs of the segments and the log."""
        segments = [self.pairs_of(record) for record in self._records()]
        added, changed = remaining_pairs(self._operations())
        found: list[Pair] = []
        for pairs in reversed(segments):
            # A pair whose id occurs again later was replaced.
            kept = [pair for pair in pairs if pair.id not in changed]
            changed |= {pair.id for pair in kept}
            found = kept + found
        return found + added

    def _records(self) -> list[SegmentRecord]:
        """The segments that a damaged manifest names; all segment folders if one of them is missing."""
        claimed = {} if self.claimed is None else {record.name: record for record in self.claimed.segments}
        folders = sorted(path.name for path in self.path.glob("segment-*") if path.is_dir() and not is_marked(path))
        if claimed and claimed.keys() <= set(folders):
            return list(claimed.values())
        return [claimed.get(name) or SegmentRecord(name, -1, 0, 0, {}) for name in folders]

    def pairs_of(self, record: SegmentRecord) -> list[Pair]:
        """The readable pairs of a segment that are not deleted. Of an unknown segment only the name is known."""
        folder = self.path / record.name
        sound = {name for name, file in record.files.items() if _is_sound(folder / name, file)}
        if PAIRS in sound:
            result = Salvaged([(number, pair) for number, pair in enumerate(parsed_lines(folder / PAIRS))])
        else:
            rows = _rows(folder / END)
            count = record.pairs if record.pairs >= 0 else None if rows < 0 else rows
            result = salvage_pairs(folder, count, sound, self.model.codec)
        deleted = self._deleted(record, sound, len(result.pairs) + len(result.lost)) if result.numbered else set()
        lost = [name for number, name in result.lost if number not in deleted]
        if lost:
            self.lost += lost
            self.report.append(f"{record.name}: {len(lost)} of its pairs are lost: {_named(lost)}")
        return [pair for number, pair in result.pairs if number not in deleted]

    def _deleted(self, record: SegmentRecord, sound: set[str], pairs: int) -> set[int]:
        """Numbers of the deleted pairs, as far as they are readable."""
        folder = self.path / record.name
        if record.deleted and record.deleted["file"] in sound:
            return set(numbers(folder / record.deleted["file"]).tolist())
        files = sorted(folder.glob("deleted-*.i64"), key=_rows) if record.pairs < 0 else []
        if files:  # shorter ones were replaced
            return self.still_deleted(files[-1], self._recorded(files[-1].name), None, pairs)
        if record.deleted:
            name = record.deleted["file"]
            return self.still_deleted(folder / name, record.files.get(name), record.deleted["pairs"], pairs)
        return set()

    def _recorded(self, name: str) -> FileRecord | None:
        """The record of a file in a manifest that cannot be parsed as a whole."""
        text = _bytes_of(self.path / FILE_NAME).decode(errors="replace")
        found = re.search(rf'"{re.escape(name)}": {{\s*"bytes": (\d+),\s*"sha256": "([0-9a-f]{{64}})"', text)
        return FileRecord(int(found.group(1)), found.group(2)) if found else None

    def still_deleted(self, path: Path, file: FileRecord | None, count: int | None, pairs: int) -> set[int]:
        """Numbers of deleted pairs that can be read in a damaged file; `count`: how many there were, if known."""
        name, data = f"{path.parent.name}/{path.name}", _bytes_of(path)
        total = count if count is not None else (len(data) if file is None else file.bytes) // 8
        if file is not None and hashlib.sha256(data).hexdigest() != file.sha256:
            if (restored := without_flip(data, file.sha256)) is not None:
                self.report.append(f"{name}: one bit was flipped; restored")
                data = restored
            elif len(data) >= file.bytes:
                data = b""  # a wrong number would delete another pair
        number_X = np.frombuffer(data[: len(data) // 8 * 8], dtype="<i8")
        ascends = bool((np.diff(number_X, prepend=-1) > 0).all()) and (not len(number_X) or int(number_X[-1]) < pairs)
        kept = number_X.tolist() if ascends else []
        if (missing := total - len(kept)) > 0:
            told = f"{missing} of its deleted pairs are not known any more: they are back, unless replaced"
            self.report.append(f"{name}: damaged; {told}")
        return set(kept)

    def _operations(self) -> list[Operation]:
        name = self.claimed.log if self.claimed else None
        logs = sorted(path.name for path in self.path.glob("log-*.log"))
        if logs and (self.claimed is None or (name is not None and name not in logs)):
            name = logs[-1]
        return [] if name is None else self.operations_of(name)

    def operations_of(self, log: str) -> list[Operation]:
        """The readable operations of a log."""
        try:
            found = salvage_log(self.path / log)
        except DatastoreError as error:
            self.report.append(f"{log}: all of it is lost ({error})")
            self.lost.append(f"operations of {log}")
            return []
        if not self.is_whole(log):
            # A log that was cut short does not show what is missing.
            lost = found.lost or [f"operations of {log}"]
            self.report.append(f"{log}: {len(found.operations)} operations are left of it; lost: {_named(lost)}")
            self.lost += lost
        return found.operations

    def ids_of(self, records: Sequence[SegmentRecord]) -> set[str]:
        """Ids of all readable pairs of segments."""
        return {pair.id for record in records for pair in parsed_lines(self.path / record.name / PAIRS)}


def _named(lost: Sequence[str]) -> str:
    more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
    return ", ".join(lost[:_NAMED]) + more


def parsed_lines(path: Path) -> list[Pair]:
    """The lines of a file that are valid pairs."""
    lines = _bytes_of(path).split(b"\n")
    return [pair for line in lines if (pair := parsed(line))]


def claimed_by(path: Path) -> Manifest:
    """Parse a manifest without comparing its checksum; values and names are validated."""
    manifest = manifest_of(json.loads(_bytes_of(path)))
    check_manifest(manifest)
    check_names(manifest)
    return manifest


def _bytes_of(path: Path) -> bytes:
    """The content of a file in a store; empty if it does not exist."""
    if not exists_inside(path):
        return b""
    with opened(path) as file:
        content: bytes = file.read()
    return content


def _is_sound(path: Path, record: FileRecord) -> bool:
    return damage_of(path, record) is None


def _rows(path: Path) -> int:
    """Number of 64-bit integers in a file; -1 if it does not exist."""
    return path.stat().st_size // 8 if path.is_file() else -1
