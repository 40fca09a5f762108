"""Whether the numbers in a file lead to where there is something.

Kernels and FAISS follow them without looking, so they are compared with each other when a segment is opened, whatever
checksums say and however large the store is: all but the keys, which cannot lead anywhere, are read in milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nearmt.datastore.disk.manifest import REPAIR
from nearmt.errors import DatastoreError

#: No vocabulary is larger; that of a store's model is known when the two meet.
MOST_TOKENS = 1 << 24
#: Numbers that are looked at together.
_BLOCK = 1 << 20
#: The bits of an infinite number in half precision, without its sign.
_INFINITE = 0x7C00 << 1


class Damage(NamedTuple):
    """What is wrong with a file."""

    file: str
    reason: str


def damaged(path: Path, reason: str) -> DatastoreError:
    return DatastoreError(f"{path}: damaged ({reason}); {REPAIR}")


def is_ascending(value_X: np.ndarray, low: int, high: int, strictly: bool = False) -> bool:
    """Whether numbers ascend from at least `low` to at most `high`."""
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
    """Whether half-precision numbers are all numbers."""
    bit_X = np.asarray(key_ND).reshape(-1).view(np.uint16)
    # Without the sign, those that are none are the largest.
    blocks = (bit_X[start : start + _BLOCK] << 1 for start in range(0, len(bit_X), _BLOCK))
    return all(int(block_X.max()) < _INFINITE for block_X in blocks)


def _all_of(right: Callable[[int, int], np.ndarray], count: int) -> bool:
    """Whether all of so many places are right, some at a time."""
    return all(bool(right(start, start + _BLOCK).all()) for start in range(0, count, _BLOCK))


def are_ends(end_P: np.ndarray, last: int) -> bool:
    """Whether parts that end there follow one another and are all there is."""
    if not len(end_P):
        return last == 0
    return is_ascending(end_P, 0, last) and int(end_P[-1]) == last


def are_starts(start_P: np.ndarray, size: int) -> bool:
    """Whether lines begin where they can; every line has a byte."""
    if not len(start_P):
        return size == 0
    return int(start_P[0]) == 0 and is_ascending(start_P, 0, size - 1, strictly=True)
