"""Rows of different lengths, one behind the other in an array: cut, chosen and padded without a loop over rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Self

import numpy as np


@dataclass(frozen=True)
class Ragged:
    """Numbers of R rows."""

    value_X: np.ndarray
    length_R: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]], kind: Any = np.int32) -> Self:
        length_R = np.fromiter(map(len, rows), np.int64, len(rows))
        return cls(np.fromiter(chain.from_iterable(rows), kind, int(length_R.sum())), length_R)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The rows of several, in their order."""
        return cls(*(np.concatenate(arrays) for arrays in zip(*((p.value_X, p.length_R) for p in parts), strict=True)))

    def __len__(self) -> int:
        return len(self.length_R)

    @cached_property
    def end_R(self) -> np.ndarray:
        """Where each row ends."""
        return np.cumsum(self.length_R)

    @cached_property
    def start_R(self) -> np.ndarray:
        """Where each row begins."""
        start_R: np.ndarray = self.end_R - self.length_R
        return start_R

    def rows(self) -> list[np.ndarray]:
        """A view of each row."""
        return np.split(self.value_X, self.end_R[:-1]) if len(self) else []

    def take(self, row_B: np.ndarray) -> Ragged:
        """Some rows, in this order."""
        length_B = self.length_R[row_B]
        return Ragged(self.value_X[ranges(self.start_R[row_B], length_B)], length_B)

    def padded(self, fill: int, least: int = 0) -> np.ndarray:
        """All rows, filled up on the right to the length of the longest, and to at least so many columns."""
        width = max(least, int(self.length_R.max(initial=0)))
        padded_RX = np.full((len(self), width), fill, dtype=np.int64)
        padded_RX[np.arange(width) < self.length_R[:, None]] = self.value_X
        return padded_RX


def ranges(start_R: np.ndarray, length_R: np.ndarray) -> np.ndarray:
    """The numbers from each start on, as many as its length says, all of them one behind the other."""
    before_R = np.cumsum(length_R) - length_R
    return np.repeat(start_R - before_R, length_R) + np.arange(int(length_R.sum()))
