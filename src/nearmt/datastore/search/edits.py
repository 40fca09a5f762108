"""Which of some sources differ least from a sentence, by edit distance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def edit_distances(source: Sequence[int], others: Sequence[Sequence[int]]) -> np.ndarray:
    """The fewest insertions, deletions and substitutions of tokens that make each of the others of a source, [C].

    The usual table, a row for each token of the source and for all others at a time.
    """
    longest = max((len(other) for other in others), default=0)
    token_CX = np.full((len(others), longest), -1, dtype=np.int64)
    for token_X, other in zip(token_CX, others, strict=True):
        token_X[: len(other)] = other
    place_X = np.arange(longest + 1)
    least_CX = np.tile(place_X, (len(others), 1))
    for row, token in enumerate(source, start=1):
        replaced_CX = least_CX[:, :-1] + (token_CX != token)
        least_CX = least_CX + 1
        least_CX[:, 1:] = np.minimum(least_CX[:, 1:], replaced_CX)
        least_CX[:, 0] = row
        # Insertions: the least of all that is to the left, and what lies between.
        least_CX = np.minimum.accumulate(least_CX - place_X, axis=1) + place_X
    length_C = np.array([len(other) for other in others], dtype=np.int64)
    found: np.ndarray = np.take_along_axis(least_CX, length_C[:, None], axis=1)[:, 0]
    return found


def by_similarity(source: Sequence[int], others: Sequence[Sequence[int]]) -> list[int]:
    """The places of all others, the most similar first, equals in their order.

    The similarity of two sentences is 1 - distance / max(|x|, |x'|).
    """
    length_C = np.array([max(len(source), len(other), 1) for other in others])
    order: list[int] = np.argsort(edit_distances(source, others) / length_C, kind="stable").tolist()
    return order
