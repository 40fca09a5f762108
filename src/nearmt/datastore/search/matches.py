"""A memory as translators know it: the same source, and sources that resemble it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from nearmt.contracts import Pair
from nearmt.corpus import Match, clean
from nearmt.datastore.disk import AnySegment
from nearmt.datastore.disk.ids import DigestIndex
from nearmt.errors import MissingPackageError


class SegmentSources:
    """The sources of a segment. Digests are held, and the texts only once they are compared."""

    def __init__(self, segment: AnySegment) -> None:
        self.segment = segment

    @cached_property
    def digests(self) -> DigestIndex:
        count = self.segment.record.pairs
        return DigestIndex(np.fromiter((_digest(pair.source) for pair in self.segment.pairs()), np.uint64, count))

    @cached_property
    def texts(self) -> list[str]:
        return [pair.source for pair in self.segment.pairs()]


class SourceLookup:
    """Finds pairs of several segments by their source."""

    def __init__(self, parts: Sequence[SegmentSources], seen_P: np.ndarray | None) -> None:
        """`seen_P` says which pairs can be found; None stands for all."""
        self._parts, self._seen_P = parts, seen_P
        self._starts = np.cumsum([0, *(part.segment.record.pairs for part in parts)]).tolist()

    def exact(self, source: str) -> Pair | None:
        """The pair of this very source; the latest, if there are several."""
        digest, wanted = _digest(source), clean(source)
        for number in reversed(range(len(self._parts))):
            part = self._parts[number]
            for place in reversed(part.digests.find(digest)):
                if self._is_seen(number, place):
                    pair = part.segment.pair(place)
                    if clean(pair.source) == wanted:
                        return pair
        return None

    def fuzzy(self, source: str, limit: int, threshold: float) -> list[Match]:
        """The pairs whose sources resemble it most: 1 - edit distance in characters / the longer length."""
        try:
            from rapidfuzz import process
            from rapidfuzz.distance import Levenshtein
        except ImportError as error:
            raise MissingPackageError("fuzzy matches need the package rapidfuzz: pip install rapidfuzz") from error
        found: list[tuple[float, Pair]] = []
        for number, part in enumerate(self._parts):
            # What is hidden does not count, so it must not push out what does.
            texts = [text if self._is_seen(number, place) else None for place, text in enumerate(part.texts)]
            best = process.extract(
                clean(source),
                texts,
                scorer=Levenshtein.normalized_similarity,
                score_cutoff=threshold,
                # Some more, because the same pair may be there several times.
                limit=limit * 4,
            )
            found += [(similarity, part.segment.pair(place)) for _, similarity, place in best]
        found.sort(key=lambda match: -match[0])
        matches: dict[tuple[str, str], Match] = {}
        for similarity, pair in found:
            matches.setdefault(
                (pair.source, pair.target), Match(pair.source, pair.target, similarity, pair.id, pair.origin)
            )
        return list(matches.values())[:limit]

    def _is_seen(self, number: int, place: int) -> bool:
        return self._seen_P is None or bool(self._seen_P[self._starts[number] + place])


def _digest(source: str) -> int:
    content = clean(source).encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
