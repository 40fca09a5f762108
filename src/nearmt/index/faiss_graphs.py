"""The links of an HNSW index (Malkov and Yashunin 2018), as FAISS stores them.

Entry n is on the levels 0 to level_N[n] - 1. Its links stand from offset_N[n] on, those of level l from bound_L[l]
up to bound_L[l + 1] behind it; -1 fills up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Entries whose links are looked at together.
_BLOCK = 1 << 14


class Graph(NamedTuple):
    """Links, the entry with which a search begins, and its level."""

    bound_L: np.ndarray
    level_N: np.ndarray
    offset_N: np.ndarray
    link_X: np.ndarray
    entry: int
    highest: int

    def check(self) -> None:
        """Refuse (ValueError) links that lead to where there is nothing; a search follows them without looking."""
        entries, bound_L, offset_N = len(self.level_N), self.bound_L, self.offset_N
        if not len(bound_L) or bound_L[0] != 0 or bool((bound_L[1:] < bound_L[:-1]).any()):
            raise ValueError("bounds of links that do not ascend")
        if bool((self.level_N < 1).any() or (self.level_N >= len(bound_L)).any()):
            raise ValueError("levels that do not exist")
        room_N = bound_L[self.level_N].astype(np.uint64)
        if offset_N[0] != 0 or bool((offset_N[1:] - offset_N[:-1] != room_N).any()) or offset_N[-1] != len(self.link_X):
            raise ValueError("links that are not where they should be")
        if bool((self.link_X < -1).any() or (self.link_X >= entries).any()):
            raise ValueError("links to entries that do not exist")
        self._check_entry()
        for level in range(int(self.level_N.max(initial=0))):
            self._check_level(level)

    def _check_entry(self) -> None:
        """A search begins on the highest level, or not at all."""
        if not len(self.level_N):
            if (self.entry, self.highest) != (-1, -1):
                raise ValueError("a first entry that does not exist")
        elif not 0 <= self.entry < len(self.level_N):
            raise ValueError("a first entry that does not exist")
        elif not int(self.level_N.max()) == int(self.level_N[self.entry]) == self.highest + 1:
            raise ValueError("a first entry that is not on the highest level")

    def _check_level(self, level: int) -> None:
        """Links of a level lead to entries that are on it: others have no links there."""
        place_K = np.arange(self.bound_L[level], self.bound_L[level + 1], dtype=np.int64)
        there_M = np.flatnonzero(self.level_N > level)
        for start in range(0, len(there_M), _BLOCK):
            offset_B = self.offset_N[there_M[start : start + _BLOCK]].astype(np.int64)
            link_BK = self.link_X[offset_B[:, None] + place_K]
            if bool((self.level_N[np.maximum(link_BK, 0)] <= level)[link_BK >= 0].any()):
                raise ValueError("links to entries of another level")
