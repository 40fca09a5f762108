"""Writing an adapter into the folder of a datastore, and reading it: its file is untrusted input."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nearmt.datastore.disk import FileRecord, Manifest
from nearmt.datastore.disk.adapter_record import AdapterRecord
from nearmt.datastore.disk.file_checks import ALTERED, damage_of, damaged_file
from nearmt.errors import DatastoreError, ModelError, writing
from nearmt.models import Adapter


def read_adapter(folder: Path, manifest: Manifest) -> Adapter | None:
    """The adapter of a datastore, if it has one."""
    record = manifest.adapter
    if record is None:
        return None
    path = folder / record.name
    if reason := damage_of(path, record.file):
        raise damaged_file(path, reason)
    try:
        adapter = Adapter.load(path)
    except ModelError as error:
        raise DatastoreError(str(error)) from error
    if adapter.fingerprint != record.fingerprint:
        raise damaged_file(path, ALTERED)
    return adapter


def write_adapter(folder: Path, adapter: Adapter, known: int) -> AdapterRecord:
    """Write an adapter; so many pairs are older than it."""
    notes = adapter.notes
    made = AdapterRecord(
        identity=adapter.identity,
        file=FileRecord(0, ""),
        base=adapter.base,
        rank=adapter.rank,
        trained=int(notes.get("pairs", 0)),
        held_out=len(adapter.held_out),
        base_loss=float(notes.get("base_loss", 0.0)),
        loss=float(notes.get("loss", 0.0)),
        created=str(notes.get("created", "")),
        known=known,
    )
    with writing(folder):
        adapter.save(folder / made.name)
        return replace(made, file=FileRecord.of(folder / made.name))
