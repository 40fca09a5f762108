"""Indexes on a server: which rows the segments of a store have there, and which of them are no longer needed.

A memory has a number that follows from where it is: a copy of a store has the rows of the original, and leaves them
alone. Rows are deleted once no manifest names them.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from nearmt.config.store import StoreConfig
from nearmt.datastore.disk import AnySegment, Manifest, Segment, SegmentRecord
from nearmt.errors import ConfigError, IndexServerError
from nearmt.index.milvus import Collection, MilvusIndex, RemoteUse, open_collection
from nearmt.index.vector_server import Address
from nearmt.opening import BUILDING, REPAIRING


def is_remote(record: SegmentRecord) -> bool:
    return bool(record.index["kind"] == "milvus")


def remote_use(config: StoreConfig) -> RemoteUse:
    return RemoteUse(config.index_timeout, config.index_fallback == "model", config.index_server)


def store_device(folder: Path, nominate: str, model_device: str) -> str:
    """Where keys are when nothing else is said: on the model's device, unless a server nominates."""
    on_server = nominate == "auto" and any(map(is_remote, Manifest.load(folder).segments))
    return "cpu" if on_server else model_device


def number_of(folder: Path) -> int:
    """The number of the memory in a folder, or in the folder around an unfinished build."""
    folder = folder.absolute()
    folder = (folder.parent if folder.name in (BUILDING, REPAIRING) else folder).resolve()
    known = f"{folder}|{folder.stat().st_ino}"
    return int.from_bytes(hashlib.sha256(known.encode(errors="surrogateescape")).digest()[:7], "big")


def open_remote(segment: AnySegment, use: RemoteUse) -> MilvusIndex:
    """The index of a segment on its server, or on the one that `use` names; nothing is asked yet."""
    described = segment.record.index
    address, folder = Address.parse(described["factory"]), _folder_of(segment)
    refusal = ""
    if use.server is not None:
        other = Address.parse(use.server)
        address = replace(address, host=other.host, port=other.port, database=other.database)
    elif not address.is_local and described["memory"] != number_of(folder):
        # Decoder states tell what is translated: they do not go to a server that somebody else has named.
        refusal = (
            f"{folder}: was made elsewhere, and its index is on {address.server}: to search there, set "
            f"index-server={address.server}; `nearmt reindex {folder} --index ...` makes one of its own"
        )
    collection = open_collection(address, described["collection"], use)
    return MilvusIndex(collection, described["part"], segment.record.kept, described["effort"], refusal)


def _folder_of(segment: AnySegment) -> Path:
    assert isinstance(segment, Segment)  # the live segment is on no server
    return segment.folder.parent


def remote_problems(folder: Path, manifest: Manifest) -> list[tuple[str, str]]:
    """The segments whose rows on a server cannot be found or cannot be counted, and why."""
    found: list[tuple[str, str]] = []
    for record in filter(is_remote, manifest.segments):
        index = open_remote(Segment(folder / record.name, record, manifest.columns), RemoteUse())
        try:
            index.check_allowed()
            # Not the one that searches use: it knows what it has counted.
            counting = Collection(index.collection.address, index.collection.name, index.collection.use)
            counting.wait_for({index.part: index.rows})
        except (IndexServerError, ConfigError) as error:
            found.append((record.name, str(error)))
    return found
