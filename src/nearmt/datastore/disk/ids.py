"""Stable identities of pairs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from nearmt.contracts import Pair


def digest_of(identity: str) -> int:
    """64 bits by which a pair is looked up by its id."""
    return int.from_bytes(hashlib.blake2b(identity.encode(errors="surrogatepass"), digest_size=8).digest(), "little")


def content_id(pair: Pair) -> str:
    """The id of a pair that has none: a hash of what it says."""
    content = f"{pair.source}\t{pair.target}".encode(errors="surrogatepass")
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def with_ids(pairs: Iterable[Pair], known: Callable[[str], bool] | None = None) -> Iterator[Pair]:
    """Give an id to pairs that have none: a hash of the content, with a count where it recurs.

    `known` tells which ids were given out before.
    """
    seen: dict[str, int] = {}
    for pair in pairs:
        if pair.id:
            yield pair
            continue
        key = content_id(pair)
        seen[key] = seen.get(key, 0) + 1
        while known and known(numbered(key, seen[key])):
            seen[key] += 1
        yield replace(pair, id=numbered(key, seen[key]))


def numbered(key: str, count: int) -> str:
    return key if count == 1 else f"{key}-{count}"


class DigestIndex:
    """Where digests stand in a list of them: 16 bytes each, made once for a list that does not change."""

    def __init__(self, digest_P: np.ndarray) -> None:
        self._order_P = np.argsort(digest_P, kind="stable")
        self._sorted_P = digest_P[self._order_P]

    def find(self, digest: int) -> list[int]:
        """All places, ascending."""
        first, last = (int(np.searchsorted(self._sorted_P, np.uint64(digest), side)) for side in ("left", "right"))
        found: list[int] = self._order_P[first:last].tolist()
        return found
