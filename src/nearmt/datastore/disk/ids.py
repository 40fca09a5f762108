"""Ids of pairs, and looking them up."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from nearmt.contracts import Pair


def digest_of(identity: str) -> int:
    """A 64-bit hash of an id."""
    return int.from_bytes(hashlib.blake2b(identity.encode(errors="surrogatepass"), digest_size=8).digest(), "little")


def content_id(pair: Pair) -> str:
    """The id of a pair that comes without one: a hash of source and target."""
    content = f"{pair.source}\t{pair.target}".encode(errors="surrogatepass")
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def with_ids(pairs: Iterable[Pair], known: Callable[[str], bool] | None = None) -> Iterator[Pair]:
    """Give an id to pairs without one: a hash of the content, with a number where it recurs.

    Ids for which `known` returns True are not used.
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
        # Not `dataclasses.replace`, which takes three times as long.
        yield Pair(pair.source, pair.target, numbered(key, seen[key]), pair.origin, pair.metadata)


def numbered(key: str, count: int) -> str:
    return key if count == 1 else f"{key}-{count}"


class DigestIndex:
    """Finds the positions of a digest in a fixed list, by binary search; takes 16 bytes for each."""

    def __init__(self, digest_P: np.ndarray) -> None:
        self._order_P = np.argsort(digest_P, kind="stable")
        self._sorted_P = digest_P[self._order_P]

    def find(self, digest: int) -> list[int]:
        """All positions of a digest, ascending."""
        first, last = (int(np.searchsorted(self._sorted_P, np.uint64(digest), side)) for side in ("left", "right"))
        found: list[int] = self._order_P[first:last].tolist()
        return found
