"""The links of an HNSW index (Malkov and Yashunin 2018), as FAISS stores them.

Entry n is on the levels 0 to level_N[n] - 1. Its links stand from offset_N[n] on, those of level l from bound_L[l]
up to bound_L[l + 1] behind it; -1 fills up.
"""

from __future__ import annotations

import numpy as np

# Entries whose links are looked at together.
_BLOCK = 1 << 14


def check_graph(
    bound_L: np.ndarray, level_N: np.ndarray, offset_N: np.ndarray, link_X: np.ndarray, entry: int, highest: int
) -> None:
    """Refuse (ValueError) links that lead to where there is nothing; a search follows them without looking."""
    if not len(bound_L) or bound_L[0] != 0 or bool((bound_L[1:] < bound_L[:-1]).any()):
        raise ValueError("bounds of links that do not ascend")
    if bool((level_N < 1).any() or (level_N >= len(bound_L)).any()):
        raise ValueError("levels that do not exist")
    room_N = bound_L[level_N].astype(np.uint64)
    if offset_N[0] != 0 or bool((offset_N[1:] - offset_N[:-1] != room_N).any()) or offset_N[-1] != len(link_X):
        raise ValueError("links that are not where they should be")
    if bool((link_X < -1).any() or (link_X >= len(level_N)).any()):
        raise ValueError("links to entries that do not exist")
    if not len(level_N):
        if (entry, highest) != (-1, -1):
            raise ValueError("a first entry that does not exist")
        return
    if not 0 <= entry < len(level_N) or not int(level_N.max()) == int(level_N[entry]) == highest + 1:
        raise ValueError("a first entry that is not on the highest level")
    for level in range(int(level_N.max())):
        _check_level(level, bound_L, level_N, offset_N, link_X)


def _check_level(
    level: int, bound_L: np.ndarray, level_N: np.ndarray, offset_N: np.ndarray, link_X: np.ndarray
) -> None:
    """Links of a level lead to entries that are on it: others have no links there."""
    place_K = np.arange(bound_L[level], bound_L[level + 1], dtype=np.int64)
    there_M = np.flatnonzero(level_N > level)
    for start in range(0, len(there_M), _BLOCK):
        offset_B = offset_N[there_M[start : start + _BLOCK]].astype(np.int64)
        link_BK = link_X[offset_B[:, None] + place_K]
        if bool((level_N[np.maximum(link_BK, 0)] <= level)[link_BK >= 0].any()):
            raise ValueError("links to entries of another level")
