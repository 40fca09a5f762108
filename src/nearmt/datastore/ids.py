"""Stable identities of pairs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

from nearmt.contracts import Pair


def with_ids(pairs: Iterable[Pair], seen: dict[str, int]) -> Iterator[Pair]:
    """Give an id to pairs that have none: a hash of the content, with a count where it recurs.

    `seen` counts the hashes met so far, so that several calls continue one numbering.
    """
    for pair in pairs:
        if pair.id:
            yield pair
            continue
        content = f"{pair.source}\t{pair.target}".encode()
        key = hashlib.blake2b(content, digest_size=8).hexdigest()
        seen[key] = seen.get(key, 0) + 1
        yield replace(pair, id=key if seen[key] == 1 else f"{key}-{seen[key]}")
