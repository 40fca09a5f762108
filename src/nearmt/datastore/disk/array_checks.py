"""Bounds checks of the arrays in a segment's files.

Kernels and FAISS use offsets and tokens without bounds checks, so all of them are checked when a segment is opened,
whatever checksums say and however large the store is. That takes milliseconds: keys, which are not used as offsets,
are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nearmt.datastore.disk.manifest import REPAIR
from nearmt.errors import DatastoreError

#: Upper bound of all vocabularies; the model's own size is checked once a model is used with the store.
MOST_TOKENS = 1 << 24
#: Numbers that are checked at a time.
_BLOCK = 1 << 20
#: The bits of infinity in half precision, shifted left to drop the sign.
_INFINITE = 0x7C00 << 1


class Damage(NamedTuple):
    """A damaged file of a segment."""

    file: str
    reason: str


def damaged(path: Path, reason: str) -> DatastoreError:
    return DatastoreError(f"{path}: damaged ({reason}); {REPAIR}")


def is_ascending(value_X: np.ndarray, low: int, high: int, strictly: bool = False) -> bool:
    """Whether numbers ascend and lie between `low` and `high`, both included."""
    if not len(value_X):
        return True
    before_X, behind_X = value_X[:-1], value_X[1:]
    step = np.less if strictly else np.less_equal
    ascends = _all_of(lambda start, end: step(before_X[start:end], behind_X[start:end]), len(before_X))
    return ascends and low <= int(value_X[0]) and int(value_X[-1]) <= high


def is_within(value_X: np.ndarray, low: int, high: int) -> bool:
    """Whether low <= number < high holds for all numbers."""
    return _all_of(lambda start, end: (value_X[start:end] >= low) & (value_X[start:end] < high), len(value_X))


def is_finite(key_ND: np.ndarray) -> bool:
    """Whether all half-precision numbers are finite."""
    bit_X = np.asarray(key_ND).reshape(-1).view(np.uint16)
    # Without the sign bit, infinity and NaN have the largest bit patterns.
    blocks = (bit_X[start : start + _BLOCK] << 1 for start in range(0, len(bit_X), _BLOCK))
    return all(int(block_X.max()) < _INFINITE for block_X in blocks)


def _all_of(check: Callable[[int, int], np.ndarray], count: int) -> bool:
    """Whether `check(start, end)` holds everywhere from 0 to `count`, evaluated block by block."""
    return all(bool(check(start, start + _BLOCK).all()) for start in range(0, count, _BLOCK))


def are_ends(end_P: np.ndarray, last: int) -> bool:
    """Whether ends ascend and the last one is `last`."""
    if not len(end_P):
        return last == 0
    return is_ascending(end_P, 0, last) and int(end_P[-1]) == last


def are_starts(start_P: np.ndarray, size: int) -> bool:
    """Whether starts of lines begin at 0 and ascend strictly below `size`."""
    if not len(start_P):
        return size == 0
    return int(start_P[0]) == 0 and is_ascending(start_P, 0, size - 1, strictly=True)
