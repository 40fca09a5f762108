"""Names of the files in a store. A manifest with any other name is refused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from nearmt.opening import SEGMENT

_SEGMENT = re.compile(SEGMENT)
_LOG = re.compile(r"log-\d{6,}\.log")
_LIVE = re.compile(r"live-\d{6,}\.blocks")
_REDUCTION = re.compile(r"reduction-[0-9a-f]{1,64}\.safetensors")
_ADAPTER = re.compile(r"adapter-[0-9a-f]{16}\.safetensors")
_QUANTISER = re.compile(r"quantiser-[0-9a-f]{8,64}\.faiss")
_SEGMENT_FILE = re.compile(
    r"key\.f16|token\.i32|end\.i64|pairs\.jsonl|pair_start\.i64|source\.i32|source_end\.i64|id\.u64|word\.u16"
    r"|index-[0-9a-f]{1,64}\.faiss|weight-[0-9a-f]{1,64}\.i32|deleted-[0-9a-f]{1,64}\.i64"
)


class _Segment(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def named_files(self) -> Iterable[str]: ...


class _Manifest(Protocol):
    @property
    def log(self) -> str | None: ...

    @property
    def reduction_name(self) -> str: ...

    @property
    def adapter_name(self) -> str | None: ...

    @property
    def quantisers(self) -> Iterable[str]: ...

    @property
    def segments(self) -> Iterable[_Segment]: ...


def is_ours(path: Path) -> bool:
    """Whether a file or folder has a name that nearmt uses inside a store."""
    return any(kind.fullmatch(path.name) for kind in (_SEGMENT, _LOG, _LIVE, _REDUCTION, _ADAPTER, _QUANTISER))


def check_names(manifest: _Manifest) -> None:
    """Refuse (ValueError) names that nearmt does not use, such as paths that lead out of the store."""
    _check(_LOG, [] if manifest.log is None else [manifest.log])
    _check(_REDUCTION, [manifest.reduction_name])
    _check(_ADAPTER, [] if manifest.adapter_name is None else [manifest.adapter_name])
    _check(_QUANTISER, manifest.quantisers)
    for segment in manifest.segments:
        _check(_SEGMENT, [segment.name])
        _check(_SEGMENT_FILE, segment.named_files)


def check_replaced(names: Iterable[str]) -> None:
    """Refuse (ValueError) names of replaced files that nearmt does not use."""
    for name in names:
        folder, _, inner = name.rpartition("/")
        if folder:
            _check(_SEGMENT, [folder])
            _check(_SEGMENT_FILE, [inner])
        elif not is_ours(Path(inner)):
            raise ValueError(f"{name!a} is no name of a datastore's file")


def _check(kind: re.Pattern[str], names: Iterable[str]) -> None:
    for name in names:
        if not isinstance(name, str) or not kind.fullmatch(name):
            raise ValueError(f"{name!a} is no name of a datastore's file")


def next_number(folder: Path, kind: str) -> int:
    """One more than the highest number of a folder's segments or logs."""
    taken = [int(path.name.split("-")[1].split(".")[0]) for path in folder.glob(f"{kind}-*") if is_ours(path)]
    return 1 + max(taken, default=0)


def segment_name(number: int) -> str:
    return f"segment-{number:06d}"


def log_name(number: int) -> str:
    return f"log-{number:06d}.log"
