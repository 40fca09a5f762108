"""Exact and fuzzy matches by source text, as in other translation memories."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from nearmt.contracts import Pair
from nearmt.corpus import Match, Unit, clean, plain_text
from nearmt.datastore.disk import AnySegment
from nearmt.datastore.disk.ids import DigestIndex
from nearmt.datastore.search.contexts import Candidate, ExactMatch, best_of
from nearmt.errors import MissingPackageError

#: The latest pairs with a source that are compared by their context.
_CANDIDATES = 1000
_64_BITS = (1 << 64) - 1


class SegmentSources:
    """The sources of a segment: digests for exact matches, and texts once a fuzzy match needs them."""

    def __init__(self, segment: AnySegment) -> None:
        self.segment = segment

    @cached_property
    def digests(self) -> DigestIndex:
        count = self.segment.record.pairs
        return DigestIndex(np.fromiter(map(_digest, self.segment.sources()), np.uint64, count))

    @cached_property
    def texts(self) -> list[str]:
        return list(self.segment.sources())

    def around(self, position: int) -> tuple[str, str]:
        """The cleaned sources of the pairs before and after one; empty where there is none."""
        before, after = position - 1, position + 1
        return (
            clean(self.segment.pair(before).source) if before >= 0 else "",
            clean(self.segment.pair(after).source) if after < self.segment.record.pairs else "",
        )


class SourceLookup:
    """Finds pairs of several segments by their source text."""

    def __init__(self, parts: Sequence[SegmentSources], seen_P: np.ndarray | None) -> None:
        """`seen_P`: which pairs are visible; None if all."""
        self._parts, self._seen_P = parts, seen_P
        self._starts = np.cumsum([0, *(part.segment.record.pairs for part in parts)]).tolist()

    def exact(self, source: str) -> Pair | None:
        """The pair with exactly this source; the latest, if there are several."""
        digest, wanted = _digest(source), clean(source)
        for number in reversed(range(len(self._parts))):
            part = self._parts[number]
            for position in reversed(part.digests.find(digest)):
                if self._is_visible(number, position):
                    pair = part.segment.pair(position)
                    if clean(pair.source) == wanted:
                        return pair
        return None

    def exact_match(self, unit: Unit) -> ExactMatch | None:
        """The pair with exactly the source of a unit whose context fits best."""
        digest, wanted = _digest(plain_text(unit.source)), clean(plain_text(unit.source))
        found: list[Candidate] = []
        for number in reversed(range(len(self._parts))):
            part = self._parts[number]
            for position in reversed(part.digests.find(digest)):
                if self._is_visible(number, position) and len(found) < _CANDIDATES:
                    pair = part.segment.pair(position)
                    if clean(pair.source) == wanted:
                        found.append(Candidate(unit, pair, part.around(position)))
        return best_of(found)

    def containing(self, term: str, limit: int) -> list[Pair]:
        """The latest pairs whose sources contain a term as whole words."""
        pattern = re.compile(rf"(?<!\w){re.escape(term)}(?!\w)")
        found: list[Pair] = []
        for number in reversed(range(len(self._parts))):
            part = self._parts[number]
            for position in reversed(range(len(part.texts))):
                if len(found) == limit:
                    return found
                text = part.texts[position]
                if term in text and self._is_visible(number, position) and pattern.search(text):
                    found.append(part.segment.pair(position))
        return found

    def fuzzy(self, source: str, limit: int, threshold: float) -> list[Match]:
        """The pairs with the most similar sources. Similarity: 1 - edit distance in characters / longer length."""
        try:
            from rapidfuzz import process
            from rapidfuzz.distance import Levenshtein
        except ImportError as error:
            raise MissingPackageError("fuzzy matches need the package rapidfuzz: pip install rapidfuzz") from error
        found: list[tuple[float, Pair]] = []
        for number, part in enumerate(self._parts):
            # Hidden pairs are masked before the search, so they do not use up the limit.
            texts = [text if self._is_visible(number, position) else None for position, text in enumerate(part.texts)]
            best = process.extract(
                clean(source),
                texts,
                scorer=Levenshtein.normalized_similarity,
                score_cutoff=threshold,
                # More than asked for, because duplicates are dropped below.
                limit=limit * 4,
            )
            found += [(similarity, part.segment.pair(position)) for _, similarity, position in best]
        found.sort(key=lambda match: -match[0])
        matches: dict[tuple[str, str], Match] = {}
        for similarity, pair in found:
            matches.setdefault(
                (pair.source, pair.target), Match(pair.source, pair.target, similarity, pair.id, pair.origin)
            )
        return list(matches.values())[:limit]

    def _is_visible(self, part: int, position: int) -> bool:
        return self._seen_P is None or bool(self._seen_P[self._starts[part] + position])


def _digest(source: str) -> int:
    """A 64-bit hash of a cleaned source, valid in this process: what it finds is compared."""
    return hash(clean(source)) & _64_BITS
