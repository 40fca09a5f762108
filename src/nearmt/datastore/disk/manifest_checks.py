"""Validation of manifests: types, ranges and consistency of their values.

A manifest with a valid checksum may still come from an untrusted source. What it says about files is compared with
them when they are opened (`array_checks`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from nearmt.config.building import MOST_SECONDS
from nearmt.corpus.marks import KNOWN_MARKS

if TYPE_CHECKING:
    from nearmt.datastore.disk.adapter_record import AdapterRecord
    from nearmt.datastore.disk.file_checks import FileRecord
    from nearmt.datastore.disk.manifest import Calibration, Manifest, SegmentRecord

#: Upper bound of file sizes, and so of all counts.
_MOST = 1 << 50
#: Upper bound of the width of a model's states.
_MOST_COLUMNS = 1 << 16
#: Upper bound of clusters or candidates that a search visits.
_MOST_EFFORT = 1 << 20
#: Upper bound of the number of parts of a corpus.
_MOST_SHARDS = 1 << 20
#: Bounds of distances and scales: their squares must fit single precision.
_LEAST, _LARGEST = 1e-18, 1e18
_KINDS = ("exact", "faiss", "milvus")
#: The address of a server without a login, and the name of a collection there.
_ADDRESS, _COLLECTION = re.compile(r"milvus://[^\s@]{1,400}"), re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
#: Numbers of memories, and of segments among all of a collection.
_MOST_MEMORIES, _MOST_PARTS = 1 << 56, (1 << 31) - 1

Check = Callable[[Any], bool]


def check_manifest(manifest: Manifest) -> None:
    """Refuse (ValueError) values that nearmt never writes."""
    _check(vars(manifest), _MANIFEST)
    if manifest.cache_columns > manifest.columns:
        raise ValueError(f"cache_columns is {manifest.cache_columns} of {manifest.columns} columns")
    _check_file(manifest.reduction_file)
    _check_calibration(manifest.calibration)
    if manifest.shard is not None:
        _check_shard(manifest.shard)
    if manifest.adapter is not None:
        _check_adapter(manifest.adapter, manifest.fingerprint)
    for segment in manifest.segments:
        _check_segment(segment)
    names = [segment.name for segment in manifest.segments]
    if len(set(names)) < len(names):
        raise ValueError("two segments of one name")


def _check(values: Mapping[str, Any], checks: Mapping[str, Check]) -> None:
    for name, right in checks.items():
        if not right(values[name]):
            raise ValueError(f"{name} is {str(values[name])[:40]!r}")


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _whole(low: int, high: int) -> Check:
    # `type`, because bool is a subclass of int.
    return lambda value: type(value) is int and low <= value <= high


def _real(low: float, high: float) -> Check:
    return lambda value: type(value) in (int, float) and low <= value <= high


def _or_none(right: Check) -> Check:
    return lambda value: value is None or right(value)


_COUNT, _SHARE, _TIME = _whole(0, _MOST), _real(0, 1), _real(0, _MOST)
_MANIFEST: dict[str, Check] = {
    **dict.fromkeys(("model", "fingerprint", "source_lang", "target_lang", "key_layer", "precision"), _text),
    **dict.fromkeys(("reduction", "nearmt", "created", "cleaning"), _text),
    "log": _or_none(_text),
    "shard": _or_none(lambda value: isinstance(value, dict)),
    "keep_replaced": _whole(0, MOST_SECONDS),
    "replaced": lambda value: isinstance(value, dict) and all(map(_TIME, value.values())),
    "marks": lambda value: value in KNOWN_MARKS,
    "columns": _whole(1, _MOST_COLUMNS),
    "cache_columns": _whole(1, _MOST_COLUMNS),
}
_CALIBRATION: dict[str, Check] = {
    **dict.fromkeys(("search_scale", "cache_scale"), _real(_LEAST, _LARGEST)),
    **dict.fromkeys(("queries", "k", "entries"), _COUNT),
    **dict.fromkeys(("likely_weight", "agreement", "recall"), _or_none(_SHARE)),
    "familiar": _or_none(_real(0, _LARGEST)),
}
_SEGMENT: dict[str, Check] = {
    "name": _text,
    **dict.fromkeys(("pairs", "entries", "too_long"), _COUNT),
    "files": lambda value: isinstance(value, dict),
    "index": lambda value: isinstance(value, dict),
    "deleted": _or_none(lambda value: isinstance(value, dict)),
}
_ADAPTER: dict[str, Check] = {
    **dict.fromkeys(("identity", "base", "created"), _text),
    "rank": _whole(1, _MOST_COLUMNS),
    **dict.fromkeys(("trained", "held_out", "known"), _COUNT),
    **dict.fromkeys(("loss", "base_loss"), _real(0, _LARGEST)),
}
_INDEX: dict[str, Check] = {
    "factory": _text,
    "effort": _whole(0, _MOST_EFFORT),
    "recall": _SHARE,
    "unit": _real(_LEAST, _LARGEST),
    "quantiser": lambda value: isinstance(value, dict),
    "pruned": lambda value: isinstance(value, dict),
}

_REMOTE: dict[str, Check] = {
    "factory": lambda value: isinstance(value, str) and _ADDRESS.fullmatch(value) is not None,
    "collection": lambda value: isinstance(value, str) and _COLLECTION.fullmatch(value) is not None,
    "memory": _whole(0, _MOST_MEMORIES),
    "part": _whole(1, _MOST_PARTS),
}


def _check_file(file: FileRecord) -> None:
    _check(vars(file), {"bytes": _COUNT, "sha256": _text})


def _check_calibration(calibration: Calibration) -> None:
    _check(vars(calibration), _CALIBRATION)


def _check_adapter(adapter: AdapterRecord, fingerprint: str) -> None:
    _check(vars(adapter), _ADAPTER)
    _check_file(adapter.file)
    _check({"fingerprint": fingerprint}, {"fingerprint": lambda value: value == adapter.fingerprint})


def _check_shard(shard: dict[str, Any]) -> None:
    _check(shard, {"count": _whole(1, _MOST_SHARDS), "digest": _text, "pairs": _COUNT, "characters": _COUNT})
    _check(shard, {"number": _whole(1, shard["count"]), "first": _whole(0, shard["pairs"])})


def _check_segment(segment: SegmentRecord) -> None:
    _check(vars(segment), _SEGMENT)
    for file in segment.files.values():
        _check_file(file)
    known: Check = lambda name: isinstance(name, str) and name in segment.files  # noqa: E731
    pairs, entries = _whole(0, segment.pairs), _whole(0, segment.entries)
    _check(vars(segment), {"too_long": pairs})
    if segment.deleted is not None:
        _check(segment.deleted, {"file": known, "pairs": pairs, "entries": entries})
    index = segment.index
    _check(index, {"kind": lambda kind: kind in _KINDS})
    _check(index, {name: right for name, right in _INDEX.items() if name in index})
    if (pruned := segment.pruned) is not None:
        _check(pruned, {"file": known, "kept": entries})
    if index["kind"] == "faiss":
        _check(index, {**{name: _INDEX[name] for name in ("factory", "effort", "recall")}, "file": known})
        _check({"kept": segment.kept}, {"kept": _whole(1, segment.entries)})
    if index["kind"] == "milvus":
        _check(index, {**{name: _INDEX[name] for name in ("effort", "recall")}, **_REMOTE})
        _check({"kept": segment.kept}, {"kept": _whole(1, segment.entries)})
    if "quantiser" in index:
        _check(index["quantiser"], {"file": _text, "entries": _COUNT})
