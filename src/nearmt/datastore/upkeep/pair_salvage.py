"""The readable pairs of a damaged segment, and the names of lost ones."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path

import numpy as np

from nearmt.contracts import Pair
from nearmt.corpus.marks import KNOWN_MARKS
from nearmt.datastore.disk.ids import digest_of
from nearmt.datastore.disk.pairs import pair_from_json
from nearmt.datastore.disk.segment import END, ID, PAIR_START, PAIRS, SOURCE, SOURCE_END, TOKEN
from nearmt.datastore.edit.tokens import tokens_of
from nearmt.models import TextCodec
from nearmt.opening import exists_inside, opened

#: The beginning of a line of pairs, with the id.
_ID = re.compile(rb'\{"id": ("(?:[^"\\]|\\.)*")')
_TEXTS = ("id", "source", "target", "origin")


@dataclass
class Salvaged:
    """Pairs in corpus order, and the names (ids, or positions) of lost pairs, each with its number."""

    pairs: list[tuple[int, Pair]] = field(default_factory=list)
    lost: list[tuple[int, str]] = field(default_factory=list)
    #: Whether the numbers are those in the original segment; otherwise they count readable pairs only.
    numbered: bool = True


def salvage_pairs(folder: Path, count: int | None, sound: Collection[str], codec: TextCodec) -> Salvaged:
    """Read the pairs of a damaged segment.

    `count`: number of pairs there were, if known; `sound`: names of undamaged files. A line is kept if it is a valid
    pair and its id and tokens agree with the undamaged files at its position.
    """
    data = b""
    if exists_inside(folder / PAIRS):
        with opened(folder / PAIRS) as file:
            data = file.read()
    lines = data.split(b"\n")[: -1 if data.endswith(b"\n") else None] if data else []
    starts = _read(folder, PAIR_START, "<i8", sound)
    placed = lines if starts is None else _slices(data, starts)
    numbered = starts is not None or len(lines) == count
    agrees = _Evidence(folder, sound, codec).agrees if numbered else _always
    found: dict[int, Pair] = {}
    for number, line in enumerate(placed):
        pair = parsed(line)
        if pair is not None and agrees(number, pair):
            found[number] = pair
    ids = _read(folder, ID, "<u8", sound) if numbered else None
    _find_moved(lines, placed, found, agrees, ids)
    result = Salvaged(sorted(found.items(), key=itemgetter(0)), numbered=numbered)
    for number in range(max(len(placed), count or 0)):
        if number not in found:
            name = _name(placed[number]) if number < len(placed) else None
            if ids is not None and (name is None or number >= len(ids) or digest_of(name) != int(ids[number])):
                name = None
            result.lost.append((number, name or f"pair {number + 1} of {folder.name}"))
    return result


def parsed(line: bytes) -> Pair | None:
    """The pair on a line; None if it is not valid."""
    try:
        raw = json.loads(line)
        pair = pair_from_json(raw)
        texts = [getattr(pair, name) for name in _TEXTS] + [*pair.metadata, *pair.metadata.values()]
        whole = all(isinstance(text, str) and text.encode() is not None for text in texts)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    return pair if whole and pair.id else None


#: Largest file in which a single flipped bit is searched for, in bytes.
_LARGEST_FLIPPED = 8192


def without_flip(data: bytes, checksum: str) -> bytes | None:
    """Restore the content with this SHA-256, if it differs from `data` in a single bit."""
    if len(data) > _LARGEST_FLIPPED:
        return None
    tried = bytearray(data)
    for offset in range(len(tried)):
        for bit in range(8):
            tried[offset] ^= 1 << bit
            if hashlib.sha256(tried).hexdigest() == checksum:
                return bytes(tried)
            tried[offset] ^= 1 << bit
    return None


class _Evidence:
    """Ids and tokens of a segment's pairs in its undamaged files."""

    def __init__(self, folder: Path, sound: Collection[str], codec: TextCodec) -> None:
        self._codec = codec
        self._ids = _read(folder, ID, "<u8", sound)
        self._tokens = _read(folder, TOKEN, "<i4", sound), _read(folder, END, "<i8", sound)
        self._sources = _read(folder, SOURCE, "<i4", sound), _read(folder, SOURCE_END, "<i8", sound)

    def agrees(self, number: int, pair: Pair) -> bool:
        if self._ids is not None and (number >= len(self._ids) or digest_of(pair.id) != int(self._ids[number])):
            return False
        tokens, source = _part(self._tokens, number), _part(self._sources, number)
        # Pairs that are too long have no target tokens. Older stores have other marks, or none.
        expected = [tokens_of(self._codec, pair, marks) for marks in KNOWN_MARKS]
        return any((not source or source == one) and (not tokens or tokens == other) for one, other in expected)


def _always(number: int, pair: Pair) -> bool:
    return True


def _find_moved(
    lines: list[bytes],
    placed: list[bytes],
    found: dict[int, Pair],
    agrees: Callable[[int, Pair], bool],
    ids: np.ndarray | None,
) -> None:
    """Find valid lines that were shifted, because bytes before them were inserted or removed."""
    if ids is None or len(found) == len(placed):
        return
    missing: dict[int, list[int]] = {}
    for number, digest in enumerate(ids.tolist()):
        if number not in found:
            missing.setdefault(digest, []).append(number)
    for line in lines:
        pair = parsed(line)
        for number in missing.get(digest_of(pair.id), []) if pair else []:
            if pair and number not in found and agrees(number, pair):
                found[number] = pair
                break


def _slices(data: bytes, starts: np.ndarray) -> list[bytes]:
    ends = [*starts[1:].tolist(), len(data)]
    return [data[start:end] for start, end in zip(starts.tolist(), ends, strict=True)]


def _read(folder: Path, name: str, dtype: str, sound: Collection[str]) -> np.ndarray | None:
    if name not in sound:
        return None
    with opened(folder / name) as file:
        return np.fromfile(file, dtype=dtype)


def _part(values_and_ends: tuple[np.ndarray | None, np.ndarray | None], number: int) -> list[int]:
    values, ends = values_and_ends
    if values is None or ends is None or number >= len(ends):
        return []
    part: list[int] = values[int(ends[number - 1]) if number else 0 : int(ends[number])].tolist()
    return part


def _name(line: bytes) -> str | None:
    """The id at the beginning of a damaged line, if it is readable."""
    begin = _ID.match(line)
    try:
        return str(json.loads(begin.group(1))) if begin else None
    except ValueError:
        return None
