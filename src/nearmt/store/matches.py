"""A memory as translators know it: the same source, and sources that resemble it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

import numpy as np

from nearmt.contracts import Pair
from nearmt.corpus import Match, clean
from nearmt.errors import MissingPackageError


class SourceLookup:
    """Finds pairs by their source; 16 bytes a pair are held, and the sources only once they are compared."""

    def __init__(self, pairs: Callable[[], Iterator[Pair]], pair: Callable[[int], Pair]) -> None:
        """`pairs` walks through all of them, in corpus order; `pair` gives the one of a number."""
        self._pairs, self._pair = pairs, pair
        self._sources: list[str] | None = None
        digest_P = np.fromiter((_digest(pair.source) for pair in pairs()), dtype=np.uint64)
        self._order_P = np.argsort(digest_P, kind="stable")
        self._digest_P = digest_P[self._order_P]

    def exact(self, source: str) -> Pair | None:
        """The pair of this very source; the latest, if there are several."""
        digest = np.uint64(_digest(source))
        first, last = (int(np.searchsorted(self._digest_P, digest, side)) for side in ("left", "right"))
        for place in reversed(range(first, last)):
            pair = self._pair(int(self._order_P[place]))
            if clean(pair.source) == clean(source):
                return pair
        return None

    def fuzzy(self, source: str, limit: int, threshold: float) -> list[Match]:
        """The pairs whose sources resemble it most: 1 - edit distance in characters / the longer length."""
        try:
            from rapidfuzz import process
            from rapidfuzz.distance import Levenshtein
        except ImportError as error:
            raise MissingPackageError("fuzzy matches need the package rapidfuzz: pip install rapidfuzz") from error
        if self._sources is None:
            self._sources = [pair.source for pair in self._pairs()]
        found = process.extract(
            clean(source),
            self._sources,
            scorer=Levenshtein.normalized_similarity,
            score_cutoff=threshold,
            # Some more, because the same pair may be there several times.
            limit=limit * 4,
        )
        matches: dict[tuple[str, str], Match] = {}
        for _, similarity, number in found:
            pair = self._pair(number)
            matches.setdefault(
                (pair.source, pair.target), Match(pair.source, pair.target, similarity, pair.id, pair.origin)
            )
        return list(matches.values())[:limit]


def _digest(source: str) -> int:
    return int.from_bytes(hashlib.blake2b(clean(source).encode(), digest_size=8).digest(), "little")
